"""Simulated against physical times an update, random plans and schedules on two ranks, beside how
far two physical runs of the same plan are apart.

usage: prediction.py [--plans N] [--seed N]"""

import argparse
import os
import re
import statistics
import subprocess

from figures import PROGRAMS, ROOT, Figures

ROW = re.compile(r"measured +[\d.]+ ms simulated +([+-][\d.]+) % error +([+-][\d.]+) % again")


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    figures = Figures("prediction")
    command = ["mpirun", "--bind-to", "core", "-n", "2", PROGRAMS / "prediction_bench",
               ROOT / "models" / "vgg8.json", ROOT / "data" / "fashion-mnist", "64", arguments.plans, arguments.seed]
    output = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout
    print(output)
    rows = [(abs(float(error)), abs(float(again))) for error, again in ROW.findall(output)]
    errors, again = [row[0] for row in rows], [row[1] for row in rows]
    apart = statistics.median(again)
    figures.add("the same plan run twice: apart by, median", apart, "%")
    goal = max(1.3, 1.5 * apart)
    figures.add(f"{len(rows)} plans: simulated against measured, median error", statistics.median(errors), "%", goal, False)
    figures.add(f"{len(rows)} plans: simulated against measured, 90 % below", percentile(errors, 0.9), "%", 5, False)
    figures.save()


main()
