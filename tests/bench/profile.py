"""Whether a profile's layers add up to what training takes: profile and training in turns.

usage: profile.py [--seconds S] [--model FILE]... [--data PLACE]"""

import argparse
import os
import pathlib
import statistics
import subprocess

from figures import PROGRAMS, ROOT, Figures

BATCH, MICROBATCHES = 64, 4


def compare(model, data, ranks, seconds):
    """By rank: (microseconds of a group by profile, by training, [a round's ratio of the two])."""
    command = ["mpirun", "--bind-to", "core", "-n", str(ranks), str(PROGRAMS / "profile_bench"),
               str(model), str(data), str(BATCH), str(MICROBATCHES), str(seconds)]  # fmt: skip
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [[float(word) for word in line.split()] for line in output.splitlines()]
    return [(row[0], row[1], row[2:]) for row in rows]


def main():
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--model", action="append")
    parser.add_argument("--data", default=ROOT / "data" / "fashion-mnist")
    options = parser.parse_args()
    figures = Figures("profile")
    for model in options.model or [ROOT / "models" / "lenet5.json", ROOT / "models" / "vgg8.json"]:
        for ranks in (1, 2):
            rows = compare(model, options.data, ranks, options.seconds)
            for rank, (_, trained_us, ratios) in enumerate(rows):
                where = f"{pathlib.Path(model).stem}, rank {rank} of {ranks}"
                errors = sorted(100 * (ratio - 1) for ratio in ratios)
                quarter = len(errors) // 4
                spread = (errors[quarter], errors[-1 - quarter])
                middle = statistics.median(errors)
                figures.add(f"{where}: a group", 1e-3 * trained_us, "ms")
                figures.add(f"{where}: layers of the profile, off by", middle, "%", spread=spread)
                figures.add(f"{where}: the same without sign", abs(middle), "%", 2, False)
    figures.save()


main()
