#!/usr/bin/env python3
"""Weights go from PyTorch to dynpipe and back: same tensors, same logits.

usage: pytorch_test.py [--full]    with VGG-16 for ImageNet too (4 GiB of memory)

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`. Skipped where Python has no
torch or h5py.
"""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, output_of, skip

try:
    import h5py
    import numpy
    import torch
except ImportError as missing:
    skip(missing)

import safetensors_file
from torch_models import Resnet50, Vgg16

MODELS = {
    "vgg16": lambda: Vgg16(1, 512, 10),
    "resnet50": lambda: Resnet50(10),
    "resnet50-imagenet": lambda: Resnet50(1000, imagenet=True),
    "vgg16-imagenet": lambda: Vgg16(7, 4096, 1000),
}
FULL = "--full" in sys.argv
IMAGES = 4


def random_network(model):
    """With statistics of batch norm that are not those of a fresh one."""
    torch.manual_seed(1)
    network = MODELS[model]()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.normal_(0, 0.1)
            module.num_batches_tracked.fill_(7)
    return network.eval()


def logits_of(network, images, dtype):
    with torch.no_grad():
        return network.to(dtype)(torch.from_numpy(images).to(dtype)).numpy()


def arrays_of(network):
    return {name: tensor.numpy() for name, tensor in network.state_dict().items()}


class PytorchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def dynpipe(self, *words):
        return output_of([os.environ["DYNPIPE"], *words], deadline_s=300)

    def images(self, side):
        """[N,3,side,side], also as a data set whose images go into the network as they are."""
        images = numpy.random.default_rng(1).standard_normal((IMAGES, 3, side, side), "float32")
        self.data = self.folder / f"images-{side}.h5"
        with h5py.File(self.data, "w") as file:
            for split in ("train", "test"):
                file[f"{split}/images"] = images
                file[f"{split}/labels"] = numpy.arange(IMAGES) % 10
            file["train/images"].attrs["mean"] = [0.0] * 3
            file["train/images"].attrs["deviation"] = [1.0] * 3
        return images

    def evaluated(self, model, weights, *options):
        predictions = self.folder / "predictions.h5"
        self.dynpipe("eval", "--model", SOURCE / f"models/{model}.json", "--data", self.data,
                     "--weights", weights, "--predictions", predictions, "--microbatch", 2, *options)
        with h5py.File(predictions) as file:
            return file["logits"][()]

    def imported(self, model, arrays, name="imported.h5"):
        file, weights = self.folder / "in.safetensors", self.folder / name
        safetensors_file.write(file, arrays, {"format": "pt"})
        self.dynpipe("checkpoint", "import", file, "--model", SOURCE / f"models/{model}.json",
                     "--out", weights)
        return weights

    def exported(self, weights):
        file = self.folder / "out.safetensors"
        self.dynpipe("checkpoint", "export", weights, "--safetensors", file)
        return safetensors_file.read(file)

    def expect_round_trip(self, model, side):
        images = self.images(side)
        network = random_network(model)
        arrays = arrays_of(network)
        narrow = logits_of(network, images, torch.float32)
        exact = logits_of(network, images, torch.float64)
        weights = self.imported(model, arrays)
        found = self.evaluated(model, weights)
        # float32 sums in another order are as far from the exact result as PyTorch's are, or, the
        # errors being random, some times as far.
        envelope = max(abs(narrow - exact).max(), numpy.spacing(abs(exact).max(), dtype="float32"))
        self.assertLess(abs(found - exact).max(), 4 * envelope)
        self.assertGreater(abs(exact).max(), 1000 * envelope)

        again, metadata = self.exported(weights)
        self.assertEqual("pt", metadata["format"])
        self.assertEqual(model, metadata["model"])
        self.assertEqual(sorted(arrays), sorted(again))
        for name, array in arrays.items():
            self.assertEqual(array.dtype, again[name].dtype, name)
            self.assertEqual(array.shape, again[name].shape, name)
            if not name.endswith("num_batches_tracked"):
                self.assertTrue((array == again[name]).all(), name)

    def test_vgg16(self):
        self.expect_round_trip("vgg16", 32)

    def test_resnet50(self):
        self.expect_round_trip("resnet50", 32)

    def test_resnet50_for_imagenet(self):
        self.expect_round_trip("resnet50-imagenet", 224)

    @unittest.skipUnless(FULL, "--full not given")
    def test_vgg16_for_imagenet(self):
        self.expect_round_trip("vgg16-imagenet", 224)

    def test_logits_in_float64(self):
        images = self.images(32)
        network = random_network("resnet50").double()
        weights = self.imported("resnet50", arrays_of(network))
        found = self.evaluated("resnet50", weights, "--dtype", "float64")
        self.assertEqual("float64", found.dtype)
        exact = logits_of(network, images, torch.float64)
        self.assertLess(abs(found - exact).max(), 1e-10 * abs(exact).max())

    def test_trained_weights_in_pytorch(self):
        images = self.images(32)
        weights = self.folder / "trained.h5"
        output_of([os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", 2,
                   os.environ["DYNPIPE"], "train", "--model", SOURCE / "models/resnet50.json",
                   "--data", self.data, "--batch", 4, "--microbatches", 2, "--epochs", 2,
                   "--lr", 0.01, "--algorithm", "flops", "--save-weights", weights],
                  deadline_s=300)
        arrays, _ = self.exported(weights)
        network = MODELS["resnet50"]()
        network.load_state_dict({name: torch.from_numpy(array.copy())
                                 for name, array in arrays.items()}, strict=True)
        network.eval()
        narrow = logits_of(network, images, torch.float32)
        exact = logits_of(network, images, torch.float64)
        found = self.evaluated("resnet50", weights)
        self.assertLess(abs(found - exact).max(), 4 * abs(narrow - exact).max())

    def test_half_precision_and_wrappers(self):
        arrays = {"module." + name: array.astype("float16") if array.dtype == "float32" else array
                  for name, array in arrays_of(random_network("vgg16")).items()}
        again, _ = self.exported(self.imported("vgg16", arrays))
        for name, array in again.items():
            self.assertTrue((arrays["module." + name] == array).all(), name)


if __name__ == "__main__":
    unittest.main(argv=[word for word in sys.argv if word != "--full"])
