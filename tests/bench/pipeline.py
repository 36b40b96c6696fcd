"""Two ranks on two cores as an asynchronous pipeline against the same two computing their halves
apart; four ranks on two cores against two; what the runtime takes of a step; and the same step with
torch.distributed.pipelining on two gloo ranks (1F1B), in alternation.

usage: pipeline.py [--rounds N] [--python PYTHON]...
Each PYTHON is an interpreter with torch (default: the system's)."""

import argparse
import os
import re
import subprocess

from figures import PROGRAMS, ROOT, Figures, Server, pythons_with_torch


def run(ranks, options, model, rounds):
    command = ["mpirun", *options, "-n", str(ranks), str(PROGRAMS / "pipeline_bench"),
               str(ROOT / "models" / f"{model}.json"), "64", "4", str(rounds)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {
        key: tuple(float(number) for number in match.groups())
        for key in ("ranks apart", "half the ranks", "runtime")
        if (match := re.search(key + r".*?([\d.]+) %  \(([\d.]+) to ([\d.]+)\)", output.split("\n\n")[1]))
    }


def against_torch(figures, model, first_layers, python, version, rounds):
    """`first_layers`: of the first stage, as dynpipe cuts the model in two."""
    file, updates = str(ROOT / "models" / f"{model}.json"), 5
    ours = Server(["mpirun", "--bind-to", "core", "-n", "2", str(PROGRAMS / "step_server"), file, "64", "4", "async"])
    script = str(ROOT / "tests" / "bench" / "torch_pipeline.py")
    theirs = Server([python, script, file, "64", "4", str(first_layers)], {"OMP_NUM_THREADS": "1"})
    for server in (ours, theirs):
        server.seconds(2)
    ratios = []
    for _ in range(rounds):
        before, other, after = ours.seconds(updates), theirs.seconds(updates), ours.seconds(updates)
        ratios.append(2 * other / (before + after))
    figures.add_ratios(f"{model}, 2 ranks: PyTorch {version} pipelining, its time over ours", ratios)
    for server in (ours, theirs):
        server.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append")
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
    for python, version in pythons_with_torch(arguments.python).items():
        if int(version.split(".")[0]) >= 2:  # older ones have no pipelining
            against_torch(figures, "vgg8", 9, python, version, arguments.rounds)
    figures.save()


main()
