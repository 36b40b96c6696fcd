"""dynpipe forest: collects a little, learns from it, tells of it, refuses what it cannot use."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import h5py

DYNPIPE = os.environ["DYNPIPE"]


def forest(*words):
    return subprocess.run([DYNPIPE, "forest", *map(str, words)], capture_output=True, text=True)


class ForestTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.data = cls.folder / "data.h5"
        cls.collected = forest("collect", "--out", cls.data, "--minutes", 0.12, "--slice", 0.02,
                               "--only", "hog x1,hog x2")
        cls.out = cls.folder / "forest" / "default.json"
        cls.trained = forest("train", "--data", cls.data, "--out", cls.out, "--kind", "boosted")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def refused(self, message, *words):
        answer = forest(*words)
        self.assertEqual(2, answer.returncode, answer.stderr)
        self.assertIn(message, answer.stderr)
        self.assertEqual(1, answer.stderr.count("\n"), answer.stderr)

    def test_what_is_collected_is_a_table_for_h5py(self):
        self.assertEqual(0, self.collected.returncode, self.collected.stderr)
        with h5py.File(self.data) as file:
            table, columns = file["measurements"], list(file["measurements_columns"].asstr())
            self.assertEqual(len(columns), table.shape[1])
            self.assertGreater(table.shape[0], 60)
            causes = list(file["disturbances"].asstr())
            self.assertEqual("none", causes[0])
            self.assertTrue(all("hog" in cause for cause in causes[1:]), causes)
            disturbed = table[:, columns.index("disturbance")] > 0
            self.assertTrue(disturbed.any() and not disturbed.all())

    def test_collecting_goes_on_where_it_ended(self):
        with h5py.File(self.data) as file:
            before = file["measurements"][:]
        again = forest("collect", "--out", self.data, "--minutes", 0.13, "--slice", 0.02, "--only",
                       "hog x1,hog x2")
        self.assertEqual(0, again.returncode, again.stderr)
        with h5py.File(self.data) as file:
            after = file["measurements"][:]
        self.assertGreaterEqual(len(after), len(before))
        self.assertTrue((after[: len(before), :8] == before[:, :8]).all())
        self.refused("other stages", "collect", "--out", self.data, "--slice", 0.03, "--only",
                     "hog x1,hog x2")

    def test_train_writes_a_forest_and_its_card(self):
        self.assertEqual(0, self.trained.returncode, self.trained.stderr)
        self.assertIn("held-out MAE", self.trained.stdout)
        written = json.loads(self.out.read_text())
        self.assertEqual("dynpipe forest", written["format"])
        self.assertEqual("boosted", written["kind"])
        self.assertEqual({"conv", "pointwise", "residual", "bottleneck", "wide", "middling",
                          "narrow", "norm", "large", "mixed"}, set(written["held_out_by_mix"]))
        card = (self.out.parent / "README.md").read_text()
        for word in ("held out", "label noise", "Importance", "data.h5"):
            self.assertIn(word, card)

    def test_eval_and_explain_tell_of_it(self):
        evaluated = forest("eval", "--data", self.data, "--forest", self.out)
        self.assertEqual(0, evaluated.returncode, evaluated.stderr)
        self.assertIn("learnt rows", evaluated.stdout)
        explained = forest("explain", "--forest", self.out, "--data", self.data, "--example", 3)
        self.assertEqual(0, explained.returncode, explained.stderr)
        self.assertIn("core_slowdown", explained.stdout)
        self.assertIn("Example 3", explained.stdout)
        made_up = forest("explain", "--forest", self.out)
        self.assertIn("measured to be 2.20 times slower", made_up.stdout)

    def test_bad_input_is_refused_in_one_line(self):
        missing = self.folder / "none.json"
        self.refused("none.json: No such file or directory; a forest of version 1", "explain",
                     "--forest", missing)
        foreign = self.folder / "foreign.json"
        foreign.write_text('{"learner": {}, "version": [1, 7, 4]}')
        self.refused("foreign.json: format: ", "explain", "--forest", foreign)
        older = json.loads(self.out.read_text())
        older["feature_version"] = 0
        old = self.folder / "old.json"
        old.write_text(json.dumps(older))
        self.refused("old.json: feature_version: is 0, version 1", "explain", "--forest", old)
        self.refused("foreign.json", "train", "--data", foreign)
        with h5py.File(self.folder / "other.h5", "w") as file:
            file.attrs["format"] = "another"
        self.refused("other.h5: format: ", "eval", "--data", self.folder / "other.h5")
        self.refused("--out: is missing", "collect")
        self.refused("--kind: must be", "train", "--data", self.data, "--kind", "oak")
        self.refused("no disturbance here", "collect", "--out", self.folder / "x.h5", "--only", "xyz")
        self.refused("'colect' is none of", "colect")


if __name__ == "__main__":
    unittest.main()
