"""Instructions a second of the simulator, from 8 to 4,096 ranks.

usage: simulator.py"""

import re
import subprocess

from figures import PROGRAMS, ROOT, Figures


def main():
    figures = Figures("simulator")
    tree = ROOT / "data" / "clusters" / "64x-fattree.json"
    command = [str(PROGRAMS / "simulator_bench"), str(tree)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for name, ranks, instructions, seconds in re.findall(r"(.*): (\d+) (\d+) (\S+)\n", output):
        speed = int(instructions) / float(seconds) / 1e6
        # Where replicas are all there is, a few instructions stand for thousands of messages.
        goal = None if "replicas" in name else 1
        figures.add(f"{ranks} ranks: {name}", speed, "million/s", goal)
    figures.save()


main()
