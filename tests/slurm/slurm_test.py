#!/usr/bin/env python3
"""slurm/train-cpu.sbatch, submitted to a Slurm that this test brings up.

DYNPIPE names the program. Skipped where Slurm is not installed, or without root.
"""

import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Cluster, why_not
from small_run import SOURCE, environment, losses, skip, write_data

DEADLINE_S = 90  # of a job
OPTIONS = ["--epochs", "1", "--batch", "16"]


class SlurmTest(unittest.TestCase):
    cluster = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "data").mkdir()
        write_data(self.folder / "data")
        self.variables = environment(DYNPIPE_PROGRAM=os.environ["DYNPIPE"], DYNPIPE_DATA="data",
                                     DYNPIPE_MODEL=str(SOURCE / "models/lenet5.json"))
        del self.variables["OMP_NUM_THREADS"]

    def submitted(self, *options, words=OPTIONS):
        """Submits the script, with options of sbatch before it and words behind it; its job, ended."""
        number = self.cluster.call("sbatch", "--parsable", f"--chdir={self.folder}", *options,
                                   SOURCE / "slurm/train-cpu.sbatch", *words, **self.variables).strip()
        job = self.cluster.finished(number, DEADLINE_S)
        log = (self.folder / f"dynpipe-{number}.out").read_text()
        return job, log, self.folder / f"dynpipe-{number}.json"

    def trained(self, *options, ranks, threads):
        """Losses of a job that must go well on so many ranks."""
        job, log, summary = self.submitted(*options)
        self.assertEqual(("COMPLETED", "0:0"), (job["JobState"], job["ExitCode"]), log)
        self.assertEqual(ranks, len(json.loads(summary.read_text())["ranks"]), log)
        places = re.search(r"^rank  host .* threads\n((?: +\d.*\n)+)", log, re.MULTILINE)[1]
        self.assertEqual([str(threads)] * ranks, [line.split()[-1] for line in places.splitlines()],
                         log)
        return losses(summary)

    def test_both_launchers_train_the_same(self):
        by_mpirun = self.trained("--export=ALL,DYNPIPE_LAUNCHER=mpirun", ranks=2, threads=1)
        by_srun = self.trained("--export=ALL,DYNPIPE_LAUNCHER=srun", "--job-name=another name",
                               ranks=2, threads=1)
        self.assertEqual(by_mpirun, by_srun)

    def test_ranks_and_threads_are_those_of_the_job(self):
        for launcher in ("mpirun", "srun"):
            self.trained("--ntasks-per-node=1", "--cpus-per-task=2",
                         f"--export=ALL,DYNPIPE_LAUNCHER={launcher}", ranks=1, threads=2)

    def test_a_job_that_is_told_to_stop_saves_and_goes_on(self):
        epochs = "400"
        number = self.cluster.call(
            "sbatch", "--parsable", f"--chdir={self.folder}",
            "--export=ALL,DYNPIPE_CHECKPOINTS=checkpoints", SOURCE / "slurm/train-cpu.sbatch",
            "--epochs", epochs, "--batch", "16", "--checkpoint-every", "100", "--log-every", "500",
            "--algorithm", "flops", **self.variables).strip()
        log = self.folder / f"dynpipe-{number}.out"
        self.wait_for(lambda: log.exists() and "checkpoint checkpoints" in log.read_text(), log)
        self.cluster.call("scancel", "--batch", "--signal=USR1", number)
        self.wait_for(lambda: "put back into the queue" in log.read_text(), log)
        self.wait_for(lambda: self.cluster.job(number)["JobState"] == "PENDING", log)
        time.sleep(3)  # Slurm itself waits for two minutes: the node must be through with the job
        self.cluster.call("scontrol", "update", f"jobid={number}", "starttime=now")
        job = self.cluster.finished(number, DEADLINE_S)
        said = log.read_text()
        self.assertEqual(("COMPLETED", "0:0"), (job["JobState"], job["ExitCode"]), said)
        self.assertIn("resumed   checkpoints/step-", said)
        summary = json.loads((self.folder / f"dynpipe-{number}.json").read_text())
        self.assertEqual(int(epochs), len(summary["epochs"]))

    def wait_for(self, done, log):
        ends = time.monotonic() + DEADLINE_S
        while not done():
            self.assertLess(time.monotonic(), ends, log.read_text() if log.exists() else "no log")
            time.sleep(0.1)

    def test_the_program_ends_the_job_with_its_exit_code(self):
        job, log, _ = self.submitted(words=["--epochs", "0"])
        self.assertEqual(("FAILED", "2:0"), (job["JobState"], job["ExitCode"]), log)
        self.assertIn("dynpipe: --epochs", log)

    def test_a_missing_build_is_said_in_one_line(self):
        del self.variables["DYNPIPE_PROGRAM"]
        self.variables["PATH"] = "/usr/bin:/bin"
        job, log, _ = self.submitted()
        self.assertEqual(("FAILED", "2:0"), (job["JobState"], job["ExitCode"]), log)
        self.assertEqual(1, len(log.splitlines()), log)
        self.assertIn("cmake --build", log)


if __name__ == "__main__":
    if reason := why_not():
        skip(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the cluster is taken down
    with Cluster() as SlurmTest.cluster:
        successful = unittest.main(exit=False).result.wasSuccessful()
    sys.exit(0 if successful else 1)
