#!/usr/bin/env python3
"""Completes golden_cnn.json: what PyTorch finds when it trains a small CNN with microbatches.

The model is the JSON that dynpipe reads. Group g of B samples takes the images (g B + i) mod 24, i < B,
in M contiguous microbatches of floor(B / M) samples, one more in the first B mod M. Microbatches run
one after another: batch norm sees each alone and folds its running statistics in their order. The loss
of a group is the sum over its samples / B, its gradient the sum over the microbatches.

A file that is there keeps its cases, byte by byte, and gets those that it lacks. A case names the PyTorch
that made it, unless that is the one of the file's first line. NAdam needs PyTorch 2: before, its factor
of the mean had mu_t twice in it.

Usage: make_golden.py [FILE]   (default: golden_cnn.json beside this script)
"""

import json
import pathlib
import re
import sys

import torch
from torch import nn

IMAGES, CLASSES, UPDATES = 24, 4, 20
SEED = 3

MODEL = {
    "name": "golden_cnn",
    "input": [1, 8, 8],
    "layers": [
        {"name": "conv1", "type": "conv2d", "out_channels": 6, "kernel": 3, "padding": 1, "bias": False},
        {"name": "bn1", "type": "batchnorm2d"},
        {"name": "relu1", "type": "relu"},
        {"name": "pool1", "type": "maxpool", "kernel": 3, "stride": 2, "padding": 1},
        {"name": "block", "type": "residual",
         "body": [
             {"name": "conv1", "type": "conv2d", "out_channels": 12, "kernel": 3, "padding": 1, "bias": False},
             {"name": "bn1", "type": "batchnorm2d"},
             {"name": "relu", "type": "relu"},
             {"name": "conv2", "type": "conv2d", "out_channels": 12, "kernel": 3, "padding": 1, "bias": False},
             {"name": "bn2", "type": "batchnorm2d"}],
         "shortcut": [
             {"name": "downsample", "type": "conv2d", "out_channels": 12, "kernel": 1}]},
        {"name": "relu2", "type": "relu"},
        {"name": "pool2", "type": "avgpool", "kernel": 2},
        {"name": "flatten", "type": "flatten"},
        {"name": "fc1", "type": "linear", "out_features": 16},
        {"name": "relu3", "type": "relu"},
        {"name": "fc2", "type": "linear", "out_features": CLASSES},
    ],
    "loss": "softmax_cross_entropy",
}


def optimizer(kind, learning_rate, momentum=0.0, nesterov=False, weight_decay=0.0, **others):
    return {"kind": kind, "learning_rate": learning_rate, "momentum": momentum, "nesterov": nesterov,
            "weight_decay": weight_decay, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, **others}


SGD_NESTEROV = optimizer("sgd", 0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)
CASES = [
    {"name": "sgd_nesterov", "optimizer": SGD_NESTEROV, "batch": 12, "microbatches": 1},
    {"name": "sgd_nesterov_3_microbatches", "optimizer": SGD_NESTEROV, "batch": 12, "microbatches": 3},
    {"name": "sgd_4_uneven_microbatches", "optimizer": optimizer("sgd", 0.05, momentum=0.9), "batch": 10,
     "microbatches": 4},
    {"name": "adam", "optimizer": optimizer("adam", 0.002), "batch": 12, "microbatches": 2},
    {"name": "adamw", "optimizer": optimizer("adamw", 0.002, weight_decay=1e-2), "batch": 12,
     "microbatches": 2},
    {"name": "nadam", "optimizer": optimizer("nadam", 0.002, weight_decay=1e-2, momentum_decay=4e-3),
     "batch": 12, "microbatches": 2},
    {"name": "label_smoothing", "optimizer": SGD_NESTEROV, "label_smoothing": 0.1, "batch": 12,
     "microbatches": 3},
    {"name": "no_decay_of_norms", "batch": 12, "microbatches": 2,
     "optimizer": optimizer("sgd", 0.05, momentum=0.9, weight_decay=0.1, no_decay=["norms"])},
    {"name": "no_decay_of_norms_and_biases", "batch": 12, "microbatches": 2,
     "optimizer": optimizer("adamw", 0.002, weight_decay=1.0, no_decay=["norms", "biases"])},
]


