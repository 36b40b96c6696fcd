#!/usr/bin/env python3
"""`dynpipe checkpoint` tells of what a run has left, and names what is damaged.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment, output_of, write_data

MPIRUN = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe"]


class CheckpointToolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = write_data(pathlib.Path(folder.name))
        cls.run_folder = cls.folder / "run"
        cls.train = [os.environ["DYNPIPE"], "train", "--model", SOURCE / "models/vgg8.json",
                     "--data", cls.folder, "--batch", 16, "--microbatches", 2]
        output_of([*MPIRUN, "-n", 2, *cls.train, "--algorithm", "flops", "--epochs", 2, "--lr",
                   "0.02", "--checkpoint-dir", cls.run_folder, "--checkpoint-every", 4,
                   "--keep-best"])

    def tool(self, *words, code=0):
        words = [os.environ["DYNPIPE"], "checkpoint", *(str(word) for word in words)]
        done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        if code != 0:
            self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
            self.assertTrue(done.stderr.startswith("dynpipe: "), done.stderr)
        return done.stdout + done.stderr

    def test_lists_shows_and_verifies_a_run(self):
        listed = self.tool("ls", self.run_folder)
        steps = sorted(path.name for path in self.run_folder.glob("step-*"))
        self.assertGreaterEqual(len(steps), 2)
        for step in steps:
            line = next(line for line in listed.splitlines() if line.startswith(step + " "))
            self.assertIn("complete", line)
        shown = self.tool("show", self.run_folder / steps[0])
        for part in ("vgg8 (float32)", "stage-1.h5", "conv1.weight", "[32,1,3,3]", "--lr", "sgd"):
            self.assertIn(part, shown)
        verified = self.tool("verify", self.run_folder)
        self.assertEqual(len(steps), verified.count(": whole: "))

    def test_a_plan_can_be_used_again(self):
        plan = self.folder / "plan.json"
        plan.write_text(self.tool("show", self.run_folder, "--part", "plan"))
        dry = output_of([*MPIRUN, "-n", 2, *self.train[:-2], "--plan", plan, "--dry-run"])
        self.assertIn("vgg8", dry)

    def test_names_what_is_damaged(self):
        damaged = self.folder / "damaged"
        shutil.copytree(self.run_folder, damaged, symlinks=True)
        step = next(damaged.glob("step-*"))
        shard = step / "stage-0.h5"
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        said = self.tool("verify", damaged, code=2)
        self.assertIn(f"{shard}: is damaged", said)
        self.assertIn(step.name, said.splitlines()[-1])
        self.assertIn("is damaged", self.tool("export", step, "--safetensors",
                                              self.folder / "no.safetensors", code=2))
        self.assertFalse((self.folder / "no.safetensors").exists())
        (step / "stage-1.h5").unlink()
        self.assertIn("stage-1.h5: cannot be read", self.tool("ls", damaged))
        self.assertIn("stage-1.h5: cannot be read", self.tool("verify", step, code=2))

    def test_weights_leave_and_come_back(self):
        file, weights = self.folder / "out.safetensors", self.folder / "in.h5"
        model = SOURCE / "models/vgg8.json"
        self.tool("export", self.run_folder, "--safetensors", file)
        self.tool("import", file, "--model", model, "--out", weights)
        newest = max(self.run_folder.glob("step-*"), key=lambda path: int(path.name[5:]))
        told = [output_of([os.environ["DYNPIPE"], "eval", "--model", model, "--data", self.folder,
                           "--weights", source]) for source in (weights, newest)]
        results = [re.search(r"accuracy .* loss \S+", text).group() for text in told]
        self.assertEqual(results[0], results[1])
        self.assertIn("lenet5", self.tool("import", file, "--model", SOURCE / "models/lenet5.json",
                                          "--out", weights, code=2))

    def test_wrong_words(self):
        self.assertIn("did you mean 'verify'", self.tool("verfy", code=2))
        self.assertIn("/nowhere", self.tool("ls", "/nowhere", code=2))
        for command in ("ls", "show", "verify", "export", "import"):
            self.assertIn("usage: dynpipe checkpoint " + command, self.tool(command, "--help"))


if __name__ == "__main__":
    unittest.main()
