"""What a rank that waits takes of a core, and how fast it wakes.

usage: overhead.py"""

import os
import re
import subprocess

from figures import PROGRAMS, Figures


def main():
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    figures = Figures("overhead")
    for ranks, options in ((2, ["--bind-to", "core"]), (4, ["--oversubscribe"])):
        command = ["mpirun", *options, "-n", str(ranks), str(PROGRAMS / "waiting_bench")]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        share, wake, slow = (float(number) for number in re.findall(r"(\d+\.\d+)", output))
        place = f"{ranks} ranks on {os.cpu_count()} cores"
        figures.add(f"{place}: a waiting rank, of a core", share, "%", 5, False)
        figures.add(f"{place}: it wakes after, median", wake, "ms", 0.3, False)
        figures.add(f"{place}: it wakes after, 90 %", slow, "ms")
    figures.save()


main()
