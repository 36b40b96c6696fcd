#!/usr/bin/env python3
"""`dynpipe train` without a plan: layers are measured once, kept, and cut by what they take.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE
from training import BATCH, TrainingTest

BAD_INPUT = 2


class PlanningTest(TrainingTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = str(self.cache)
        self.addCleanup(lambda: os.environ.pop("XDG_CACHE_HOME") if before is None
                        else os.environ.update(XDG_CACHE_HOME=before))

    def part(self, ranks, *options):
        return ["-n", ranks, os.environ["DYNPIPE"], "train", "--model",
                SOURCE / "models/lenet5.json", "--data", self.folder, "--batch", BATCH,
                "--epochs", 1, *options]

    def kept(self):
        return sorted((self.cache / "dynpipe").glob("*.json"))

    def planned(self, *options):
        """What the run said, and its plan."""
        file = self.folder / "plan.json"
        out, err = self.trained(2, "--write-plan", file, *options)
        return out, err, json.loads(file.read_text())

    def test_layers_are_measured_once_and_the_plan_stays(self):
        out, _, first = self.planned()
        self.assertIn("measuring", out)
        self.assertEqual(2, len(first["stages"]))
        self.assertEqual(1, len(self.kept()))
        out, _, second = self.planned()
        self.assertNotIn("measuring", out)
        self.assertEqual(first, second)
        out, _, _ = self.planned("--microbatches", 2)  # other sizes of microbatches
        self.assertIn("measuring", out)
        self.assertEqual(2, len(self.kept()))

    def test_a_damaged_profile_is_named_and_measured_anew(self):
        self.planned()
        self.kept()[0].write_text("{")
        out, err, _ = self.planned()
        self.assertIn(str(self.kept()[0]), err)
        self.assertIn("measuring", out)
        self.assertNotIn("measuring", self.planned()[0])

    def test_the_cut_follows_the_profile(self):
        self.planned()
        profile = json.loads(self.kept()[0].read_text())
        for name in ("forward_us", "backward_input_us", "backward_weight_us"):
            profile["layers"][0][name] = [1e3 * (1 + time) for time in profile["layers"][0][name]]
        file = self.folder / "profile.json"
        file.write_text(json.dumps(profile))
        out, _, plan = self.planned("--profile", file)
        self.assertNotIn("measuring", out)
        layers = json.loads((SOURCE / "models/lenet5.json").read_text())["layers"]
        self.assertIn(plan["stages"][0]["last"], [layer["name"] for layer in layers[:2]])

    def test_nothing_is_measured_where_nothing_is_to_be_decided(self):
        for ranks, options in [(1, ()), (2, ("--algorithm", "flops")), (3, ("--replicas", "2,1"))]:
            out, _ = self.trained(ranks, *options)
            self.assertNotIn("measuring", out)
        self.assertFalse(self.cache.exists())

    def test_any_number_of_stages(self):
        _, _, plan = self.planned("--stages", "auto")
        self.assertEqual(2, sum(len(stage["ranks"]) for stage in plan["stages"]))

    def test_options_that_contradict_each_other(self):
        for options, says in [
                (("--profile", "p.json", "--algorithm", "flops"), "--profile: means nothing"),
                (("--emulate", "c.json"), "--emulate: needs --profile"),
                (("--stages", "auto", "--algorithm", "flops"), "--stages: auto is for"),
                (("--stages", "some"), "--stages: 'some'")]:
            _, err = self.trained(2, *options, code=BAD_INPUT)
            self.assertIn(says, err)


if __name__ == "__main__":
    unittest.main()
