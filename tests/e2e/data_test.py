#!/usr/bin/env python3
"""Every kind of data set is trained on, or refused in one line.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest
import zlib

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


def write_png(path, height, width):
    """A picture of colours that change from corner to corner."""
    rows = b"".join(b"\0" + bytes(value for x in range(width)
                                   for value in (9 * y % 256, 7 * x % 256, 128))
                    for y in range(height))

    def chunk(kind, contents):
        return (struct.pack(">I", len(contents)) + kind + contents +
                struct.pack(">I", zlib.crc32(kind + contents)))

    path.write_bytes(b"\x89PNG\r\n\x1a\n" +
                     chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


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
        batch = [] if "--batch" in options else ["--batch", "8"]
        return self.run_program("train", "--model", self.model, "--data", data, *batch,
                                "--epochs", "2", "--deadline", "20", "--algorithm", "flops",
                                "--summary", self.summary,
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

    def write_idx(self, train=90, test=20, side=10):
        """A folder of IDX files."""
        self.model.write_text(json.dumps(model_for(1, side, 10)))
        folder = self.folder / "idx"
        folder.mkdir()
        draw = random.Random(2)
        for split, count in (("train", train), ("t10k", test)):
            (folder / f"{split}-images-idx3-ubyte").write_bytes(
                struct.pack(">4I", 0x803, count, side, side) + draw.randbytes(count * side * side))
            (folder / f"{split}-labels-idx1-ubyte").write_bytes(
                struct.pack(">2I", 0x801, count) + bytes(draw.randrange(10) for _ in range(count)))
        return folder

    def imported(self, source, *options):
        file = self.folder / "set.h5"
        done = self.run_program("data", "import", source, file, *options)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return file

    def test_an_hdf5_set_that_fits_its_window_trains_as_the_set_it_was_made_of(self):
        folder = self.write_idx()
        file = self.imported(folder)
        for options in ([], ["--augment", "flip,crop:2"], ["--schedule", "1f1b"]):
            self.assertEqual(self.losses(folder, *options), self.losses(file, *options))

    def test_a_larger_set_trains_alike_on_any_ranks_and_however_far_ahead_it_is_read(self):
        file = self.imported(self.write_idx(train=12000, side=20))  # 4.6 MiB in windows of one
        options = ["--shuffle-window", "2", "--batch", "512", "--augment", "flip", "--schedule",
                   "1f1b"]
        once = self.losses(file, *options)
        self.assertEqual(once, self.losses(file, *options, "--prefetch", "0"))
        self.assertEqual(once, self.losses(file, *options, "--prefetch", "9", ranks=3))
        self.assertEqual(once, self.losses(file, *options, "--prefetch", "4", "--recompute", "all"))
        self.assertEqual(once, self.losses(file, *options, ranks=1))
        options[1] = "256"
        self.assertNotEqual(once, self.losses(file, *options))

    def test_augmentation_changes_training_alone_and_alike_on_any_ranks(self):
        folder = self.write_idx()
        plain = self.losses(folder, "--lr", "0", "--schedule", "1f1b")
        augmented = self.losses(folder, "--lr", "0", "--schedule", "1f1b", "--augment", "flip,crop")
        self.assertNotEqual(plain[0][0], augmented[0][0])
        self.assertNotEqual(augmented[0][0], augmented[1][0])  # another epoch, other pictures
        self.assertEqual([losses[1:] for losses in plain], [losses[1:] for losses in augmented])
        self.assertEqual(augmented, self.losses(folder, "--lr", "0", "--schedule", "1f1b",
                                                "--augment", "flip,crop", ranks=3))

    def test_a_padding_wider_than_the_images_is_refused(self):
        self.assert_refused(self.train(self.write_idx(), "--augment", "crop:11"), "--augment",
                            "crop:11", "[1,10,10]")

    def test_info_tells_of_every_kind(self):
        for data, *says in [
            (self.write_cifar(), "CIFAR-10, images [3,32,32] of uint8, 10 classes"),
            (self.write_idx(), "IDX, images [1,10,10] of uint8, 10 classes"),
            (self.imported(self.folder / "idx"), "HDF5, images [1,10,10]"),
        ]:
            done = self.run_program("data", "info", data)
            self.assertEqual(0, done.returncode, done.stderr)
            for part in says:
                self.assertIn(part, done.stdout)
            lines = done.stdout.splitlines()[1:]
            self.assertLessEqual(max(map(len, lines)), 80)

    def test_pictures_are_imported_and_trained_on(self):
        for split, count in (("train", 6), ("val", 2)):
            for name in ("cat", "dog"):
                (self.folder / "pictures" / split / name).mkdir(parents=True)
                for i in range(count):
                    write_png(self.folder / "pictures" / split / name / f"{i}.png", 20 + i, 31)
        file = self.imported(self.folder / "pictures", "--size", "16x16")
        self.model.write_text(json.dumps(model_for(3, 16, 2)))
        self.assertEqual([12, 12], [samples for _, _, samples in self.losses(file)])

    def test_pictures_that_are_cut_off_are_named_and_nothing_is_written(self):
        folder = self.folder / "pictures"
        (folder / "cat").mkdir(parents=True)
        for i in range(4):
            write_png(folder / "cat" / f"{i}.png", 8, 8)
        bad = folder / "cat" / "2.png"
        bad.write_bytes(bad.read_bytes()[:-30])
        done = self.run_program("data", "import", folder, self.folder / "set.h5",
                                "--test-fraction", "0.5")
        self.assert_refused(done, folder, "1 of 4 pictures cannot be used")
        self.assertIn(str(bad), done.stderr)
        self.assertEqual([], list(self.folder.glob("set.h5*")))

    def test_words_after_data(self):
        for words, *says in [
            ([], "import or info is missing"),
            (["inof"], "'inof'", "did you mean 'info'?"),
            (["import", "nowhere", "set.h5"], "nowhere: does not exist"),
            (["info"], "PLACE: is missing"),
            (["info", "--imagse", "3"], "--images"),
        ]:
            self.assert_refused(self.run_program("data", *words), *says)
        for words in (["--help"], ["import", "--help"], ["info", "--help"]):
            done = self.run_program("data", *words)
            self.assertEqual(0, done.returncode)
            self.assertIn("usage: dynpipe data", done.stdout)


if __name__ == "__main__":
    unittest.main()
