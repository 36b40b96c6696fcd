"""A small data set, and `dynpipe train` on it: what the tests of its output share.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

from small_run import SOURCE, environment, write_data

TRAIN, BATCH = 65, 16  # the last batch has one sample
UPDATES = 5  # an epoch
DEADLINE_S = 120


class TrainingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_data(self.folder, train=TRAIN)

    def part(self, ranks, *options):
        """Words of mpirun for so many ranks."""
        return ["-n", ranks, os.environ["DYNPIPE"], "train", "--model",
                SOURCE / "models/lenet5.json", "--data", self.folder, "--batch", BATCH,
                "--microbatches", 3, *(() if "--plan" in options else ("--algorithm", "flops")), *options]

    def started(self, ranks, *options):
        return self.started_parts(self.part(ranks, *options))

    def started_parts(self, *parts):
        """Starts a job of several kinds of ranks."""
        command = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe"]
        for number, part in enumerate(parts):
            command += ([":"] if number > 0 else []) + part
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(process.kill)
        return process

    def finished(self, process, code=0):
        """What a job has said, once it has ended with this exit code (None: any but 0)."""
        out, err = process.communicate(timeout=DEADLINE_S)
        if code is None:
            self.assertNotEqual(0, process.returncode, out + err)
        else:
            self.assertEqual(code, process.returncode, out + err)
        return out, err

    def trained(self, ranks, *options, code=0):
        return self.finished(self.started(ranks, *options), code)

    def ranks_of(self, process):
        """Process numbers of the ranks that mpirun has started, once they train."""
        for line in process.stdout:
            if line.startswith("epoch "):
                break
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return [int(child) for child in children.split()]