class Residual(nn.Module):
    """y = body(x) + shortcut(x). The inner layers are children of the block, as in torchvision."""

    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = [name for name, _ in body], [name for name, _ in shortcut]
        for name, module in body + shortcut:
            self.add_module(name, module)

    def forward(self, x):
        y, other = x, x
        for name in self.body:
            y = getattr(self, name)(y)
        for name in self.shortcut:
            other = getattr(self, name)(other)
        return y + other


def make_layer(layer, shape):
    """The module of a layer of the model file, and the shape that it makes of `shape`."""
    kind = layer["type"]
    if kind == "residual":
        body, out = make_chain(layer["body"], shape)
        shortcut, _ = make_chain(layer.get("shortcut", []), shape)
        return Residual(body, shortcut), out
    padding = layer.get("padding", 0)
    module = {
        "conv2d": lambda: nn.Conv2d(shape[0], layer["out_channels"], layer["kernel"], layer.get("stride", 1),
                                    padding, bias=layer.get("bias", True)),
        "batchnorm2d": lambda: nn.BatchNorm2d(shape[0]),
        "relu": nn.ReLU,
        "maxpool": lambda: nn.MaxPool2d(layer["kernel"], layer.get("stride"), padding),
        "avgpool": lambda: nn.AvgPool2d(layer["kernel"], layer.get("stride"), padding),
        "flatten": nn.Flatten,
        "linear": lambda: nn.Linear(shape[0], layer["out_features"]),
    }[kind]()
    with torch.no_grad():
        return module, list(module(torch.zeros(2, *shape)).shape[1:])


def make_chain(layers, shape):
    chain = []
    for layer in layers:
        module, shape = make_layer(layer, shape)
        chain.append((layer["name"], module))
    return chain, shape


def make_network(dtype, initial=None):
    chain, _ = make_chain(MODEL["layers"], MODEL["input"])
    network = nn.Sequential()
    for name, module in chain:
        network.add_module(name, module)
    network.to(dtype)
    if initial is not None:
        network.load_state_dict(initial, strict=False)
    return network


