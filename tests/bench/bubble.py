"""How long ranks wait for each other under 1f1b and zb-h1, beside what theory says.

usage: bubble.py"""

import re
import subprocess

from figures import PROGRAMS, Figures

ROW = re.compile(r"^ *(\d+) +(\d+) +(\S+) +([\d.]+) % +([\d.]+) %$")


def main():
    figures = Figures("bubble")
    output = subprocess.run([str(PROGRAMS / "bubble_bench")], capture_output=True, text=True, check=True).stdout
    for set_up in output.strip().split("\n\n"):
        name, *lines = set_up.split("\n")
        for _, microbatches, schedule, idle, theory in (row for line in lines for row in ROW.findall(line)):
            what = f"{name.split(',')[0]}, M = {microbatches}, {schedule}: idle (in theory {theory} %)"
            figures.add(what, float(idle), "%")
    figures.save()


main()
