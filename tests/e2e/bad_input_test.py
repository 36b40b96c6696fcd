#!/usr/bin/env python3
"""Whatever is wrong with its input, `dynpipe train` says so once and ends, on every rank.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import copy
import gzip
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import unittest

DEADLINE_S = 60
BAD_INPUT = 2
FAILED_RUN = 1

SIDE = 6  # pixels
CLASSES = 4
TRAIN, TEST = 24, 8  # images

MODEL = {
    "name": "tiny",
    "input": [1, SIDE, SIDE],
    "layers": [
        {"name": "conv", "type": "conv2d", "out_channels": 2, "kernel": 3, "padding": 1},
        {"name": "relu", "type": "relu"},
        {"name": "flatten", "type": "flatten"},
        {"name": "fc", "type": "linear", "out_features": CLASSES},
    ],
    "loss": "softmax_cross_entropy",
}
PLAN = {
    "model": "tiny",
    "schedule": "async",
    "weights": "2bw",
    "microbatches": 2,
    "stages": [
        {"first": "conv", "last": "relu", "ranks": [0], "warmup": 1},
        {"first": "flatten", "last": "fc", "ranks": [1], "warmup": 0},
    ],
}


def idx_images(count):
    pixels = bytes(7 * i % 256 for i in range(count * SIDE * SIDE))
    return struct.pack(">4I", 0x803, count, SIDE, SIDE) + pixels


def idx_labels(count, classes=CLASSES):
    return struct.pack(">2I", 0x801, count) + bytes(i % classes for i in range(count))


class Refusals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = self.written("model.json", MODEL)
        self.data = self.folder / "data"
        self.data.mkdir()
        self.write_data()

    # What the tests write.

    def written(self, name, contents):
        path = self.folder / name
        text = contents if isinstance(contents, str) else json.dumps(contents)
        path.write_text(text)
        return path

    def write_data(self, **instead):
        """The four files of a sound data set, but for those given instead (bytes; None: not there)."""
        for name, contents in {
            "train-images-idx3-ubyte": idx_images(TRAIN),
            "train-labels-idx1-ubyte": idx_labels(TRAIN),
            "t10k-images-idx3-ubyte": idx_images(TEST),
            "t10k-labels-idx1-ubyte": idx_labels(TEST),
        }.items():
            contents = instead.get(name.rsplit("-", 2)[0].replace("-", "_"), contents)
            (self.data / name).unlink(missing_ok=True)
            if contents is not None:
                (self.data / name).write_bytes(contents)

    # Running it.

    def dynpipe(self, *options, ranks=2):
        """Runs `dynpipe train` on sound input, but for what `options` say."""
        command = [os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", str(ranks),
                   os.environ["DYNPIPE"], "train", "--data", str(self.data), "--batch", "8",
                   "--epochs", "1", "--deadline", "20"]
        if "--model" not in options:
            command += ["--model", str(self.model)]
        if "--plan" not in options:
            command += ["--algorithm", "flops"]  # nothing is measured
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        process = subprocess.Popen(command + [str(option) for option in options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment, start_new_session=True)
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            self.fail(f"still running after {DEADLINE_S} s\n{out}\n{err}")
        return process.returncode, out, err

    def refused(self, *options, says, code=BAD_INPUT, ranks=2):
        """Runs it and expects one complaint that has all of `says` in it."""
        returned, out, err = self.dynpipe(*options, ranks=ranks)
        complaints = [line for line in err.splitlines() if line.startswith("dynpipe: ")]
        everything = f"\nexit code {returned}\n--- stdout\n{out}\n--- stderr\n{err}"
        self.assertEqual(1, len(complaints), everything)
        self.assertNotIn("dynpipe: ", out, everything)
        for part in says:
            self.assertIn(str(part), complaints[0], everything)
        self.assertEqual(code, returned, everything)

    def refused_model(self, model, *says):
        self.written("model.json", model)
        self.refused(says=[self.model, *says])

    def refused_plan(self, change, *says, ranks=2):
        plan = copy.deepcopy(PLAN)
        change(plan, *plan["stages"])
        path = self.written("plan.json", plan)
        self.refused("--plan", path, says=[path, *says], ranks=ranks)


class BadModelTest(Refusals):
    def test_sound_input_is_trained_on(self):
        plan = self.written("plan.json", PLAN)
        for options in ([], ["--plan", plan]):
            returned, out, err = self.dynpipe(*options)
            self.assertEqual(0, returned, out + err)

    def test_model(self):
        def changed(layer, **fields):
            model = copy.deepcopy(MODEL)
            model["layers"][layer].update(fields)
            return model

        def without(field, layer=None):
            model = copy.deepcopy(MODEL)
            del (model if layer is None else model["layers"][layer])[field]
            return model

        for name, model, *says in [
            ("unknown layer", changed(1, type="rehlu"), "layers[1] 'relu'", "type", "rehlu"),
            ("kernel beyond its image", changed(0, kernel=99), "layers[0] 'conv'", "kernel"),
            ("no flatten", changed(2, type="relu"), "layers[3] 'fc'", "[2,6,6]"),
            ("duplicate name", changed(1, name="conv"), "layers[1]", "name", "'conv'"),
            ("missing field", without("out_channels", 0), "layers[0] 'conv'", "out_channels"),
            ("misspelt field", changed(0, padd=1), "layers[0] 'conv'", "padd"),
            ("wrong type", changed(0, kernel="3"), "layers[0] 'conv'", "kernel"),
            ("no layers", without("layers"), "layers"),
            ("no input", without("input"), "input"),
            ("other images", {**MODEL, "input": [1, SIDE, SIDE + 1]}, "input", "[1,6,6]"),
            ("not JSON", '{"name": "tiny",\n "input": [1,', "line 2"),
            ("not an object", "[]"),
            ("empty", ""),
        ]:
            with self.subTest(name):
                self.refused_model(model, *says)

    def test_batch_norm_of_one_value(self):
        model = copy.deepcopy(MODEL)
        model["layers"][1:2] = [{"name": "pool", "type": "global_avgpool"},
                                {"name": "bn", "type": "batchnorm2d"}]
        self.written("model.json", model)
        self.refused("--microbatches", 8, says=[self.model, "'bn'", "at least 2 samples"])

    def test_loss_that_is_not_finite(self):
        self.refused("--lr", "1e30", "--lr-schedule", "constant", "--max-updates", 6,
                     says=["update ", "stage 1"], code=FAILED_RUN)


class BadPlanTest(Refusals):
    def test_plan(self):
        def gap(plan, first, second):
            first["last"] = "conv"

        def overlap(plan, first, second):
            second["first"] = "relu"

        def last_layer_left_out(plan, first, second):
            second["last"] = "flatten"

        def empty_stage(plan, first, second):
            first["first"], first["last"] = "relu", "conv"

        def rank_twice(plan, first, second):
            second["ranks"] = [0]

        def rank_out_of_range(plan, first, second):
            second["ranks"] = [7]

        def no_ranks(plan, first, second):
            second["ranks"] = []

        def zero_shares(plan, first, second):
            first["ranks"], first["shares"], second["ranks"] = [0, 1], [0, 0], [2]

        def owner_out_of_range(plan, first, second):
            first["owners"] = [0, 1]

        def owners_too_few(plan, first, second):
            first["owners"] = [0]

        def small_warmup(plan, first, second):
            first["warmup"] = 0

        def no_microbatches(plan, first, second):
            plan["microbatches"] = 0

        def no_such_layer(plan, first, second):
            first["last"] = "gelu"

        def no_such_schedule(plan, first, second):
            plan["schedule"] = "2f2b"

        def missing_field(plan, first, second):
            del second["first"]

        def misspelt_field(plan, first, second):
            second["warmupp"] = 0

        def other_model(plan, first, second):
            plan["model"] = "vgg8"

        for change, ranks, *says in [
            (gap, 2, "stages[1]: first", "gap"),
            (overlap, 2, "stages[1]: first", "overlap"),
            (last_layer_left_out, 2, "stages[1]: last", "'fc'"),
            (empty_stage, 2, "stages[0]: last", "empty"),
            (rank_twice, 2, "stages[1]: ranks", "rank 0", "twice"),
            (rank_out_of_range, 2, "stages[1]: ranks", "rank 7"),
            (no_ranks, 2, "stages[1]: ranks", "empty"),
            (zero_shares, 3, "stages[0]: shares", "zero"),
            (owner_out_of_range, 2, "stages[0]: owners", "replica 1"),
            (owners_too_few, 2, "stages[0]: owners"),
            (small_warmup, 2, "stages[0]: warmup", "at least 1"),
            (no_microbatches, 2, "microbatches"),
            (no_such_layer, 2, "stages[0]: last", "'gelu'"),
            (no_such_schedule, 2, "schedule", "'2f2b'"),
            (missing_field, 2, "stages[1]: first", "missing"),
            (misspelt_field, 2, "stages[1]", "warmupp"),
            (other_model, 2, "model", "vgg8"),
        ]:
            with self.subTest(change.__name__):
                self.refused_plan(change, *says, ranks=ranks)

    def test_plan_that_is_no_plan(self):
        for text in ['{"schedule": ', "[]", "3"]:
            with self.subTest(text):
                path = self.written("plan.json", text)
                self.refused("--plan", path, says=[path])

    def test_number_of_ranks(self):
        def as_it_is(plan, first, second):
            pass

        self.refused_plan(as_it_is, "stages[1]: ranks", "1 rank,", ranks=1)
        self.refused_plan(as_it_is, "stages", "3 ranks", ranks=3)
        self.refused("--stages", 3, says=["--stages", "3"])
        self.refused("--stages", 5, says=["5 stages", "4 layers"], ranks=5)
        self.refused("--recompute", "2", says=["--recompute", "no stage 2", "0 to 1"])
        self.refused("--recompute", "some", says=["--recompute", "'some'", "0,2"])
        self.refused("--replicas", "1,2", says=["--replicas", "3"])


class BadFilesTest(Refusals):
    def test_data(self):
        train_images, train_labels = idx_images(TRAIN), idx_labels(TRAIN)
        compressed = gzip.compress(train_images)
        images, labels = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
        for name, files, *says in [
            ("truncated images", {"train_images": train_images[:-5]}, images, "truncated"),
            ("truncated header", {"train_images": train_images[:9]}, images, "header"),
            ("truncated gzip", {"train_images": compressed[:-9]}, images, "compressed data"),
            ("trailing bytes", {"train_images": train_images + b"!"}, images, "pixels"),
            ("truncated labels", {"train_labels": train_labels[:-1]}, labels, "number of labels"),
            ("swapped", {"train_images": train_labels, "train_labels": train_images}, images,
             "swapped"),
            ("not IDX", {"train_images": b"what is this?" * 9}, images, "magic number"),
            ("counts differ", {"train_labels": idx_labels(TRAIN - 1)}, labels, "23", "24"),
            ("no images", {"t10k_images": struct.pack(">4I", 0x803, 0, SIDE, SIDE)},
             "t10k-images-idx3-ubyte", "number of images"),
            ("file missing", {"t10k_labels": None}, self.data, "t10k-labels-idx1-ubyte"),
            ("label out of range", {"train_labels": idx_labels(TRAIN, CLASSES + 1)}, self.data,
             "labels[4]", "4"),
            ("less than a batch", {"train_images": idx_images(7), "train_labels": idx_labels(7)},
             self.data, "7", "batch of 8"),
        ]:
            with self.subTest(name):
                self.write_data(**files)
                self.refused(says=says)

    def test_missing_files(self):
        nowhere = self.folder / "nowhere"
        for option in ("--model", "--plan", "--config"):
            self.refused(option, nowhere, says=[nowhere, "No such file or directory"])

    def test_missing_data_folder(self):
        self.data = self.folder / "nowhere"
        self.refused(says=[self.data, "train-images-idx3-ubyte"])

    def test_outputs_that_cannot_be_written(self):
        place = self.folder / "nowhere" / "out.json"
        for option in ("--summary", "--write-plan", "--metrics"):
            self.refused(option, place, says=[place, "No such file or directory"])
            self.refused(option, self.folder, says=[self.folder, "Is a directory"])
        summary = self.folder / "summary.json"
        self.refused("--summary", summary, "--metrics", place, says=[place])
        self.assertFalse(summary.exists())  # it would say that the run goes on


class BadOptionsTest(Refusals):
    def test_options(self):
        for options, *says in [
            (["--epohcs", 3], "--epohcs"),
            (["stray"], "'stray'"),
            (["--lr", "0.1", "one", "two"], "'one'"),
            (["--lr"], "--lr"),
            (["--lr", "fast"], "lr", "fast"),
            (["--lr", "nan"], "lr", "nan"),
            (["--lr", "-1"], "lr", "-1"),
            (["--batch", "1"], "batch"),  # given twice
            (["--microbatches", 0], "--microbatches"),
            (["--schedule", "2f2b"], "--schedule", "2f2b"),
            (["--weights", "3bw"], "--weights", "3bw"),
            (["--optimizer", "sgdd"], "sgdd"),
            (["--max-updates", "0"], "--max-updates"),
            (["--epochs-", 1], "--epochs-"),
            (["--replicas", "2147483647,2147483647,4"], "--replicas"),
            (["--replicas", "2,"], "--replicas", "2,"),
            (["--seed", "-1"], "--seed", "-1"),
            (["--optimizer", "adam", "--nesterov"], "--nesterov", "adam"),
            (["--beta1", "0.5"], "--beta1", "sgd"),
            (["--optimizer", "adamw", "--momentum-decay", "0.004"], "--momentum-decay", "adamw"),
            (["--optimizer", "nadam", "--momentum", "0.9"], "--momentum", "nadam"),
            (["--no-decay", "norms"], "--no-decay", "--weight-decay"),
            (["--weight-decay", "1", "--no-decay", "norms,weights"], "--no-decay", "weights"),
            (["--weight-decay", "1", "--no-decay", "norms,"], "--no-decay", "''"),
            (["--label-smoothing", "1.5"], "--label-smoothing", "1.5"),
            (["--label-smoothing", "nan"], "--label-smoothing", "nan"),
            (["--microbatches", "1000000"], "--microbatches"),
            (["--config", self.folder], self.folder, "Is a directory"),
            (["--plan", self.folder], self.folder, "Is a directory"),
            (["--backend", "tpu"], "--backend", "tpu"),
            (["--dtype", "float16"], "--dtype", "float16"),
        ]:
            with self.subTest(options[0]):
                self.refused(*options, says=says)

    def test_config_file(self):
        path = self.written("run.ini", "epohcs = 3\n")
        self.refused("--config", path, says=[path, "epohcs"])
        path = self.written("run.ini", "config = other.ini\n")
        self.refused("--config", path, says=[path, "config"])


if __name__ == "__main__":
    unittest.main()
