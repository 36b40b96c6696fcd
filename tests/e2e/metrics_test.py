#!/usr/bin/env python3
"""The files that tell programs of a run: metrics and summary, whatever ends it."""

import csv
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment
from training import DEADLINE_S, TRAIN, UPDATES, TrainingTest

FAILED_RUN = 1
BAD_INPUT = 2
ENDLESS = ("--epochs", 100000, "--log-every", 1)


class MetricsTest(TrainingTest):
    def setUp(self):
        super().setUp()
        self.metrics = self.folder / "run.jsonl"
        self.summary = self.folder / "summary.json"
        self.outputs = ("--metrics", self.metrics, "--summary", self.summary)

    def records(self, kind=None):
        records = [json.loads(line) for line in self.metrics.read_text().splitlines()]
        return [record for record in records if kind in (None, record["kind"])]

    def test_a_record_of_every_update_and_evaluation(self):
        self.trained(3, "--epochs", 2, "--lr", 0.1, *self.outputs)
        updates, evaluations = self.records("update"), self.records("eval")
        self.assertEqual(list(range(1, 2 * UPDATES + 1)), [record["update"] for record in updates])
        self.assertEqual([1] * UPDATES + [2] * UPDATES, [record["epoch"] for record in updates])
        self.assertEqual(2 * TRAIN, sum(record["samples"] for record in updates))
        self.assertEqual(0.1, updates[0]["lr"])
        times = [record["time_s"] for record in self.records() if "time_s" in record]
        self.assertEqual(sorted(times), times)
        for record in updates:
            self.assertEqual(3, len(record["busy"]))
            self.assertTrue(all(share is None or 0 <= share <= 1 for share in record["busy"]))
        self.assertEqual({"kind": "end", "status": "completed"}, self.records()[-1])

        epochs = json.loads(self.summary.read_text())["epochs"]
        self.assertEqual(2, len(evaluations))
        for epoch, record in zip(epochs, evaluations):
            for key in ("epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy"):
                self.assertEqual(epoch[key], record[key])
            own = [update for update in updates if update["epoch"] == epoch["epoch"]]
            mean = sum(update["loss"] * update["samples"] for update in own) / TRAIN
            self.assertAlmostEqual(epoch["train_loss"], mean)
        self.assertTrue(evaluations[0]["best"])

    def test_metrics_leave_the_bits_alone(self):
        def losses(*options):
            self.trained(3, "--epochs", 1, "--summary", self.summary, *options)
            epochs = json.loads(self.summary.read_text())["epochs"]
            return [[epoch["train_loss"], epoch["test_loss"]] for epoch in epochs]

        self.assertEqual(losses(), losses("--metrics", self.metrics))

    def test_csv(self):
        path = self.folder / "run.csv"
        self.trained(2, "--epochs", 1, "--metrics", path)
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(["update"] * UPDATES + ["eval"], [row["kind"] for row in rows])
        self.assertGreater(float(rows[0]["loss"]), 0)
        self.assertGreater(float(rows[-1]["test_loss"]), 0)
        self.assertEqual("", rows[0]["test_loss"])
        self.assertIn("busy_1", rows[0])
        self.assertNotIn(None, rows[0])

    def test_a_loss_that_is_not_finite_is_null_and_the_end_says_why(self):
        self.trained(2, "--lr", "1e30", "--lr-schedule", "constant", *self.outputs,
                     code=FAILED_RUN)
        self.assertIsNone(self.records("update")[-1]["loss"])
        end = self.records()[-1]
        self.assertEqual("failed", end["status"])
        self.assertIn("the loss is", end["reason"])
        summary = json.loads(self.summary.read_text())
        self.assertEqual(["failed", end["reason"]], [summary["status"], summary["reason"]])

    def test_the_files_of_a_killed_job_can_be_read(self):
        process = self.started(3, *ENDLESS, *self.outputs)
        os.kill(self.ranks_of(process)[0], signal.SIGKILL)
        self.finished(process, code=None)
        self.records()
        self.assertEqual("running", json.loads(self.summary.read_text())["status"])

    def test_a_full_disk_is_one_warning(self):
        if not pathlib.Path("/dev/full").exists():
            self.skipTest("no /dev/full")
        _, err = self.trained(2, "--epochs", 2, "--metrics", "/dev/full")
        warnings = [line for line in err.splitlines() if "warning: /dev/full" in line]
        self.assertEqual(1, len(warnings), err)
        self.assertIn("No space left on device", warnings[0])

    def test_an_epoch_that_is_cut_short_says_so(self):
        out, _ = self.trained(2, "--epochs", 3, "--max-updates", UPDATES + 2)
        self.assertIn(f"epoch 2 was cut short by --max-updates: 2 of its {UPDATES} updates", out)
        out, _ = self.trained(2, "--epochs", 3, "--max-updates", UPDATES)
        self.assertNotIn("cut short", out)

    def stopped_by(self, target, number):
        process = self.started(3, *ENDLESS, *self.outputs)
        ranks = self.ranks_of(process)
        os.kill(process.pid if target == "job" else ranks[target], number)
        _, err = self.finished(process, code=None)
        return err, json.loads(self.summary.read_text())

    def test_a_signal_is_the_reason_in_summary_and_metrics(self):
        for target in ("job", 0):
            for number in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(target=target, number=number):
                    err, summary = self.stopped_by(target, number)
                    self.assertEqual("stopped", summary["status"], err)
                    self.assertIn("stopped by signal ", summary["reason"])
                    self.assertEqual("stopped", self.records()[-1]["status"])
                    said = [line for line in err.splitlines() if line.startswith("dynpipe: rank")]
                    self.assertLessEqual(len(said), 1, err)

    def test_a_signal_to_another_rank_ends_the_job(self):
        err, summary = self.stopped_by(2, signal.SIGTERM)
        self.assertEqual("stopped", summary["status"], err)


