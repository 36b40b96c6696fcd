"""Updates to a training loss under delay: predicted from kappa against counted.

usage: staleness.py [--updates N] [--delays 0,1,3,7] [--kappa-delay D] [--seeds N] [--lr X]
                    [--warmup N] [--momentum X] [--data PLACE] [MODEL...]

One rank trains with every delay. Kappa comes from the runs with one of them: it is a matter of
asynchronous training, whose gradients turn otherwise than those without delay."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from figures import BUILD, ROOT, Figures

DYNPIPE = os.environ.get("DYNPIPE", BUILD / "apps" / "dynpipe" / "dynpipe")
WINDOW = 50  # updates that a loss is averaged over


def train(model, options, delay, seed, folder):
    """Averaged loss by update, and the summary."""
    layers = json.loads(pathlib.Path(model).read_text())
    stage = {"first": layers["layers"][0]["name"], "last": layers["layers"][-1]["name"],
             "ranks": [0], "warmup": delay}  # fmt: skip
    plan = {"model": layers["name"], "schedule": "async", "weights": "stash", "microbatches": 1,
            "stages": [stage]}  # fmt: skip
    (folder / "plan.json").write_text(json.dumps(plan))
    command = [DYNPIPE, "train", "--model", model, "--data", options.data, "--epochs", 100,
               "--max-updates", options.updates, "--batch", options.batch, "--seed", seed,
               "--plan", folder / "plan.json", "--lr", options.lr, "--lr-schedule", "constant",
               "--lr-warmup", options.warmup, "--momentum", options.momentum, "--measure-kappa", 10, "--log-every", 100000,
               "--metrics", folder / "metrics.jsonl", "--summary", folder / "summary.json"]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        return None, None  # it diverged
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if record["kind"] == "update"]
    sums = [0.0]
    for loss in losses:
        sums.append(sums[-1] + loss)
    averaged = [(b - a) / WINDOW for a, b in zip(sums, sums[WINDOW:])]
    return averaged, json.loads((folder / "summary.json").read_text())


def updates_to(averaged, target):
    if averaged is None:
        return None
    reached = [u for u, loss in enumerate(averaged) if loss <= target]
    return reached[0] + WINDOW if reached else None


def measure(model, options, delays, figures):
    name = pathlib.Path(model).stem
    counts = {delay: [] for delay in delays}
    kappas = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for seed in range(1, options.seeds + 1):
            for delay in delays:
                averaged, summary = train(model, options, delay, seed, folder)
                if delay == 0:
                    target = averaged[len(averaged) * 2 // 5]
                counts[delay].append(updates_to(averaged, target))
                if summary is not None:
                    cosines = " ".join(f"{c:.3f}" for c in summary["gradient_cosines"].values())
                    print(f"{name}, delay {delay}, seed {seed}: kappa {summary['kappa']:.3f}, "
                          f"cosines {cosines}", flush=True)  # fmt: skip
                if delay == options.kappa_delay and summary is not None:
                    kappas.append(summary["kappa"])
    if not kappas:
        raise SystemExit(f"{name}: no run with delay {options.kappa_delay} to take kappa from")
    kappa = statistics.median(kappas)
    figures.add(f"{name}: kappa, measured with delay {options.kappa_delay}", kappa, "")
    base = statistics.mean(counts[0])
    for delay in delays[1:]:
        predicted = 1 + kappa * delay
        figures.add(f"{name}, delay {delay}: updates to the loss, predicted", predicted, "x")
        if None in counts[delay]:
            print(f"{name}, delay {delay}: the loss is not reached in {options.updates} updates")
            continue
        counted = statistics.mean(counts[delay]) / base
        figures.add(f"{name}, delay {delay}: updates to the loss, counted", counted, "x")
        figures.add(f"{name}, delay {delay}: prediction off by",
                    100 * abs(predicted / counted - 1), "%", 15, False)  # fmt: skip


def main():
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("models", nargs="*", default=[ROOT / "models" / "lenet5.json"])
    parser.add_argument("--updates", type=int, default=900)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--delays", default="0,1,3,7")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--kappa-delay", type=int, default=3)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--data", default=ROOT / "data" / "fashion-mnist")
    options = parser.parse_args()
    figures = Figures("staleness")
    for model in options.models:
        measure(model, options, sorted({0, *map(int, options.delays.split(","))}), figures)
    figures.save()


main()
