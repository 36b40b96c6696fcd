"""train --trace: the file as h5py and h5dump see it, also of a killed run; dynpipe trace; the plot."""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment, output_of, skip, write_data  # noqa: E402

try:
    import h5py
except ImportError:
    skip("h5py is not installed")

try:
    import matplotlib
except ImportError:
    matplotlib = None

DYNPIPE = os.environ["DYNPIPE"]
TABLES = ["decisions", "evals", "plans", "stage_stats", "starts", "updates"]


def train(data, *options, ranks=2, **more):
    command = ["mpirun", "-n", ranks, "--oversubscribe", DYNPIPE, "train", "--model",
               SOURCE / "models" / "lenet5.json", "--data", data, "--batch", 16, "--algorithm",
               "flops", "--epochs", 2, *options]
    return output_of(command, **more)


def trace(*words):
    return output_of([DYNPIPE, "trace", *words])


class TraceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.data = cls.folder / "data"
        cls.data.mkdir()
        write_data(cls.data, train=320, test=33)
        cls.file = cls.folder / "run.h5"
        train(cls.data, "--trace", cls.file, "--trace-events", "--schedule", "1f1b", "--summary",
              cls.folder / "run.json")
        cls.plain = cls.folder / "plain.h5"
        train(cls.data, "--trace", cls.plain, "--measure-kappa", 5)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_h5py_finds_every_update_stage_and_evaluation(self):
        with h5py.File(self.file) as file:
            self.assertEqual(file.attrs["format"], "dynpipe trace")
            self.assertEqual(file["meta"].attrs["status"], "completed")
            self.assertEqual(file["meta"].attrs["batch"], 16)
            self.assertEqual(list(file["updates"]["update"]), list(range(1, 41)))
            self.assertEqual(file["updates"]["samples"].sum(), 640)
            self.assertEqual(len(file["stage_stats"]), 80)
            stats = file["stage_stats"][:]
            parts = [name for name in stats.dtype.names
                     if name.endswith("_s") and name not in ("time_s", "total_s")]
            for row in stats:
                self.assertLessEqual(sum(row[part] for part in parts), row["total_s"] + 1e-6)
            summary = json.loads((self.folder / "run.json").read_text())
            self.assertEqual([e["test_loss"] for e in summary["epochs"]],
                             list(file["evals"]["test_loss"]))
            self.assertEqual(json.loads(file["meta/config"][()]), summary["config"])
            self.assertEqual(json.loads(file["plans"][0]["plan"]), summary["plans"][0]["plan"])
            self.assertEqual(json.loads(file["meta/model"][()])["name"], "lenet5")
            self.assertEqual(len(file["decisions"]), 0)
            self.assertIn("predicted_gain", file["decisions"].dtype.names)

    def test_events_are_those_of_the_schedule(self):
        with h5py.File(self.file) as file:
            events = file["events"][:]
            kinds = [text.decode() for text in file["meta/event_kinds"][:]]
            self.assertEqual(file["stage_stats"]["events_dropped"].sum(), 0)
        for rank in (0, 1):
            of = events[events["rank"] == rank]
            for kind, count in (("forward", 160), ("backward", 160), ("update", 40)):
                chosen = of[of["kind"] == kinds.index(kind)]
                self.assertEqual(sorted(chosen["index"]), list(range(count)), (rank, kind))
            self.assertTrue((of["end_s"] >= of["start_s"]).all())
            self.assertTrue((of["start_s"][1:] >= of["end_s"][:-1] - 1e-9).all(),
                            "a rank does one thing at a time")
        ends = {(e["stage"], e["kind"], e["index"]): e["end_s"] for e in events}
        forward = kinds.index("forward")
        for event in events[(events["stage"] == 1) & (events["kind"] == forward)]:
            self.assertGreaterEqual(event["start_s"], ends[0, forward, event["index"]])

    def test_h5dump_reads_it(self):
        if shutil.which("h5dump") is None:
            self.skipTest("h5dump is not installed")
        text = output_of(["h5dump", "-d", "/updates", self.file])
        self.assertIn("learning_rate", text)

    def test_virtual_times_of_two_runs_are_the_same(self):
        cluster, profile = self.folder / "cluster.json", self.folder / "profile.json"
        cluster.write_text(json.dumps({
            "name": "two", "ranks": [{"name": "a"}, {"name": "b", "slowdown": 2}], "links": [
                {"name": "ab", "from": "a", "to": "b", "latency_s": 2e-5, "bytes_per_s": 1e9}]}))
        try:
            output_of(["mpirun", "-n", 1, DYNPIPE, "profile", "--model",
                       SOURCE / "models" / "lenet5.json", "--batch", 16, "--out", profile])
        except AssertionError as error:
            self.skipTest(f"no profile: {error}")
        tables = []
        for name in ("a.h5", "b.h5"):
            train(self.data, "--trace", self.folder / name, "--trace-events", "--emulate", cluster,
                  "--profile", profile)
            with h5py.File(self.folder / name) as file:
                self.assertEqual(file["meta"].attrs["clock"], "virtual")
                rows = sorted(file["events"][:].tolist())
                tables.append(rows)
        self.assertEqual(tables[0], tables[1])
        text = trace("whatif", self.folder / "a.h5")
        self.assertLess(abs(float(re.search(r"replayed .*?([-+][\d.]+) %", text)[1])), 2, text)

    def test_summary_names_every_stage_and_the_slowest(self):
        for file in (self.file, self.plain):
            text = trace("summary", file)
            self.assertRegex(text, r"slowest: stage [01], ")
            self.assertRegex(text, r"(?m)^stage 0 .*% busy$")
            self.assertIn("40 updates", text)
        self.assertIn("ranks that compute at once", trace("summary", self.file))

    def test_export(self):
        out, folder = self.folder / "events.json", self.folder / "csv"
        trace("export", self.file, "--perfetto", out, "--csv", folder)
        spans = [e for e in json.loads(out.read_text())["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(sum(e["name"].startswith("forward") for e in spans), 320)
        lines = (folder / "updates.csv").read_text().splitlines()
        self.assertEqual(len(lines), 41)
        self.assertTrue(lines[0].startswith("update,epoch,samples,time_s,loss"))
        self.assertIn(",forward,", (folder / "events.csv").read_text())

    def test_compare_and_what_if(self):
        text = trace("compare", self.file, self.file)
        self.assertIn("+0.0 %", text)
        text = trace("whatif", self.file, "--undisturbed", 1)
        self.assertRegex(text, r"measured +[\d.]+ ms an update\nreplayed")
        self.assertRegex(text, r"stage 1 undisturbed +[\d.]+ ms")
        plan = self.folder / "plan.json"
        with h5py.File(self.file) as file:
            plan.write_bytes(file["plans"][0]["plan"])
        text = trace("whatif", self.file, "--plan", plan)
        self.assertRegex(text, r"other plan .* [-+]0\.00 % \(1\.000 times")

    def test_kappa_is_taken_from_a_trace(self):
        with h5py.File(self.plain) as file:
            kappa = float(file["kappa"].attrs["kappa"])
            self.assertEqual(len(file["kappa/cosines"]), 8)
            self.assertEqual(set(file["kappa/samples"]["stage"]), {0, 1})
        text = output_of([DYNPIPE, "plan", "--model", SOURCE / "models" / "lenet5.json", "--ranks",
                          2, "--kappa-from", self.plain])
        self.assertIn(f"kappa {kappa:g}, measured", text)

    def test_refusals(self):
        foreign = self.folder / "foreign.h5"
        with h5py.File(foreign, "w") as file:
            file["x"] = 1
        (self.folder / "text.h5").write_text("no")
        for words, message in (
                (["summary", foreign], "is not a trace of dynpipe"),
                (["summary", self.folder / "text.h5"], "is not an HDF5 file"),
                (["summary", self.folder / "none.h5"], "does not exist"),
                (["summary"], "needs one file"),
                (["sumary", self.file], "did you mean 'summary'"),
                (["whatif", self.file, "--undisturbed", 7], "--undisturbed: is 7"),
                (["export", self.plain, "--perfetto", self.folder / "x"], "--trace-events")):
            done = subprocess.run([DYNPIPE, "trace", *map(str, words)], capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(message, done.stderr)

    def test_a_file_that_cannot_be_written_is_refused(self):
        with self.assertRaisesRegex(AssertionError, r"exit code 2(.|\n)*cannot be written"):
            train(self.data, "--trace", self.folder / "no" / "run.h5")
        with self.assertRaisesRegex(AssertionError, "--trace-events: means nothing without"):
            train(self.data, "--trace-events")

    def test_a_killed_run_leaves_a_trace(self):
        for kill in range(3):
            file = self.folder / "killed.h5"
            file.unlink(missing_ok=True)
            command = ["mpirun", "-n", "2", "--oversubscribe", DYNPIPE, "train", "--model",
                       SOURCE / "models" / "lenet5.json", "--data", self.data, "--batch", 16,
                       "--algorithm", "flops", "--epochs", 10000, "--trace", file, "--trace-events"]
            run = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=environment(),
                                   start_new_session=True)
            while not self.has_updates(file) and run.poll() is None:
                time.sleep(0.05)
            time.sleep(0.4 * kill)
            for pid in subprocess.run(["pgrep", "-f", str(file)], capture_output=True,
                                      text=True).stdout.split():
                os.kill(int(pid), signal.SIGKILL)
            run.wait()
            with h5py.File(file) as opened:
                updates = list(opened["updates"]["update"])
                self.assertEqual(updates, list(range(1, len(updates) + 1)))
                self.assertEqual(opened["meta"].attrs["status"], "running")
            self.assertIn("killed while it did", trace("summary", file))

    @staticmethod
    def has_updates(file):
        if not file.exists():
            return False
        with h5py.File(file) as opened:
            return len(opened["updates"]) > 0

    def test_a_resumed_run_goes_on_with_its_trace(self):
        file, folder = self.folder / "resumed.h5", self.folder / "checkpoints"
        words = ["--trace", file, "--trace-events", "--max-updates", 25]
        train(self.data, *words, "--checkpoint-dir", folder, "--checkpoint-every", 10)
        with h5py.File(file) as opened:
            losses = list(opened["updates"]["loss"])
        train(self.data, *words, "--resume", folder / "step-10")
        with h5py.File(file) as opened:
            self.assertEqual(list(opened["updates"]["update"]), list(range(1, 26)))
            self.assertEqual(list(opened["updates"]["loss"]), losses)
            self.assertEqual(sorted(opened["stage_stats"]["update"]),
                             sorted(2 * list(range(1, 26))))
            self.assertEqual(list(opened["starts"]["update"]), [0, 10])
            self.assertEqual(opened["meta"].attrs["status"], "completed")
            times = opened["updates"]["time_s"]
            self.assertTrue((times[1:] >= times[:-1]).all())

    def test_plot(self):
        if matplotlib is None:
            self.skipTest("matplotlib is not installed")
        script = SOURCE / "scripts" / "plot_trace.py"
        for file in (self.file, self.plain):
            out, page = self.folder / "run.png", self.folder / "run.html"
            output_of([sys.executable, script, file, "--out", out, "--html", page])
            png = out.read_bytes()
            self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
            text = page.read_text()
            self.assertIn(base64.b64encode(png).decode(), text)
            self.assertNotRegex(text, r"(src|href)=\"(?!data:)")


if __name__ == "__main__":
    unittest.main()
