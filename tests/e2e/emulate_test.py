#!/usr/bin/env python3
"""Runs on a described cluster: the same virtual times however busy the host is, paced ones kept or
refused.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment
from training import DEADLINE_S, TrainingTest

RANKS = 3
FAILED_RUN, BAD_INPUT = 1, 2
TIMES = ("forward_s", "backward_s", "update_s", "wait_activation_s", "wait_gradient_s",
         "wait_reduction_s", "wait_send_s", "train_s")


def cluster(ranks, **more):
    names = [f"node{rank}" for rank in range(ranks)]
    links = [{"name": f"nic{rank}", "from": name, "to": "switch", "latency_s": 2e-6,
              "bytes_per_s": 1e9} for rank, name in enumerate(names)]
    return {"name": "described", "ranks": [{"name": name} for name in names],
            "switches": ["switch"], "links": links, "jitter": 0, **more}


class EmulateTest(TrainingTest):
    @classmethod
    def setUpClass(cls):
        model = SOURCE / "models/lenet5.json"
        done = subprocess.run([os.environ["DYNPIPE"], "profile", "--model", str(model), "--batch",
                               "16", "--microbatches", "3", "--seconds", "1", "--out",
                               "/dev/stdout"], capture_output=True, text=True, env=environment(),
                              timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.profile = json.loads(done.stdout[done.stdout.index("{\n"):done.stdout.rindex("}") + 1])

    def written(self, name, content):
        path = self.folder / name
        path.write_text(json.dumps(content))
        return path

    def slower(self, factor):
        """A profile in which every step takes `factor` times as long."""
        def scaled(value, key=""):
            if isinstance(value, dict):
                return {k: scaled(v, k) for k, v in value.items()}
            if isinstance(value, list):
                return [scaled(v, key) for v in value]
            return value * factor if key.endswith("_us") else value

        return self.written("profile.json", scaled(self.profile))

    def emulated(self, *options, code=0, ranks=RANKS, **more):
        summary = self.folder / "summary.json"
        words = ["--epochs", "2", "--profile", self.slower(more.pop("factor", 1)), "--emulate",
                 self.written("cluster.json", cluster(ranks, **more)), "--summary", summary,
                 *options]
        process = self.started(RANKS, *words)
        out, err = process.communicate(timeout=DEADLINE_S)
        allowed = code if isinstance(code, tuple) else (code,)
        self.assertIn(process.returncode, allowed, out + err)
        return (json.loads(summary.read_text()) if process.returncode == 0 else None), out, err

    def test_virtual_times_are_the_same_beside_a_busy_neighbour(self):
        def times(summary):
            return [summary["updates"], summary["samples_per_s"],
                    [epoch["wall_s"] for epoch in summary["epochs"]],
                    [[rank[key] for key in TIMES] for rank in summary["ranks"]],
                    [epoch["test_loss"] for epoch in summary["epochs"]]]

        events = [{"rank": "node1", "start_s": 0.001, "end_s": 0.02, "slowdown": 3}]
        quiet, out, _ = self.emulated(jitter=0.1, events=events)
        self.assertIn("virtual s", out)
        self.assertEqual("virtual", quiet["config"]["clock"])
        hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.addCleanup(hog.wait)
        self.addCleanup(hog.kill)
        for _ in range(4):
            busy, _, _ = self.emulated(jitter=0.1, events=events)
            self.assertEqual(times(quiet), times(busy))

    def test_a_slower_link_takes_longer(self):
        fast, _, _ = self.emulated()
        links = [{**link, "bytes_per_s": 1e6} for link in cluster(RANKS)["links"]]
        slow, _, _ = self.emulated(links=links)
        self.assertGreater(slow["updates"]["median_s"], 1.5 * fast["updates"]["median_s"])
        self.assertEqual(fast["epochs"][0]["samples"], slow["epochs"][0]["samples"])

    def test_paced_ranks_keep_to_the_description_or_say_that_they_cannot(self):
        described, _, _ = self.emulated(factor=60)
        paced, _, err = self.emulated("--emulate-mode", "paced", factor=60, code=(0, FAILED_RUN))
        if paced is None:  # another load on this host
            self.assertIn("too slow, or too busy, for the description", err)
            return
        for one, other in zip(described["ranks"], paced["ranks"]):
            self.assertLess(abs(one["train_s"] / other["train_s"] - 1), 0.02)

    def test_a_description_that_the_host_cannot_keep_is_refused(self):
        _, _, err = self.emulated("--emulate-mode", "paced", factor=0.02, code=FAILED_RUN)
        self.assertIn("too slow, or too busy, for the description", err)

    def test_what_cannot_be_emulated(self):
        _, _, err = self.emulated(ranks=RANKS + 1, code=BAD_INPUT)
        self.assertIn("cluster.json: ranks: are 4, the job has 3", err)
        _, _, err = self.emulated("--emulate-mode", "slow", code=BAD_INPUT)
        self.assertIn("known are virtual, paced", err)


if __name__ == "__main__":
    unittest.main()
