#!/usr/bin/env python3
"""Makes TensorBoard event files of the metrics of a run (`dynpipe train --metrics run.jsonl`).

Needs the Python package `tensorboard`. A last line that is not whole, as a killed job may leave
it, is passed over. To look at the result: tensorboard --logdir FOLDER
"""

import argparse
import json
import pathlib
import sys

BAD_INPUT = 2

# Key of a record: tag in TensorBoard.
TAGS = {
    "update": {
        "loss": "train/loss",
        "accuracy": "train/accuracy",
        "lr": "train/lr",
        "samples_per_s": "speed/samples_per_s",
    },
    "eval": {
        "test_loss": "test/loss",
        "test_accuracy": "test/accuracy",
        "train_loss": "train/epoch_loss",
        "train_accuracy": "train/epoch_accuracy",
    },
}


def fail(message):
    print(f"metrics_to_tensorboard.py: {message}", file=sys.stderr)
    sys.exit(BAD_INPUT)


def records_in(path):
    """The records of a metrics file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: {getattr(error, 'strerror', None) or error}")
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last "\n" is not whole
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            fail(f"{path}: line {number}: not a JSON record: {error}")
        if not isinstance(record, dict) or "kind" not in record:
            fail(f"{path}: line {number}: not a record of metrics")
        yield record


def scalars_of(record):
    """Tags and values of a record; what is null (not finite, not known yet) has none."""
    for key, tag in TAGS.get(record["kind"], {}).items():
        if record.get(key) is not None:
            yield tag, record[key]
    for stage, share in enumerate(record.get("busy", [])):
        if share is not None:
            yield f"busy/stage_{stage}", share


def write_events(records, folder, started_s):
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError as error:
        fail(f"the Python package tensorboard is missing ({error}): pip install tensorboard")
    writer = EventFileWriter(str(folder))
    for record in records:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars_of(record)]
        if values:
            writer.add_event(Event(wall_time=started_s + record["time_s"], step=record["update"],
                                   summary=Summary(value=values)))
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split(
        "\n\n")[1], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics", type=pathlib.Path, help="file that --metrics wrote (JSON lines)")
    parser.add_argument("folder", type=pathlib.Path, help="where the event files go")
    arguments = parser.parse_args()
    records = list(records_in(arguments.metrics))
    # Records count seconds from the run's start; the file's last change is the last of them.
    last_s = max((record.get("time_s", 0) for record in records), default=0)
    write_events(records, arguments.folder, arguments.metrics.stat().st_mtime - last_s)
    print(f"{len(records)} records are in {arguments.folder}")


if __name__ == "__main__":
    main()
