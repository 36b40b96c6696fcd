#!/usr/bin/env python3
"""`dynpipe simulate` tells a plan's speed, or what is wrong with its input, without MPI.

DYNPIPE names the program.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "lenet5.json"
CLUSTER = ROOT / "data" / "clusters" / "64x-fattree.json"
BAD_INPUT = 2


class SimulateTest(unittest.TestCase):
    def run_program(self, *words):
        command = [os.environ["DYNPIPE"], "simulate", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def test_tells_the_period_and_writes_a_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace.json"
            result = self.run_program("--model", MODEL, "--cluster", CLUSTER, "--ranks", 16,
                                      "--stages", 4, "--microbatches", 8, "--trace-out", trace)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("Simulated: lenet5", result.stdout)
            self.assertIn("images/s", result.stdout)
            events = json.loads(trace.read_text())["traceEvents"]
            self.assertEqual({event["pid"] for event in events}, set(range(16)))

    def test_help_needs_nothing(self):
        result = self.run_program("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--cluster FILE", result.stdout)

    def test_refuses_a_cluster_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            cluster = pathlib.Path(folder) / "cluster.json"
            described = json.loads(CLUSTER.read_text())
            described["links"][5]["to"] = "nowhere"
            cluster.write_text(json.dumps(described))
            result = self.run_program("--model", MODEL, "--cluster", cluster)
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertEqual(result.stderr, f"dynpipe: {cluster}: links[5]: to: 'nowhere' is neither a "
                                        "rank nor a switch\n")
        self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
