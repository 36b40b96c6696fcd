"""One PyTorch process that trains a model file on demand: reads a number of updates per line and
answers with the seconds that they took. Counterpart of step_server.cpp."""

import json
import sys
import time

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x):
        return self.body(x) + (self.shortcut(x) if self.shortcut is not None else x)


def window(layer):
    return {key: layer[name] for key, name in (("stride", "stride"), ("padding", "padding")) if name in layer}


def build(layers, shape):
    """The layers as torch modules, and the shape of one sample behind them."""
    modules = []
    for layer in layers:
        kind = layer["type"]
        if kind == "conv2d":
            module = nn.Conv2d(shape[0], layer["out_channels"], layer["kernel"], bias=layer.get("bias", True), **window(layer))
        elif kind == "batchnorm2d":
            module = nn.BatchNorm2d(shape[0])
        elif kind == "relu":
            module = nn.ReLU(inplace=True)
        elif kind == "maxpool":
            module = nn.MaxPool2d(layer["kernel"], **window(layer))
        elif kind == "avgpool":
            module = nn.AvgPool2d(layer["kernel"], **window(layer))
        elif kind == "global_avgpool":
            module = nn.AdaptiveAvgPool2d(1)
        elif kind == "flatten":
            module = nn.Flatten()
        elif kind == "dropout":
            module = nn.Dropout(layer.get("p", 0.5))
        elif kind == "linear":
            module = nn.Linear(shape[0], layer["out_features"], bias=layer.get("bias", True))
        elif kind == "residual":
            body, _ = build(layer["body"], shape)
            shortcut = build(layer["shortcut"], shape)[0] if layer.get("shortcut") else None
            module = Residual(body, shortcut)
        else:
            raise SystemExit(f"torch_step.py: no counterpart for layer type {kind}")
        with torch.no_grad():
            shape = tuple(module.eval()(torch.zeros(1, *shape)).shape[1:])
        modules.append(module.train())
    return nn.Sequential(*modules), shape


def main():
    file, batch, memory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    description = json.load(open(file))
    model, (classes,) = build(description["layers"], tuple(description["input"]))
    x = torch.randn(batch, *description["input"])
    if memory == "channels_last":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    labels = torch.randint(classes, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            optimizer.zero_grad()
            loss = loss_of(model(x), labels)
            loss.backward()
            optimizer.step()
            loss.item()
        print(f"{time.perf_counter() - began:.6f}", flush=True)


if __name__ == "__main__":
    main()
