"""How long the forest takes to score the plans of one decision, and the monitor to read.

usage: forest.py"""

import os
import subprocess

from figures import PROGRAMS, ROOT, Figures


def main():
    figures = Figures("forest")
    shipped = ROOT / "models" / "forest" / "default.json"
    command = [PROGRAMS / "forest_bench", *([shipped] if os.path.exists(shipped) else [])]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        kind, *words = line.split()
        if kind == "decision":
            forest, plans, unique, milliseconds = words
            what = f"a decision over {plans} plans ({unique} rows), {forest} forest"
            figures.add(what, float(milliseconds), "ms", 25, False)
        else:
            figures.add("a reading of what the OS counts", float(words[0]), "us")
    figures.save()


main()
