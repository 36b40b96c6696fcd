"""`dynpipe profile`, and the summary of `train --measure-kappa`."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment
from training import TrainingTest


class ProfileTest(TrainingTest):
    def profile(self, ranks, *options, code=0):
        command = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", ranks,
                   os.environ["DYNPIPE"], "profile", "--model", SOURCE / "models/lenet5.json",
                   "--batch", 8, "--seconds", "0.2", *options]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                              env=environment(), timeout=120)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done

    def test_measures_every_layer_and_link(self):
        out = self.folder / "profile.json"
        done = self.profile(3, "--microbatches", "2,4,8", "--data", self.folder, "--out", out)
        self.assertIn("KiB/sample", done.stdout)
        self.assertIn("link 1 to 2", done.stdout)
        profile = json.loads(out.read_text())
        self.assertEqual([1, 2, 4], profile["samples"])
        model = json.loads((SOURCE / "models/lenet5.json").read_text())
        self.assertEqual([layer["name"] for layer in model["layers"]],
                         [layer["name"] for layer in profile["layers"]])
        convolution = profile["layers"][0]
        for times in (convolution["forward_us"], convolution["backward_weight_us"]):
            self.assertEqual(3, len(times))
            self.assertGreater(min(times), 0)
        self.assertEqual([(0, 1), (1, 2)], [(link["from"], link["to"]) for link in profile["links"]])
        for link in profile["links"]:
            self.assertGreater(link["bytes_per_s"], 0)
        self.assertEqual(3, len(profile["slowdowns"]))

    def test_one_rank_has_no_links(self):
        out = self.folder / "profile.json"
        self.profile(1, "--stages", 2, "--out", out)
        profile = json.loads(out.read_text())
        self.assertEqual([], profile["links"])
        self.assertNotIn("slowdowns", profile)

    def test_refuses_what_it_cannot_measure(self):
        for words, reason in (
            (["--microbatches", "16"], "--microbatches: must be at most --batch"),
            (["--microbatches", "2,x"], "--microbatches: '2,x' is not a list"),
            (["--seconds", "0"], "--seconds: must be above 0"),
            (["--model", self.folder / "none.json"], "none.json: cannot be read"),
            (["--data", self.folder / "none"], "none"),
            (["--stages", "0"], "--stages: must be at least 1"),
            (["--speed", "1"], "--speed"),
        ):
            model = [] if words[0] == "--model" else ["--model", SOURCE / "models/lenet5.json"]
            command = [os.environ["DYNPIPE"], "profile", *model, "--batch", 8, *words]
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                                  env=environment(), timeout=60)
            self.assertEqual(2, done.returncode, done.stdout + done.stderr)
            self.assertIn(reason, done.stderr)

    def test_the_summary_tells_what_delay_costs(self):
        summary = self.folder / "summary.json"
        self.trained(2, "--epochs", 4, "--measure-kappa", 5, "--summary", summary)
        told = json.loads(summary.read_text())
        self.assertEqual([str(lag) for lag in range(1, 9)], list(told["gradient_cosines"]))
        self.assertEqual(3, told["gradient_comparisons"])  # updates 9, 14 and 19
        self.assertGreaterEqual(told["kappa"], 0)
        self.trained(2, "--epochs", 1, "--summary", summary)
        self.assertNotIn("kappa", json.loads(summary.read_text()))


if __name__ == "__main__":
    unittest.main()
