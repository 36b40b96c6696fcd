"""How fast plans are found, and what they are worth beside those of others, simulated.

usage: planner.py"""

import collections
import subprocess

from figures import PROGRAMS, Figures

OWN = "dynpipe"


def table(plans):
    """One row an algorithm, one column a chain on a cluster: objective over dynpipe's."""
    columns = list(plans)
    print(f"\n{'objective over that of dynpipe':<30}" + "".join(f"{chain:>10}" for chain, _ in columns))
    print(f"{'':<30}" + "".join(f"{cluster:>10}" for _, cluster in columns))
    for algorithm in plans[columns[0]]:
        ratios = (plans[column][algorithm] / plans[column][OWN] for column in columns)
        print(f"{algorithm:<30}" + "".join(f"{ratio:>10.2f}" for ratio in ratios))
    print()


def main():
    figures = Figures("planner")
    output = subprocess.run([PROGRAMS / "planner_bench"], capture_output=True, text=True, check=True)
    plans = collections.defaultdict(dict)
    goals = {("100", "16"): 15, ("1000", "1024"): 2000}
    for line in output.stdout.splitlines():
        kind, *words = line.split()
        if kind == "search":
            layers, ranks, milliseconds = words
            what = f"search for {layers} layers on {ranks} ranks"
            figures.add(what, float(milliseconds), "ms", goals[layers, ranks], False)
        else:
            chain, cluster, algorithm, _, _, objective = words
            plans[chain, cluster][algorithm] = float(objective)
    table(plans)
    for (chain, cluster), found in plans.items():
        others = [name for name in found if name != OWN and not name.startswith(("no-", "least-"))]
        best = min(others, key=found.get)
        what = f"{chain}, {cluster}: {best}, the next best, over dynpipe"
        figures.add(what, found[best] / found[OWN], "x", 1)
        figures.add(f"{chain}, {cluster}: pipedream over dynpipe", found["pipedream"] / found[OWN], "x")
    figures.save()


main()
