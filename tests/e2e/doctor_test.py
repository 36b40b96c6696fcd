#!/usr/bin/env python3
"""`dynpipe doctor` alone and on ranks; `dynpipe train --dry-run` under mpirun and without it.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, write_data


def run(command, **environment):
    known = {name: value for name, value in os.environ.items()
             if name not in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK")}
    if os.geteuid() == 0:
        known |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env={**known, **environment}, timeout=120)


def on_ranks(ranks, *words, launcher=(), **environment):
    return run([os.environ.get("MPIRUN", "mpirun"), "--bind-to", "none", "--oversubscribe", "-n",
                ranks, *launcher, os.environ["DYNPIPE"], *words], **environment)


class DoctorTest(unittest.TestCase):
    def lines(self, done):
        """Verdict by topic."""
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        found = [line.split(None, 2) for line in done.stdout.splitlines()]
        return {line[1]: line[0] for line in found
                if len(line) == 3 and line[0] in ("ok", "warning", "wrong")}

    def test_alone_and_on_ranks_every_topic_has_a_line(self):
        topics = {"launch", "MPI", "binding", "CPU", "speed", "load", "memory", "cgroup", "/dev/shm",
                  "limits", "names", "GPU", "HDF5"}
        alone = run([os.environ["DYNPIPE"], "doctor"])
        self.assertLessEqual(topics, set(self.lines(alone)), alone.stdout)
        ranks = on_ranks(2, "doctor")
        self.assertLessEqual(topics | {"links", "waking"}, set(self.lines(ranks)), ranks.stdout)
        for done in (alone, ranks):
            self.assertEqual("ok", self.lines(done)["MPI"], done.stdout)
            wrong = int(re.search(r"(\d+) wrong", done.stdout).group(1))
            self.assertEqual(int(wrong > 0), done.returncode, done.stdout)

    @unittest.skipIf(os.cpu_count() < 2, "needs two cores")
    def test_ranks_on_one_core_are_wrong(self):
        core = min(os.sched_getaffinity(0))
        done = on_ranks(2, "doctor", launcher=("taskset", "-c", core))
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertEqual("wrong", self.lines(done)["binding"])
        self.assertIn(f"both bound to core {core}", done.stdout)

    def test_srun_without_mpi_is_wrong(self):
        done = run([os.environ["DYNPIPE"], "doctor"], SLURM_STEP_ID="0", SLURM_STEP_NUM_TASKS="4")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertEqual("wrong", self.lines(done)["launch"])

    def test_options(self):
        done = run([os.environ["DYNPIPE"], "doctor", "--hlep"])
        self.assertEqual(2, done.returncode)
        self.assertIn("--help", done.stderr)


class DryRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_data(self.folder, train=64, test=16)

    def words(self, *options):
        return ["train", "--model", SOURCE / "models/lenet5.json", "--data", self.folder,
                "--batch", "16", "--dry-run", "--algorithm", "flops", *options]

    def test_says_the_same_plan_with_and_without_ranks(self):
        summary = self.folder / "summary.json"
        ranks = on_ranks(3, *self.words("--summary", summary))
        alone = run([os.environ["DYNPIPE"], *self.words("--ranks", 3)])
        for done in (ranks, alone):
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            self.assertIn("memory of each rank", done.stdout)
            self.assertNotIn("epoch 1", done.stdout)
        waiting = [done.stdout.split("activations held", 1)[1] for done in (ranks, alone)]
        self.assertEqual(*waiting)
        self.assertFalse(summary.exists())

    def test_more_memory_than_the_host_has_is_refused_before_training(self):
        model = self.folder / "huge.json"
        width = 400_000
        model.write_text("""{"name": "huge", "input": [1, 28, 28], "layers": [
            {"name": "flatten", "type": "flatten"},
            {"name": "fc1", "type": "linear", "out_features": %d},
            {"name": "fc2", "type": "linear", "out_features": %d},
            {"name": "fc3", "type": "linear", "out_features": 10}],
            "loss": "softmax_cross_entropy"}""" % (width, width))
        for words in (["--dry-run"], []):
            done = on_ranks(2, "train", "--model", model, "--data", self.folder, "--batch", "16",
                            "--algorithm", "flops", *words)
            self.assertEqual(2, done.returncode, done.stdout + done.stderr)
            self.assertRegex(done.stderr, r"huge.json: memory: ranks 0 and 1 need about .* GB")

    def test_ranks_is_for_dry_runs_without_mpirun(self):
        done = run([os.environ["DYNPIPE"], *self.words("--ranks", 0)])
        self.assertEqual(2, done.returncode)
        done = on_ranks(2, *self.words("--ranks", 3))
        self.assertEqual(2, done.returncode, done.stdout + done.stderr)
        self.assertIn("--ranks", done.stderr)


if __name__ == "__main__":
    unittest.main()
