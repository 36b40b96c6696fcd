#!/usr/bin/env python3
"""What a run leaves behind: the same bits again, and an end when a rank is gone or silent.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SIDE, CLASSES = 28, 10


def idx_images(count):
    pixels = bytes((i * i // 7 + 13 * i) % 256 for i in range(count * SIDE * SIDE))
    return struct.pack(">4I", 0x803, count, SIDE, SIDE) + pixels


def idx_labels(count):
    return struct.pack(">2I", 0x801, count) + bytes(i % CLASSES for i in range(count))


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for split, count in (("train", 65), ("t10k", 33)):  # the last batch has one sample
            (self.folder / f"{split}-images-idx3-ubyte").write_bytes(idx_images(count))
            (self.folder / f"{split}-labels-idx1-ubyte").write_bytes(idx_labels(count))

    def started(self, ranks, *options):
        command = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", str(ranks),
                   os.environ["DYNPIPE"], "train", "--model", SOURCE / "models/lenet5.json",
                   "--data", self.folder, "--batch", "16", *options]
        if "--microbatches" not in options:
            command += ["--microbatches", "3"]
        if "--plan" not in options:
            command += ["--algorithm", "flops"]
        environment = dict(os.environ)
        if os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(process.kill)
        return process

    def trained(self, ranks, *options):
        """The summary of a run, without what differs from time to time."""
        summary = self.folder / "summary.json"
        process = self.started(ranks, "--epochs", "2", "--summary", summary, *options)
        out, err = process.communicate(timeout=120)
        self.assertEqual(0, process.returncode, out + err)
        results = json.loads(summary.read_text())
        self.assertEqual("completed", results["status"])
        self.assertEqual(ranks, len(results["ranks"]))
        return [[epoch[key] for key in ("train_loss", "test_loss", "test_accuracy", "samples")]
                for epoch in results["epochs"]]

    def test_same_bits_again(self):
        first = self.trained(3)
        self.assertEqual([65, 65], [epoch[3] for epoch in first])
        self.assertEqual(first, self.trained(3))
        self.assertNotEqual(first, self.trained(3, "--seed", "2"))

    def test_same_bits_for_any_number_of_stages(self):
        one = self.trained(1, "--schedule", "1f1b")
        for stages in (2, 3, 4):
            self.assertEqual(one, self.trained(stages, "--schedule", "1f1b"))

    def test_same_bits_in_two_parts_and_recomputed(self):
        whole = self.trained(3, "--schedule", "1f1b")
        self.assertEqual(whole, self.trained(3, "--schedule", "zb-h1"))
        self.assertEqual(whole, self.trained(3, "--schedule", "zb-h1", "--recompute", "0,2"))
        self.assertEqual(whole, self.trained(3, "--schedule", "1f1b", "--recompute", "all"))

    def test_more_stages_than_microbatches_is_a_warning(self):
        process = self.started(4, "--epochs", "1", "--microbatches", "1")
        out, err = process.communicate(timeout=120)
        self.assertEqual(0, process.returncode, out + err)
        self.assertIn("dynpipe: warning: 1 microbatch is fewer than 4 stages", err)

    def test_ranks_without_a_microbatch_are_one_warning(self):
        process = self.started(6, "--epochs", "1", "--replicas", "1,5", "--microbatches", "2")
        out, err = process.communicate(timeout=120)
        self.assertEqual(0, process.returncode, out + err)
        self.assertIn("dynpipe: warning: 3 ranks own no microbatch and only follow: 3, 4, 5", err)
        self.assertEqual(1, err.count("microbatch"), err)

    def ranks_of(self, process):
        """Process numbers of the ranks that mpirun has started, once they train."""
        for line in process.stdout:
            if line.startswith("epoch "):
                break
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return [int(child) for child in children.split()]

    def test_a_rank_that_is_killed_ends_the_job(self):
        process = self.started(3, "--epochs", "100000", "--log-every", "1")
        os.kill(self.ranks_of(process)[1], signal.SIGKILL)
        process.communicate(timeout=20)
        self.assertNotEqual(0, process.returncode)

    def test_a_silent_rank_is_waited_for_no_longer_than_the_deadline(self):
        process = self.started(3, "--epochs", "100000", "--log-every", "1", "--deadline", "2")
        silent = self.ranks_of(process)[2]
        os.kill(silent, signal.SIGSTOP)
        begun = time.monotonic()
        try:
            while process.poll() is None and time.monotonic() - begun < 30:
                time.sleep(0.2)
        finally:
            try:
                os.kill(silent, signal.SIGCONT)  # so that it can be ended at all
            except ProcessLookupError:
                pass
        out, err = process.communicate(timeout=30)
        self.assertEqual(1, process.returncode, out + err)
        self.assertRegex(err, r"dynpipe: rank \d: waited \d+ s for ")


if __name__ == "__main__":
    unittest.main()
