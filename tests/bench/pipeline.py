"""Two ranks on two cores as an asynchronous pipeline against the same two computing their halves
apart; four ranks on two cores against two; what the runtime takes of a step.

usage: pipeline.py [--rounds N]"""

import argparse
import os
import re
import subprocess

from figures import PROGRAMS, ROOT, Figures


def run(ranks, options, model, rounds):
    command = ["mpirun", *options, "-n", str(ranks), str(PROGRAMS / "pipeline_bench"),
               str(ROOT / "models" / f"{model}.json"), "64", "4", str(rounds)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        key: tuple(float(number) for number in match.groups())
        for key in ("ranks apart", "half the ranks", "runtime")
        if (match := re.search(key + r".*?([\d.]+) %  \(([\d.]+) to ([\d.]+)\)", output.split("\n\n")[1]))
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    figures = Figures("pipeline")
    two = run(2, ["--bind-to", "core"], "vgg8", arguments.rounds)
    four = run(4, ["--oversubscribe"], "vgg8", arguments.rounds)
    median, low, high = two["ranks apart"]
    figures.add("vgg8, 2 ranks async: speed, of the ranks apart", median, "%", 95, True, (low, high))
    median, low, high = four["half the ranks"]
    figures.add(f"vgg8, 4 ranks on {os.cpu_count()} cores: speed, of 2 ranks", median, "%", 90, True, (low, high))
    median, low, high = two["runtime"]
    figures.add("vgg8, 2 ranks: runtime outside ops and transfers", median, "%", 2, False, (low, high))
    figures.save()


main()
