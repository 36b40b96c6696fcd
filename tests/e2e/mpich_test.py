#!/usr/bin/env python3
"""The program built with MPICH trains to the same bits as the one built with the usual MPI.

DYNPIPE and DYNPIPE_MPICH name the two programs, MPIRUN and MPICH_EXEC their launchers. Skipped
where there is no MPICH.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment, losses, output_of, skip, write_data


class MpichTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_data(self.folder)

    def options(self, summary):
        return ["train", "--model", SOURCE / "models/lenet5.json", "--data", self.folder,
                "--batch", "16", "--replicas", "2,1", "--epochs", "2", "--summary", summary]

    def test_no_other_mpi_is_linked(self):
        libraries = output_of(["ldd", os.environ["DYNPIPE_MPICH"]])
        self.assertIn("libmpich.so", libraries)
        self.assertNotIn("libmpi.so", libraries)

    def test_same_bits_with_either_mpi(self):
        usual, mpich = self.folder / "usual.json", self.folder / "mpich.json"
        output_of([os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", "3",
                   os.environ["DYNPIPE"], *self.options(usual)])
        output_of([os.environ["MPICH_EXEC"], "-n", "3", os.environ["DYNPIPE_MPICH"],
                   *self.options(mpich)])
        self.assertEqual(losses(usual), losses(mpich))

    def test_a_launcher_of_the_other_mpi_is_refused(self):
        usual, mpich = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe"], [os.environ["MPICH_EXEC"]]
        for launcher, program in ((usual, "DYNPIPE_MPICH"), (mpich, "DYNPIPE")):
            summary = self.folder / "alone.json"
            command = [*launcher, "-n", "2", os.environ[program], *self.options(summary)]
            run = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                                 env=environment(), timeout=60)
            self.assertEqual(2, run.returncode, run.stderr)
            self.assertIn("has started 2 processes, but MPI sees one", run.stderr)
            self.assertFalse(summary.exists())

    def test_bad_input_is_said_once_with_its_exit_code(self):
        command = [os.environ["MPICH_EXEC"], "-n", "3", os.environ["DYNPIPE_MPICH"], "train",
                   "--model", self.folder / "none.json", "--data", self.folder]
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                             env=environment(), timeout=60)
        self.assertEqual(2, run.returncode, run.stderr)
        self.assertEqual(1, run.stderr.count("none.json"), run.stderr)


if __name__ == "__main__":
    if not os.environ.get("DYNPIPE_MPICH"):
        skip("there is no MPICH beside the usual MPI")
    unittest.main()
