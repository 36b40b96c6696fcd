#!/usr/bin/env python3
"""Ranks killed at random moments, while writing too: the run goes on from its newest checkpoint and
ends with the bits of a run that was never killed, so each sample was seen exactly once an epoch. Its
trace opens after every kill.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`. `--kills N` (default 8) says
how often.
"""

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment, output_of, skip, tensors_in, write_data

MPIRUN = os.environ.get("MPIRUN", "mpirun")
RANKS = 3
LONGEST_LIFE_S = 1.2  # after the ranks began to train


def ranks_of(launcher):
    """Process ids of the ranks that a launcher started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
        if parent == launcher.pid:
            found.append(int(entry.name))
    return found


def kill_one(command, moments):
    """Runs a command until one of its ranks is killed. False: it ended before."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=environment(), start_new_session=True)
    said = []
    for line in run.stdout:
        said.append(line)
        if line.startswith("stage "):
            break
    time.sleep(moments.uniform(0, LONGEST_LIFE_S))
    ranks = ranks_of(run)
    if run.poll() is None and ranks:
        os.kill(moments.choice(ranks), signal.SIGKILL)
    said += run.communicate(timeout=60)[0]
    if run.returncode not in (0, 137):
        raise AssertionError(f"exit code {run.returncode}\n{''.join(said)}")
    return run.returncode != 0


def check_files(folder):
    """Every file of every complete checkpoint opens, and all tensors can be reached."""
    import h5py
    steps = sorted(folder.glob("step-*[0-9]"), key=lambda step: int(step.name[5:]))
    for step in steps:
        with h5py.File(step / "index.h5") as index:
            assert f"step-{index.attrs['update']}" == step.name
            index.visititems(lambda name, item: item[()] if hasattr(item, "dtype") else None)
            for layer in index["shards/layers"][:]:
                if layer.decode() in index["model"]:
                    for tensor in index["model"][layer.decode()].values():
                        tensor[()]
    return len(steps)


def check_trace(file):
    """The trace opens, and tells of every update from the first on once, in order."""
    import h5py
    if not file.exists():
        return
    with h5py.File(file) as trace:
        updates = list(trace["updates"]["update"])
        assert updates == list(range(1, len(updates) + 1)), updates[-20:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    try:
        import h5py  # noqa: F401
    except ImportError:
        skip("python has no h5py")
    moments = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = write_data(pathlib.Path(name))
        checkpoints, weights = folder / "checkpoints", folder / "weights.h5"
        # Long enough to be killed that often, at some half of the longest life each.
        epochs = max(200, 60 * args.kills)
        train = [MPIRUN, "--oversubscribe", "-n", RANKS, os.environ["DYNPIPE"], "train", "--model",
                 SOURCE / "models/lenet5.json", "--data", folder, "--batch", 16, "--microbatches", 2,
                 "--schedule", "async", "--weights", "stash", "--algorithm", "flops", "--epochs",
                 epochs, "--progress", "log", "--log-every", 1000000, "--save-weights", weights]
        train = [str(word) for word in train]
        trace = folder / "run.h5"
        resumed = [*train, "--checkpoint-dir", str(checkpoints), "--checkpoint-every", "3",
                   "--resume", "auto", "--trace", str(trace)]
        kills = seen = 0
        while kills < args.kills:
            if not kill_one(resumed, moments):
                break
            kills += 1
            seen += check_files(checkpoints)
            check_trace(trace)
            if kills % 50 == 0:
                print(f"{kills} kills, {seen} checkpoints opened", flush=True)
        output_of(resumed, deadline_s=600)
        survivor = tensors_in(weights)
        check_trace(trace)
        output_of(train, deadline_s=600)
        assert tensors_in(weights) == survivor, "the killed run's weights are others"
        assert kills > 0 and seen > 0
        print(f"{kills} kills, {seen} checkpoints opened, {epochs} epochs: the same bits")


if __name__ == "__main__":
    main()
