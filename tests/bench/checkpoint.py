"""Checkpoints: how fast they are written and read, and what they cost a run.

usage: checkpoint.py [--bytes N] [--rounds N] [--pairs N] [--updates N] [--batch N]"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from figures import BUILD, PROGRAMS, ROOT, Figures

sys.path.insert(0, str(ROOT / "tests" / "support"))
from small_run import environment

EVERY = 50  # updates


def dd_seconds(*words):
    began = time.monotonic()
    subprocess.run(["dd", "bs=1M", *words], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def bench_seconds(what, folder, size):
    program = [PROGRAMS / "checkpoint_bench", what, folder, str(size)]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


def forget_files():
    """Lets what is read next come from the disk; False where this process may not ask for that."""
    os.sync()
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return True
    except OSError:
        return False


def measure_disk(figures, folder, size, rounds):
    """Our seconds against those of dd on the same disk, in turns."""
    blocks, plain = size >> 20, folder / "plain"
    writes, reads, rates = [], [], []
    for _ in range(rounds):
        by_dd = dd_seconds("if=/dev/zero", f"of={plain}", f"count={blocks}", "conv=fsync")
        writes.append(by_dd / bench_seconds("write", folder, size))
        rates.append(size / by_dd / 1e6)
        cold = forget_files()
        by_dd = dd_seconds(f"if={plain}", "of=/dev/null")
        forget_files()
        reads.append(by_dd / bench_seconds("read", folder, size))
    figures.add("dd with fsync", statistics.median(rates), "MB/s")
    state = f"{size / 1e9:.1f} GB of state"
    figures.add_ratios(f"{state} written, of the rate of dd with fsync",
                       [100 * ratio for ratio in writes], "%", 80)
    source = "the disk" if cold else "memory"
    figures.add_ratios(f"{state} checked and read from {source}, of dd's rate",
                       [100 * ratio for ratio in reads], "%", 80)


def write_images(file, count):
    import h5py
    import numpy
    drawn = numpy.random.default_rng(1)
    with h5py.File(file, "w") as h5:
        for split in ("train", "test"):
            n = count if split == "train" else 16
            h5[f"{split}/images"] = drawn.integers(0, 256, (n, 3, 32, 32), dtype=numpy.uint8)
            h5[f"{split}/labels"] = drawn.integers(0, 10, n, dtype=numpy.int64)


def run_seconds(folder, summary, batch, updates, checkpoints):
    command = ["mpirun", "--bind-to", "core", "-n", "2", str(BUILD / "apps/dynpipe/dynpipe"), "train",
               "--model", str(ROOT / "models/vgg16.json"), "--data", str(folder / "images.h5"),
               "--batch", str(batch), "--epochs", "1", "--max-updates", str(updates), "--lr", "0.001",
               "--algorithm", "flops", "--summary", str(summary)]
    if checkpoints:
        place = folder / "checkpoints"
        shutil.rmtree(place, ignore_errors=True)
        command += ["--checkpoint-dir", str(place), "--checkpoint-every", str(EVERY), "--keep", "2"]
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, env=environment())
    return time.monotonic() - began, json.loads(summary.read_text())


def measure_run(figures, folder, pairs, batch, updates):
    write_images(folder / "images.h5", batch * updates)
    extra, pauses = [], []
    for pair in range(pairs):
        seconds = {}
        for checkpoints in (False, True) if pair % 2 == 0 else (True, False):
            seconds[checkpoints], told = run_seconds(folder, folder / "summary.json", batch, updates,
                                                     checkpoints)
            if checkpoints:
                pauses.append(1e3 * told["checkpoints"]["longest_pause_s"])
        extra.append(100 * (seconds[True] / seconds[False] - 1))
    what = f"vgg16, batch {batch}, {updates} updates: a checkpoint every {EVERY}, whole run"
    figures.add_ratios(what, extra, "%", 2, False)
    figures.add_ratios("training paused for one, longest", pauses, "ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=2 << 30)
    parser.add_argument("--rounds", type=int, default=3, help="of writing and reading")
    parser.add_argument("--pairs", type=int, default=5, help="of runs with and without")
    parser.add_argument("--updates", type=int, default=150, help="of each run")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk that is measured")
    args = parser.parse_args()
    figures = Figures("checkpoint")
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = pathlib.Path(name)
        measure_disk(figures, folder, args.bytes, args.rounds)
        measure_run(figures, folder, args.pairs, args.batch, args.updates)
    figures.save()


main()
