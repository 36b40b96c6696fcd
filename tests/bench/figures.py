"""What every benchmark does alike: figures, their table, their JSON file."""

import atexit
import json
import os
import pathlib
import platform
import select
import signal
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build" / "ci"))
PROGRAMS = BUILD / "tests" / "bench"


def cpu_model():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def version():
    described = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return described.stdout.strip() or "unknown"


def pythons_with_torch(wanted):
    """Of these interpreters (default: the system's) those that have torch, with its version."""
    found = {}
    for python in wanted or ["/usr/bin/python3"]:
        command = [python, "-c", "import torch; print(torch.__version__)"]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode == 0:
            found[python] = answer.stdout.strip()
        else:
            print(f"{python} has no torch: nothing to compare with")
    return found


class Figures:
    def __init__(self, name):
        self.name, self.rows = name, []

    def add(self, what, value, unit, goal=None, at_least=True, spread=None):
        """`goal` is a least value, or with at_least=False a largest; spread: (lowest, highest)."""
        met = None if goal is None else (value >= goal if at_least else value <= goal)
        row = {"what": what, "value": value, "unit": unit, "goal": goal, "met": met}
        if spread:
            row["spread"] = list(spread)
        self.rows.append(row)
        bounds = f" ({spread[0]:.3g} to {spread[1]:.3g})" if spread else ""
        wanted = "" if goal is None else f"   goal {'>=' if at_least else '<='} {goal:g}: {'met' if met else 'MISSED'}"
        print(f"{what:<58} {value:8.3f} {unit}{bounds}{wanted}", flush=True)

    def add_ratios(self, what, ratios, unit="x", goal=None, at_least=True):
        self.add(what, statistics.median(ratios), unit, goal, at_least, (min(ratios), max(ratios)))

    def save(self):
        folder = ROOT / "build" / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        machine = {"cpu": cpu_model(), "cores": os.cpu_count()}
        report = {"name": self.name, "version": version(), "machine": machine, "figures": self.rows}
        (folder / f"{self.name}.json").write_text(json.dumps(report, indent=1) + "\n")


class Server:
    """A process that works on demand: takes a count, answers with the seconds it took. It and what
    it started end with this program, or when no answer comes."""

    DEADLINE_S = 120

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, **(environment or {})},
        )
        atexit.register(self.end)

    def seconds(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], self.DEADLINE_S)
        answer = self.process.stdout.readline() if ready else ""
        if not answer:
            raise SystemExit(f"no answer from {self.process.args}")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        finally:
            self.end()

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
