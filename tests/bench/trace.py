"""What --trace --trace-events costs a whole run, and how well whatif foretells what ran.

usage: trace.py [--model FILE] [--batch N] [--updates N] [--pairs N] [--ranks N]"""

import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

from figures import BUILD, ROOT, Figures

sys.path.insert(0, str(ROOT / "tests" / "support"))
from small_run import write_data  # noqa: E402

DYNPIPE = BUILD / "apps" / "dynpipe" / "dynpipe"


def run(folder, options, *more):
    """Seconds of the whole run, and of processor time."""
    command = ["mpirun", "--oversubscribe", "-n", options.ranks, DYNPIPE, "train", "--model",
               options.model, "--data", folder, "--batch", options.batch, "--epochs", 1000,
               "--max-updates", options.updates, "--algorithm", "flops", "--progress", "log",
               "--log-every", 1000000, *more]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def replay_error(file):
    """Percent that the replay of a trace's own plan is off."""
    text = subprocess.run([str(DYNPIPE), "trace", "whatif", str(file)], check=True,
                          capture_output=True, text=True).stdout
    return float(re.search(r"replayed .*?([-+][\d.]+) %", text)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default=str(ROOT / "models" / "lenet5.json"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--updates", type=int, default=900)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    name = pathlib.Path(options.model).stem
    figures = Figures("trace")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        write_data(folder, train=6400, test=64)
        trace = folder / "run.h5"
        run(folder, options)
        walls, times, errors = [], [], []
        for pair in range(options.pairs):
            both = {}
            for traced in ((False, True) if pair % 2 else (True, False)):
                more = ["--trace", trace, "--trace-events"] if traced else []
                both[traced] = run(folder, options, *more)
            walls.append(100 * (both[True][0] / both[False][0] - 1))
            times.append(100 * (both[True][1] / both[False][1] - 1))
            errors.append(replay_error(trace))
        place = f"{name}, {options.ranks} ranks, {options.updates} updates"
        figures.add_ratios(f"{place}: longer with events", walls, "%", 1, False)
        figures.add_ratios(f"{place}: more processor time", times, "%")
        figures.add_ratios(f"{place}: replay of its plan is off by", errors, "%")
        figures.add(f"{place}: replay, largest error", max(abs(e) for e in errors), "%", 2, False)
        figures.add(f"{place}: size of the trace", trace.stat().st_size / 1e6, "MB")
    figures.save()


main()
