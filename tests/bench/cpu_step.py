"""A training step on one core, here and in PyTorch, in alternation; and how much of the core's
matrix speed the convolutions and products of vgg16 reach.

usage: cpu_step.py [--python PYTHON]... [--rounds N] [--core N]
Each PYTHON is an interpreter with torch (default: those of python3 that have it)."""

import argparse
import subprocess

from figures import PROGRAMS, ROOT, Figures, Server, pythons_with_torch

BATCH = 64
STEPS = {"vgg8": 8, "resnet18": 1}


def compare(figures, model, pythons, core, rounds):
    pin = ["taskset", "-c", str(core)]
    file = str(ROOT / "models" / f"{model}.json")
    ours = Server(pin + [str(PROGRAMS / "step_server"), file, str(BATCH), "1"])
    script = str(ROOT / "tests" / "bench" / "torch_step.py")
    others = {}
    for python, version in pythons.items():
        for memory in ("contiguous", "channels_last"):
            command = pin + [python, script, file, str(BATCH), memory]
            others[f"PyTorch {version}, {memory}"] = Server(command, {"OMP_NUM_THREADS": "1"})
    steps = STEPS[model]
    for server in (ours, *others.values()):
        server.seconds(1)
    ratios = {name: [] for name in others}
    own = []
    for _ in range(rounds):
        for name, server in others.items():
            before = ours.seconds(steps)
            theirs = server.seconds(steps)
            after = ours.seconds(steps)
            own += [before, after]
            ratios[name].append(theirs / ((before + after) / 2))
    figures.add(f"{model}, batch {BATCH}, one thread: a step", 1e3 * min(own) / steps, "ms")
    for name in others:
        goal = 1.25 if "contiguous" in name else None
        figures.add_ratios(f"{model}: {name}, its time over ours", ratios[name], goal=goal)
    for server in (ours, *others.values()):
        server.close()


def matrix_speed(figures, core):
    program = str(PROGRAMS / "layer_speed")
    command = ["taskset", "-c", str(core), program, str(ROOT / "models" / "vgg16.json"), str(BATCH)]
    for line in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        what, value, unit = line.rsplit(" ", 2)
        figures.add(what, float(value), unit, goal=80 if unit == "%" else None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--core", type=int, default=0)
    arguments = parser.parse_args()
    pythons = pythons_with_torch(arguments.python)
    figures = Figures("cpu-step")
    for model in STEPS:
        compare(figures, model, pythons, arguments.core, arguments.rounds)
    matrix_speed(figures, arguments.core)
    figures.save()


main()
