#!/usr/bin/env python3
"""Where ranks run and on how many threads: printed, chosen, and complained of once.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, write_data


class PlacementTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_data(self.folder, train=64, test=16)

    def trained(self, launcher, *options, **environment):
        """Output and warnings of one short run."""
        command = [os.environ.get("MPIRUN", "mpirun"), "--bind-to", "none", *launcher,
                   os.environ["DYNPIPE"], "train", "--model", SOURCE / "models/lenet5.json",
                   "--data", self.folder, "--batch", "16", "--epochs", "1", "--microbatches", "8",
                   "--algorithm", "flops",
                   *options]
        known = {name: value for name, value in os.environ.items()
                 if name not in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK")}
        if os.geteuid() == 0:
            known |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              env={**known, **environment}, timeout=120)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        warnings = [line for line in done.stderr.splitlines() if "warning" in line]
        return done.stdout, warnings

    def threads(self, out, rank=0):
        """The threads column of a rank in the table of places."""
        table = out.split("NUMA node", 1)[1].splitlines()
        return int(table[1 + rank].split()[-1])

    def a_core(self):
        return min(os.sched_getaffinity(0))

    def test_two_ranks_on_one_core_are_told_so(self):
        core = self.a_core()
        out, warnings = self.trained(["-n", "2", "taskset", "-c", core])
        self.assertEqual(1, len(warnings), warnings)
        if os.cpu_count() > 1:
            self.assertIn(f"ranks 0 and 1 are both bound to core {core} of host", warnings[0])

    def test_oversubscription_is_one_warning(self):
        ranks = 2 * os.cpu_count() + 1
        if ranks > 12:
            self.skipTest("many cores: too many ranks for a test")
        out, warnings = self.trained(["--oversubscribe", "-n", ranks], "--stages", 2)
        self.assertEqual(1, len(warnings), warnings)
        self.assertIn(f"{ranks} threads", warnings[0])

    def test_threads_are_one_unless_something_says_more(self):
        out, warnings = self.trained(["-n", "1"])
        self.assertEqual(1, self.threads(out))
        out, warnings = self.trained(["-n", "1"], OMP_NUM_THREADS="2")
        self.assertEqual(2, self.threads(out))
        out, warnings = self.trained(["-n", "1"], "--threads", "3", OMP_NUM_THREADS="2")
        self.assertEqual(3, self.threads(out))

    def test_same_threads_give_the_same_bits(self):
        losses = []
        for _ in range(3):
            summary = self.folder / "summary.json"
            self.trained(["-n", "1"], "--threads", "2", "--summary", summary)
            losses.append(json.loads(summary.read_text())["epochs"][0]["test_loss"])
        self.assertEqual(1, len(set(losses)), losses)



if __name__ == "__main__":
    unittest.main()
