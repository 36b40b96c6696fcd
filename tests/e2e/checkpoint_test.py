#!/usr/bin/env python3
"""Checkpoints: what is resumed is the same run, on any ranks; what is wrong is said once.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment, tensors_in, write_data

MPIRUN = os.environ.get("MPIRUN", "mpirun")
EPOCHS, UPDATES_AN_EPOCH = 3, 5  # 65 images in batches of 16
SCHEDULES = {
    "stash": ["--schedule", "async", "--weights", "stash"],
    "2bw": ["--schedule", "async", "--weights", "2bw", "--optimizer", "adam", "--lr", "0.001"],
    "1f1b": ["--schedule", "1f1b", "--augment", "flip,crop:2"],
}


def command(ranks, *words):
    return [str(word) for word in
            [MPIRUN, "--oversubscribe", "-n", ranks, os.environ["DYNPIPE"], *words]]


class CheckpointTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import h5py  # noqa: F401
        except ImportError:
            raise unittest.SkipTest("python has no h5py") from None
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = write_data(pathlib.Path(folder.name))
        cls.whole = {}

    def words(self, name, *more, model="vgg8", epochs=EPOCHS):
        return ["train", "--model", SOURCE / f"models/{model}.json", "--data", self.folder,
                "--batch", "16", "--microbatches", "2", "--algorithm", "flops", "--epochs", epochs,
                *SCHEDULES[name], *more]

    def run_on(self, ranks, *words):
        return subprocess.run(command(ranks, *words), capture_output=True, text=True,
                              env=environment(), timeout=120)

    def trained(self, ranks, *words):
        done = self.run_on(ranks, *words)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def whole_run(self, name):
        """A run with a checkpoint of every update: its folder, weights and summary."""
        if name not in self.whole:
            checkpoints = self.folder / f"whole-{name}"
            weights, summary = self.folder / f"{name}.h5", self.folder / f"{name}.json"
            self.trained(2, *self.words(name, "--checkpoint-dir", checkpoints, "--checkpoint-every",
                                        1, "--keep", 0, "--save-weights", weights, "--summary",
                                        summary))
            self.whole[name] = checkpoints, tensors_in(weights), json.loads(summary.read_text())
        return self.whole[name]

    def fresh(self, name):
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def refused(self, done, *says, code=2):
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        complaints = [line for line in done.stderr.splitlines() if line.startswith("dynpipe: ")
                      and not line.startswith("dynpipe: warning")]
        self.assertEqual(1, len(complaints), done.stderr)
        for part in says:
            self.assertIn(str(part), complaints[0])

    def test_resuming_after_any_update_is_the_same_run(self):
        for name in SCHEDULES:
            checkpoints, weights, summary = self.whole_run(name)
            self.assertEqual(EPOCHS * UPDATES_AN_EPOCH, len(list(checkpoints.glob("step-*"))))
            for update in (1, 5, 8, 15):
                with self.subTest(schedule=name, update=update):
                    saved, told = self.folder / "again.h5", self.folder / "again.json"
                    self.trained(2, *self.words(name, "--resume", checkpoints / f"step-{update}",
                                                "--save-weights", saved, "--summary", told))
                    self.assertEqual(weights, tensors_in(saved))
                    again = json.loads(told.read_text())
                    self.assertEqual(update, again["resumed"]["update"])
                    for before, after in zip(summary["epochs"], again["epochs"], strict=True):
                        for figure in ("epoch", "train_loss", "test_loss", "test_accuracy",
                                       "train_accuracy", "samples"):
                            self.assertEqual(before[figure], after[figure], figure)

    def test_metrics_go_on_in_the_same_file(self):
        checkpoints, _, _ = self.whole_run("stash")
        for name in ("run.jsonl", "run.csv"):
            whole, resumed = self.folder / f"whole-{name}", self.folder / f"resumed-{name}"
            self.trained(2, *self.words("stash", "--metrics", whole))
            resumed.write_text(whole.read_text() + "half a li")
            self.trained(2, *self.words("stash", "--metrics", resumed, "--resume",
                                        checkpoints / "step-8"))

            def told(file):
                if name.endswith("csv"):
                    return [line.split(",")[:2] for line in file.read_text().splitlines()]
                return [[line.get(key) for key in ("kind", "update", "loss", "test_loss")]
                        for line in map(json.loads, file.read_text().splitlines())]
            self.assertEqual(told(whole), told(resumed))

    def test_other_ranks_go_on_alike(self):
        double = ["--dtype", "float64"]
        checkpoints = self.fresh("double")
        self.trained(2, *self.words("1f1b", *double, "--checkpoint-dir", checkpoints,
                                    "--checkpoint-every", 4, model="lenet5"))
        ends = {}
        for ranks, *more in [(2,), (1,), (3, "--replicas", "2,1"), (2, "--schedule", "gpipe")]:
            told = self.folder / "ranks.json"
            words = self.words("1f1b", *double, "--resume", checkpoints / "step-8", "--summary",
                               told, model="lenet5")
            if "--schedule" in more:
                words = [word for word in words if word not in ("--schedule", "1f1b")]
            self.trained(ranks, *words, *more)
            ends[ranks, *more] = json.loads(told.read_text())["epochs"][-1]
        reference = ends.pop((2,))
        for how, end in ends.items():
            for figure in ("train_loss", "test_loss"):
                self.assertAlmostEqual(reference[figure], end[figure], delta=1e-9, msg=str(how))

    def test_asynchronous_on_other_ranks(self):
        checkpoints, _, _ = self.whole_run("stash")
        said = self.trained(3, *self.words("stash", "--resume", checkpoints / "step-7"))
        self.assertIn("under another plan", said)

    def test_the_index_shows_everything(self):
        import h5py
        checkpoints, weights, _ = self.whole_run("stash")
        with h5py.File(checkpoints / "step-15" / "index.h5") as index:
            self.assertEqual(15, index.attrs["update"])
            self.assertEqual("vgg8", index.attrs["model"])
            self.assertEqual(2, len(json.loads(index["plan"][()])["stages"]))
            for path, values in weights.items():
                self.assertEqual(values, index[path][()].tobytes(), path)
            momenta = index["optimizer/momentum_buffer"]
            self.assertEqual(index["model/conv1/weight"].shape, momenta["conv1/weight"].shape)
            self.assertIn("14", index["versions"])

    def test_a_signal_saves_and_another_run_goes_on(self):
        """Some stops, at whatever moments, leave the bits of a run that was never stopped."""
        checkpoints, epochs = self.fresh("signalled"), 1000
        words = self.words("stash", "--checkpoint-dir", checkpoints, "--checkpoint-every", 50,
                           "--resume", "auto", "--progress", "log", epochs=epochs, model="lenet5")
        stops = 0
        for wait_s in (0.9, 0.3, 0.6):
            process = subprocess.Popen(command(2, *words), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env=environment())
            for line in process.stdout:
                if line.startswith("stage "):
                    break
            time.sleep(wait_s)
            process.send_signal(signal.SIGUSR1)
            out, err = process.communicate(timeout=60)
            if process.returncode == 0:
                break  # it was faster
            self.assertEqual(75, process.returncode, out + err)
            self.assertIn("--resume auto goes on", err)
            stops += 1
        self.assertGreater(stops, 0)
        saved, reference = self.folder / "stopped.h5", self.folder / "never.h5"
        self.trained(2, *words, "--save-weights", saved)
        self.trained(2, *self.words("stash", "--save-weights", reference, epochs=epochs,
                                    model="lenet5"))
        self.assertEqual(tensors_in(reference), tensors_in(saved))

    def test_keeps_the_newest_and_the_best(self):
        checkpoints = self.fresh("kept")
        self.trained(2, *self.words("1f1b", "--checkpoint-dir", checkpoints, "--checkpoint-every",
                                    2, "--keep", 2, "--keep-best"))
        best = (checkpoints / "best").resolve().name
        kept = {path.name for path in checkpoints.glob("step-*")}
        self.assertEqual({"step-14", "step-15", best}, kept | {best})
        self.assertEqual([], list(checkpoints.glob("*.partial")) + list(checkpoints.glob("*.removed")))

    def test_starts_from_weights_alone(self):
        checkpoints, _, summary = self.whole_run("1f1b")
        told = self.folder / "tuned.json"
        self.trained(2, *self.words("1f1b", "--init-from", checkpoints / "step-15", "--lr", 0,
                                    "--summary", told, epochs=1))
        self.assertAlmostEqual(summary["epochs"][-1]["test_accuracy"],
                               json.loads(told.read_text())["epochs"][0]["test_accuracy"], delta=1)
        text = (SOURCE / "models/vgg8.json").read_text()
        changed = self.folder / "changed.json"
        changed.write_text(text.replace('"out_features": 10', '"out_features": 12'))
        words = [word if word != SOURCE / "models/vgg8.json" else changed
                 for word in self.words("1f1b", "--init-from", checkpoints / "step-15", epochs=1)]
        again = self.words("1f1b", "--init-from", checkpoints / "step-15", "--checkpoint-dir",
                           self.fresh("tuned"), "--resume", "auto", epochs=1)
        self.assertIn("from the beginning", self.trained(2, *again))
        self.assertIn("tuned/step-5: after update 5", self.trained(2, *again))
        self.refused(self.run_on(2, *words), "/model/fc2/", "has shape")
        self.trained(2, *words, "--init-fresh", "fc2")
        self.refused(self.run_on(2, *words, "--init-fresh", "nothing"), "'nothing' is no layer")

    def damage(self, file):
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    def test_damage_is_named_and_the_one_before_is_taken(self):
        whole, weights, _ = self.whole_run("stash")
        folder = self.fresh("damaged")
        folder.mkdir()
        for step in ("step-7", "step-9"):
            shutil.copytree(whole / step, folder / step)
        self.damage(folder / "step-9" / "stage-1.h5")
        words = self.words("stash", "--checkpoint-dir", folder, "--resume", "auto")
        self.refused(self.run_on(2, *self.words("stash", "--resume", folder / "step-9")),
                     "step-9/stage-1.h5: is damaged")
        self.damage(folder / "step-7" / "stage-0.h5")
        self.refused(self.run_on(2, *words), "step-9/stage-1.h5: is damaged",
                     "step-7/stage-0.h5: is damaged")
        (folder / "step-7" / "stage-0.h5").unlink()
        self.refused(self.run_on(3, *words), "step-7/stage-0.h5: cannot be read")
        shutil.copy(whole / "step-7" / "stage-0.h5", folder / "step-7" / "stage-0.h5")
        saved = self.folder / "before.h5"
        shutil.rmtree(folder / "step-9")
        shutil.copytree(whole / "step-9", folder / "step-9")
        (folder / "step-9" / "index.h5").write_bytes(b"")
        self.refused(self.run_on(2, *words), "holds step-9, newer than")
        said = self.trained(2, *self.words("stash", "--resume", folder, "--save-weights", saved))
        self.assertIn("step-9/index.h5: is damaged", said)
        self.assertEqual(weights, tensors_in(saved))

    def test_refuses_what_would_not_be_the_same_run(self):
        whole, _, _ = self.whole_run("stash")
        step = whole / "step-8"
        for change, *says in [(["--seed", "2"], "--seed", "is 2 now, but was 1"),
                              (["--dtype", "float64"], "--dtype")]:
            self.refused(self.run_on(2, *self.words("stash", "--resume", step, *change)), *says)
        self.refused(self.run_on(2, *self.words("stash", "--resume", step, model="lenet5")),
                     "layers")
        said = self.trained(2, *self.words("stash", "--resume", step, "--lr", "0.01"))
        self.assertIn("learning_rate is 0.01 from here on, it was 0.05", said)
        self.refused(self.run_on(2, *self.words("stash", "--checkpoint-dir", whole)),
                     "holds checkpoints of a run, up to step-15")
        self.refused(self.run_on(2, *self.words("stash", "--resume", self.folder / "none")),
                     "is no checkpoint")
        self.refused(self.run_on(1, *self.words("stash", "--resume", step, "--init-from", step)),
                     "--init-from", "starts a run")
        self.refused(self.run_on(1, *self.words("stash", "--keep", 4)), "--keep",
                     "means nothing without --checkpoint-dir")

    def test_auto_starts_where_there_is_nothing(self):
        said = self.trained(1, *self.words("1f1b", "--checkpoint-dir", self.fresh("empty"),
                                           "--resume", "auto", "--max-updates", 2))
        self.assertIn("holds no checkpoint: the run starts from the beginning", said)

    def test_one_run_a_folder(self):
        folder = self.fresh("busy")
        words = self.words("stash", "--checkpoint-dir", folder, epochs=100000, model="lenet5")
        process = subprocess.Popen(command(2, *words), stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, env=environment())
        try:
            for line in process.stdout:
                if line.startswith("stage "):
                    break
            self.refused(self.run_on(2, *words), "busy: is in use by another run: process")
        finally:
            process.kill()
            process.communicate()

    def test_a_full_disk_does_not_end_training(self):
        folder = self.fresh("full")
        folder.mkdir()
        mounted = ["unshare", "-m", "sh", "-c",
                   'mount -t tmpfs -o size=100k none "$0" 2>/dev/null || exit 77; exec "$@"', folder]

        def on_small_disk(*words):
            return subprocess.run([str(word) for word in [*mounted, *command(2, *words)]],
                                  capture_output=True, text=True, env=environment(), timeout=120)
        words = self.words("stash", "--checkpoint-dir", folder, "--checkpoint-every", 2,
                           "--progress", "log")
        done = on_small_disk(*words)
        if done.returncode in (1, 77, 126, 127) and "epoch" not in done.stdout:
            self.skipTest("a small disk cannot be mounted here")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual(1, done.stderr.count("could not be written"), done.stderr)
        self.assertIn("training goes on", done.stderr)
        done = on_small_disk(*words, "--checkpoint-required")
        self.refused(done, "could not be written", code=1)


if __name__ == "__main__":
    unittest.main()