class SameOptionsTest(TrainingTest):
    def refused(self, says, *parts):
        _, err = self.finished(self.started_parts(*parts), BAD_INPUT)
        complaints = [line for line in err.splitlines() if line.startswith("dynpipe: ")]
        self.assertEqual(1, len(complaints), err)
        for word in says:
            self.assertIn(word, complaints[0])

    def test_ranks_with_other_options_are_refused(self):
        self.refused(["--lr", "'0.1' on rank 0", "'0.2' on rank 2"], self.part(2, "--lr", "0.1"),
                     self.part(1, "--lr", "0.2", "--seed", "3"))
        self.refused(["--epochs", "'5' on rank 0", "'7' on rank 1"], self.part(1),
                     self.part(1, "--epochs", "7"))
        self.refused(["--help"], self.part(1), self.part(1, "--help"))

    def test_options_that_come_to_the_same_are_the_same(self):
        config = self.folder / "run.ini"
        config.write_text("lr = 0.10\n")
        self.finished(self.started_parts(self.part(1, "--epochs", 1, "--lr", "0.1"),
                                         self.part(1, "--epochs", 1, "--config", config)))


class TensorBoardTest(TrainingTest):
    SCRIPT = SOURCE / "scripts/metrics_to_tensorboard.py"

    def converted(self, *words, code=0, env=None):
        result = subprocess.run([sys.executable, self.SCRIPT, *words], capture_output=True,
                                text=True, timeout=DEADLINE_S, env=env)
        self.assertEqual(code, result.returncode, result.stdout + result.stderr)
        return result.stderr

    def test_scalars_are_those_of_the_metrics(self):
        if importlib.util.find_spec("tensorboard") is None:
            self.skipTest("no tensorboard package")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        metrics, events = self.folder / "run.jsonl", self.folder / "events"
        self.trained(2, "--epochs", 2, "--metrics", metrics)
        with metrics.open("a") as file:
            file.write('{"kind": "update", "update": 99, "lo')  # of a job that was killed
        self.converted(metrics, events)
        records = [json.loads(line) for line in metrics.read_text().splitlines()[:-1]]
        found = EventAccumulator(str(events))
        found.Reload()
        for tag, kind, key in (("train/loss", "update", "loss"), ("test/loss", "eval", "test_loss"),
                               ("train/lr", "update", "lr")):
            wanted = [(record["update"], record[key]) for record in records
                      if record["kind"] == kind]
            scalars = [(scalar.step, scalar.value) for scalar in found.Scalars(tag)]
            self.assertEqual([step for step, _ in wanted], [step for step, _ in scalars])
            for (_, a), (_, b) in zip(wanted, scalars):
                self.assertAlmostEqual(a, b, places=5)

    def test_what_is_missing_is_said(self):
        self.assertIn("No such file", self.converted(self.folder / "nowhere", self.folder / "out",
                                                     code=BAD_INPUT))
        hidden = self.folder / "hidden"  # a package that cannot be imported
        hidden.mkdir()
        (hidden / "tensorboard.py").write_text("raise ImportError('hidden')\n")
        metrics = self.folder / "run.jsonl"
        metrics.write_text("")
        err = self.converted(metrics, self.folder / "out", code=BAD_INPUT,
                             env=environment(PYTHONPATH=str(hidden)))
        self.assertIn("tensorboard", err)
        self.assertIn("pip install", err)


if __name__ == "__main__":
    unittest.main()
