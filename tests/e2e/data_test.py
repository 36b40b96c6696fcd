#!/usr/bin/env python3
"""Every kind of data set is trained on, or refused in one line.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

BAD_INPUT = 2
RECORD = 1 + 3 * 32 * 32


def model_for(channels, side, classes):
    return {
        "name": "tiny",
        "input": [channels, side, side],
        "layers": [
            {"name": "conv", "type": "conv2d", "out_channels": 2, "kernel": 3, "padding": 1},
            {"name": "flatten", "type": "flatten"},
            {"name": "fc", "type": "linear", "out_features": classes},
        ],
        "loss": "softmax_cross_entropy",
    }


class DataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.folder / "model.json"
        self.summary = self.folder / "summary.json"

    def run_program(self, *words, ranks=None):
        command = [os.environ["DYNPIPE"], *words]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if ranks:
            command[:0] = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", ranks]
            if os.geteuid() == 0:
                environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1",
                                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              env=environment, timeout=120, check=False)

    def train(self, data, *options, ranks=2):
        return self.run_program("train", "--model", self.model, "--data", data, "--batch", "8",
                                "--epochs", "2", "--deadline", "20", "--summary", self.summary,
                                *options, ranks=ranks)

    def losses(self, data, *options, ranks=2):
        done = self.train(data, *options, ranks=ranks)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return [(epoch["train_loss"], epoch["test_loss"], epoch["samples"])
                for epoch in json.loads(self.summary.read_text())["epochs"]]

    def assert_refused(self, done, *says):
        complaints = [line for line in done.stderr.splitlines() if line.startswith("dynpipe: ")]
        self.assertEqual(1, len(complaints), done.stdout + done.stderr)
        for part in says:
            self.assertIn(str(part), complaints[0])
        self.assertEqual(BAD_INPUT, done.returncode)

    def write_cifar(self, records=5):
        """A folder of CIFAR-10's files, each with so many records."""
        self.model.write_text(json.dumps(model_for(3, 32, 10)))
        folder = self.folder / "cifar"
        folder.mkdir(exist_ok=True)
        draw = random.Random(1)
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            (folder / name).write_bytes(b"".join(
                bytes([draw.randrange(10)]) + draw.randbytes(RECORD - 1)
                for _ in range(records)))
        return folder

    def test_cifar_is_trained_on(self):
        losses = self.losses(self.write_cifar())
        self.assertEqual([25, 25], [samples for _, _, samples in losses])

    def test_cifar_of_a_wrong_size_is_refused(self):
        folder = self.write_cifar()
        file = folder / "data_batch_4.bin"
        file.write_bytes(file.read_bytes()[:-1])
        self.assert_refused(self.train(folder), file, f"{5 * RECORD - 1} bytes")

    def test_cifar_of_another_shape_than_the_model_is_refused(self):
        folder = self.write_cifar()
        self.model.write_text(json.dumps(model_for(1, 28, 10)))
        self.assert_refused(self.train(folder), self.model, "[1,28,28]", "[3,32,32]")

    def test_a_file_that_is_no_data_set_is_refused(self):
        self.write_cifar()
        self.assert_refused(self.train(self.model), self.model, "not an HDF5 file")


if __name__ == "__main__":
    unittest.main()
