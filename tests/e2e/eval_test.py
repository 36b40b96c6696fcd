#!/usr/bin/env python3
"""`dynpipe eval` finds again what training said of the weights that it saved, on any ranks.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import CLASSES, SOURCE, environment, write_data

TRAIN, TEST = 65, 33  # images


def on_ranks(ranks, *words):
    command = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", ranks,
               os.environ["DYNPIPE"], *words]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=environment(), timeout=120)


class EvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = write_data(pathlib.Path(folder.name), train=TRAIN, test=TEST)
        cls.weights = cls.folder / "weights.h5"
        summary = cls.folder / "summary.json"
        done = on_ranks(2, "train", "--model", SOURCE / "models/vgg8.json", "--data", cls.folder,
                        "--batch", "16", "--microbatches", "2", "--epochs", "3", "--lr", "0.02", "--algorithm", "flops",
                        "--save-weights", cls.weights, "--summary", summary)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.last = json.loads(summary.read_text())["epochs"][-1]

    def evaluated(self, ranks, *options, model="vgg8", weights=None):
        return on_ranks(ranks, "eval", "--model", SOURCE / f"models/{model}.json", "--data",
                        self.folder, "--weights", weights or self.weights, *options)

    def refused(self, *says, options=(), **how):
        done = self.evaluated(2, *options, **how)
        self.assertEqual(2, done.returncode, done.stdout + done.stderr)
        complaints = [line for line in done.stderr.splitlines() if line.startswith("dynpipe: ")]
        self.assertEqual(1, len(complaints), done.stderr)
        for part in says:
            self.assertIn(str(part), complaints[0])

    def test_says_what_training_said(self):
        for ranks, *options in [(1,), (2,), (3, "--stages", "2"), (1, "--microbatch", "7")]:
            done = self.evaluated(ranks, *options)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            accuracy, loss = re.search(r"accuracy (\S+) %   loss (\S+)", done.stdout).groups()
            self.assertEqual(f"{100 * self.last['test_accuracy']:.2f}", accuracy)
            self.assertAlmostEqual(self.last["test_loss"], float(loss), delta=2e-4)

    def test_predictions_are_in_the_order_of_the_samples(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("python has no h5py")
        found = []
        for ranks, *options in [(1,), (3, "--stages", "1", "--microbatch", "5")]:
            file = self.folder / f"predictions-{ranks}.h5"
            done = self.evaluated(ranks, "--predictions", file, *options)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
            with h5py.File(file) as h5:
                found.append({name: h5[name][()] for name in ("labels", "predictions", "logits")})
        for each in found:
            self.assertEqual([i % CLASSES for i in range(TEST)], list(each["labels"]))
            self.assertEqual((TEST, CLASSES), each["logits"].shape)
            self.assertEqual(list(each["logits"].argmax(axis=1)), list(each["predictions"]))
        self.assertLess(abs(found[0]["logits"] - found[1]["logits"]).max(), 1e-3)

    def test_weights_are_where_pytorch_users_look_for_them(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("python has no h5py")
        with h5py.File(self.weights) as h5:
            self.assertEqual((64, 1, 3, 3)[1:], h5["/model/conv1/weight"].shape[1:])
            self.assertIn("running_mean", h5["/model/bn1"])

    def test_training_samples_can_be_evaluated(self):
        done = self.evaluated(2, "--split", "train")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn(f"{TRAIN} training samples", done.stdout)

    def test_weights_that_do_not_fit(self):
        self.refused(self.weights, "vgg8", "lenet5", model="lenet5")
        self.refused(self.folder / "none.h5", weights=self.folder / "none.h5")
        text = self.folder / "text.h5"
        text.write_text("no HDF5")
        self.refused(text, weights=text)
        cut = self.folder / "cut.h5"
        cut.write_bytes(self.weights.read_bytes()[:-5000])
        self.refused(cut, weights=cut)

    def test_options_that_make_no_sense(self):
        self.refused("--microbatch", "0", options=("--microbatch", "0"))
        self.refused("--split", "all", options=("--split", "all"))
        self.refused("--prediction", "--predictions", options=("--prediction", "x.h5"))
        place = self.folder / "nowhere" / "predictions.h5"
        self.refused(place, options=("--predictions", place))

    def test_weights_that_cannot_be_written_are_known_before_training(self):
        place = self.folder / "nowhere" / "weights.h5"
        done = on_ranks(2, "train", "--model", SOURCE / "models/lenet5.json", "--data", self.folder,
                        "--batch", "16", "--save-weights", place)
        self.assertEqual(2, done.returncode, done.stdout + done.stderr)
        self.assertIn(str(place), done.stderr)


if __name__ == "__main__":
    unittest.main()
