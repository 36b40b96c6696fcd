"""torch.distributed.pipelining on two gloo ranks, one a core, that trains a model file on demand:
reads a number of updates per line and answers with the seconds that they took.

usage: torch_pipeline.py MODEL BATCH MICROBATCHES LAYERS_OF_THE_FIRST_STAGE"""

import datetime
import json
import os
import socket
import sys
import time
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from torch_step import build


def work(rank, arguments, stdin, port):
    file, batch, microbatches, first = arguments[0], *map(int, arguments[1:4])
    warnings.simplefilter("ignore")
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    torch.manual_seed(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=datetime.timedelta(seconds=60))
    description = json.load(open(file))
    model, (classes,) = build(description["layers"], tuple(description["input"]))
    own = model[:first] if rank == 0 else model[first:]
    x = torch.randn(batch, *description["input"])
    labels = torch.randint(classes, (batch,))
    stage = PipelineStage(own, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, microbatches, loss_fn=nn.CrossEntropyLoss())
    optimizer = torch.optim.SGD(own.parameters(), lr=0.01, momentum=0.9)
    if rank == 0:
        stream = os.fdopen(stdin)
    count = torch.zeros(1, dtype=torch.int64)
    while True:
        if rank == 0:
            count[0] = int(stream.readline().strip() or 0)
        dist.broadcast(count, 0)
        if count.item() == 0:
            break
        began = time.perf_counter()
        for _ in range(count.item()):
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(x)
            else:
                losses = []
                schedule.step(target=labels, losses=losses)
            optimizer.step()
        dist.barrier()
        if rank == 0:
            print(f"{time.perf_counter() - began:.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    stdin = os.dup(0)
    os.set_inheritable(stdin, True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other = mp.get_context("fork").Process(target=work, args=(1, sys.argv[1:], stdin, port))
    other.start()
    work(0, sys.argv[1:], stdin, port)
    other.join()