def tensors_of(network):
    """Parameters and running statistics by full name, in copies."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def random_state(generator):
    network = make_network(torch.float64)
    for name, parameter in network.named_parameters():
        with torch.no_grad():
            parameter.normal_(generator=generator)
            if parameter.dim() > 1:  # He et al. 2015
                parameter.mul_((2.0 / parameter[0].numel()) ** 0.5)
            else:  # away from the usual zeros and ones, so that a mix-up shows
                parameter.mul_(0.1).add_(1.0 if name.endswith("weight") else 0.0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    return tensors_of(network)


def parameter_groups(options, network):
    """All parameters with the weight decay that is theirs."""
    groups = []
    for module in network.modules():
        for name, parameter in module.named_parameters(recurse=False):
            kind = "norms" if isinstance(module, nn.BatchNorm2d) else "biases" if name == "bias" else "weights"
            decay = 0.0 if kind in options.get("no_decay", []) else options["weight_decay"]
            groups.append({"params": [parameter], "weight_decay": decay})
    return groups


def make_optimizer(options, network):
    parameters = parameter_groups(options, network)
    if options["kind"] == "sgd":
        return torch.optim.SGD(parameters, lr=options["learning_rate"], momentum=options["momentum"],
                               nesterov=options["nesterov"])
    if options["kind"] == "nadam" and int(torch.__version__.split(".")[0]) < 2:
        sys.exit("NAdam needs PyTorch 2 or later")
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "nadam": torch.optim.NAdam}[options["kind"]]
    more = {"momentum_decay": options["momentum_decay"]} if options["kind"] == "nadam" else {}
    return kind(parameters, lr=options["learning_rate"], betas=(options["beta1"], options["beta2"]),
                eps=options["epsilon"], **more)


def microbatches(group, batch, count):
    """The sample numbers of each microbatch of a group."""
    samples = [(group * batch + i) % IMAGES for i in range(batch)]
    parts, first = [], 0
    for j in range(count):
        size = batch // count + (j < batch % count)
        parts.append(samples[first:first + size])
        first += size
    return parts


def train(case, initial, images, labels, dtype):
    """Losses, gradients of the first group, and the state after the last update."""
    network = make_network(dtype, {name: value.to(dtype) for name, value in initial.items()})
    network.train()
    images = images.to(dtype)
    torch.set_default_dtype(dtype)  # in which NAdam keeps its product of momenta
    steps = make_optimizer(case["optimizer"], network)
    losses, first_gradients = [], None
    for group in range(UPDATES):
        steps.zero_grad()
        total = 0.0
        for samples in microbatches(group, case["batch"], case["microbatches"]):
            loss = nn.functional.cross_entropy(network(images[samples]), labels[samples], reduction="sum",
                                               label_smoothing=case.get("label_smoothing", 0.0))
            (loss / case["batch"]).backward()
            total += loss.item()
        losses.append(total / case["batch"])
        if first_gradients is None:
            first_gradients = {name: p.grad.detach().clone() for name, p in network.named_parameters()}
        steps.step()
    return losses, first_gradients, tensors_of(network)


def numbers(values):
    return "[" + ", ".join("%.17g" % value for value in values) + "]"


def tensor_lines(tensors, indent):
    lines = [f"{indent}{json.dumps(name)}: {numbers(value.flatten().tolist())}" for name, value in tensors.items()]
    return "{\n" + ",\n".join(lines) + "}"


def case_text(case, initial, images, labels):
    losses, gradients, final = train(case, initial, images, labels, torch.float64)
    losses_float32, _, _ = train(case, initial, images, labels, torch.float32)
    worst = max(abs(a - b) / abs(a) for a, b in zip(losses, losses_float32))
    print(f"{case['name']}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, float32 within {worst:.1e}")
    head = json.dumps({**case, "torch": torch.__version__})[:-1]
    return (f"  {head},\n   \"losses\": {numbers(losses)},\n   \"losses_float32\": {numbers(losses_float32)},\n"
            f"   \"first_gradients\": {tensor_lines(gradients, '    ')},\n"
            f"   \"final\": {tensor_lines(final, '    ')}}}")


CASES_BEGIN, CASES_BETWEEN, CASES_END = ' "cases": [\n', ",\n", "]}\n"


def new_inputs():
    """Images, labels and initial tensors, and the beginning of the file that says them."""
    # This seed leaves no layer without live units, so that every tensor is at work in every case.
    generator = torch.Generator().manual_seed(SEED)
    images = torch.randn(IMAGES, *MODEL["input"], dtype=torch.float64, generator=generator)
    labels = torch.randperm(IMAGES, generator=generator) % CLASSES
    initial = random_state(generator)
    text = (f"{{\"torch\": {json.dumps(torch.__version__)},\n"
            f" \"model\": {json.dumps(MODEL)},\n"
            f" \"images\": {numbers(images.flatten().tolist())},\n"
            f" \"labels\": {labels.tolist()},\n"
            f" \"initial\": {tensor_lines(initial, '  ')},\n")
    return images, labels, initial, text


def inputs_of(golden_text):
    """The same of a file that is there."""
    golden = json.loads(golden_text)
    images = torch.tensor(golden["images"], dtype=torch.float64).view(IMAGES, *MODEL["input"])
    shapes = tensors_of(make_network(torch.float64))
    initial = {name: torch.tensor(values, dtype=torch.float64).view(shapes[name].shape)
               for name, values in golden["initial"].items()}
    return images, torch.tensor(golden["labels"]), initial, golden_text[:golden_text.index(CASES_BEGIN)]


def cases_of(golden_text):
    """The text of each case of a file that is there, by name."""
    begin = golden_text.index(CASES_BEGIN) + len(CASES_BEGIN)
    texts = re.split(CASES_BETWEEN + r'(?=  {"name")', golden_text[begin:golden_text.rindex(CASES_END)])
    return {json.loads(text)["name"]: text for text in texts}


def main():
    torch.set_num_threads(1)
    here = pathlib.Path(__file__).resolve().parent
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "golden_cnn.json"
    old = target.read_text(encoding="ascii") if target.exists() else None
    images, labels, initial, inputs_text = inputs_of(old) if old else new_inputs()
    kept = cases_of(old) if old else {}
    texts = [kept.get(case["name"]) or case_text(case, initial, images, labels) for case in CASES]
    text = inputs_text + CASES_BEGIN + CASES_BETWEEN.join(texts) + CASES_END
    json.loads(text)
    target.write_text(text, encoding="ascii")
    print(f"{target}: {len(text)} bytes, {sum(v.numel() for v in initial.values())} values of state")


if __name__ == "__main__":
    main()
