#!/usr/bin/env python3
"""Data parallel training in PyTorch, on as many GPUs as there are processes: what benchmarks/scale stands beside.

Every variant trains the nets of nets.py with SGD: DistributedDataParallel as it is, over compiled layers,
and the whole step, compiled or not, as one CUDA graph in which all gradients are one vector with one all-reduce. The
fastest is the peer, beside the fastest step of one GPU. With --tern FILE, the table that `scale` printed, each row has
Tern's time and memory for as many GPUs and the ratio (above 1: Tern is faster).

usage: torchrun --nproc-per-node N benchmarks/peers/ddp.py [--nets ...] [--batches ...] [--compile] [--tern FILE]
"""

import argparse
import datetime
import faulthandler
import gc
import os
import re
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

from nets import NETS

IMAGES = ("alexnet", "googlenet")  # channels last is faster for these


class Loss(nn.Module):
    """DistributedDataParallel wraps a forward pass, which in training is the loss."""

    def __init__(self, module, loss):
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, x, y):
        return self.loss(x, y)


class Peer:
    def __init__(self, net, batch, options, device):
        make, shape, classes = NETS[net]
        torch.manual_seed(0)
        self.options, self.device = options, device
        self.module = make().to(device)
        self.x = torch.randn(batch, *shape, device=device)
        self.y = torch.randint(0, classes, (batch,), device=device)
        if net in IMAGES:
            self.module = self.module.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.parameters = list(self.module.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True)

    def mixed(self):
        return torch.autocast("cuda", torch.bfloat16, enabled=self.options.precision == "bf16", cache_enabled=False)

    def loss(self, compiled):
        return torch.compile(self.module.loss, dynamic=False) if compiled else self.module.loss

    def distributed(self, compiled):
        wrapped = nn.parallel.DistributedDataParallel(
            Loss(self.module, self.loss(compiled)), device_ids=[self.device.index], gradient_as_bucket_view=True)

        def step():
            self.optimizer.zero_grad(set_to_none=True)
            with self.mixed():
                loss = wrapped(self.x, self.y)
            loss.backward()
            self.optimizer.step()
        return step

    def whole(self, compiled, ranks):
        """The step of which a graph is made; alone where `ranks` is 1."""
        loss = self.loss(compiled)
        flat = torch.zeros(sum(p.numel() for p in self.parameters), device=self.device)
        place = 0
        for parameter in self.parameters:
            parameter.grad = flat.as_strided(parameter.shape, parameter.stride(), place)
            place += parameter.numel()

        def step():
            flat.zero_()
            with self.mixed():
                value = loss(self.x, self.y)
            value.backward()
            if ranks > 1:
                dist.all_reduce(flat, op=dist.ReduceOp.AVG)
            self.optimizer.step()
        return step


def graphed(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        step()

    def replay():
        graph.replay()
    replay.step = step  # keeps what the graph reads and writes
    return replay


def microseconds(run, seconds):
    """The median of five samples; all ranks take as many steps."""
    for _ in range(5):
        run()
    torch.cuda.synchronize()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    count = torch.tensor([max(3, int(seconds / 5 / ((time.perf_counter() - start) / 3)))], device="cuda")
    dist.all_reduce(count, op=dist.ReduceOp.MIN)
    count = int(count)
    samples = []
    for _ in range(5):
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            run()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - start) * 1e6 / count)
    return statistics.median(samples)


def variants(net, batch, options, device, ranks):
    """(name, whether it uses only one GPU, microseconds, peak MB) of every variant that works here."""
    for compiled in (False, True) if options.compile else (False,):
        extra = "compile, " if compiled else ""
        for name, alone, make in (
                (extra + "one GPU, graph", True, lambda peer: graphed(peer.whole(compiled, 1))),
                (extra + "DDP", False, lambda peer: peer.distributed(compiled)),
                (extra + "graph, one all-reduce", False, lambda peer: graphed(peer.whole(compiled, ranks)))):
            torch.cuda.reset_peak_memory_stats()
            faulthandler.dump_traceback_later(options.limit, exit=True)  # of this rank; the others end with it
            start = time.perf_counter()
            us = microseconds(make(Peer(net, batch, options, device)), options.seconds)
            if device.index == 0:  # a cell takes its time where it is compiled
                print(f"{net}, {batch}: {name}: {us:.1f} us, found in {time.perf_counter() - start:.0f} s",
                      file=sys.stderr, flush=True)
            faulthandler.cancel_dump_traceback_later()
            yield name, alone, us, torch.cuda.max_memory_allocated() / 1e6
            torch._dynamo.reset()
            gc.collect()
            torch.cuda.empty_cache()


def of_tern(file):
    """(net, precision, batch, ranks) -> microseconds and peak MB, of the table of benchmarks/scale."""
    found = {}
    with open(file) as lines:
        for line in lines:
            row = re.match(r"\| (\S+) \| (\S+) \| (\d+) each \| (\d+) \| ([\d.]+) .*\| (\d+) \|$", line)
            if row:
                found[row[1], row[2], int(row[3]), int(row[4])] = float(row[5]), float(row[6])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default="mlp-small,mlp-big,lenet,alexnet,googlenet")
    parser.add_argument("--batches", default="128", help="images of each GPU")
    parser.add_argument("--precision", default="tf32", choices=("strict", "tf32", "bf16"))
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one measurement")
    parser.add_argument("--limit", type=float, default=120, help="seconds after which a variant says where it hangs")
    parser.add_argument("--compile", action="store_true", help="torch.compile too: half a minute or more for a cell")
    parser.add_argument("--tern", help="the table that benchmarks/scale printed")
    options = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device, timeout=datetime.timedelta(seconds=options.limit))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision != "strict"
    torch.backends.cudnn.benchmark = True
    tern = of_tern(options.tern) if options.tern else {}

    def say(line):
        if rank == 0:
            print(line, flush=True)

    say(f"PyTorch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {ranks} x "
        f"{torch.cuda.get_device_name()}; microseconds of a step\n")
    say("| net | precision | batch | one GPU | how | GPUs | DDP | best | how | efficiency | its peak MB | Tern "
        "| its peak MB | ratio |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for net in options.nets.split(","):
        for batch in map(int, options.batches.split(",")):
            found = list(variants(net, batch, options, device, ranks))
            one = min((variant for variant in found if variant[1]), key=lambda variant: variant[2])
            best = min((variant for variant in found if not variant[1]), key=lambda variant: variant[2])
            plain = next(variant for variant in found if variant[0] == "DDP")
            ours = tern.get((net, options.precision, batch, ranks))
            beside = f"{ours[0]:.1f} | {ours[1]:.0f} | {best[2] / ours[0]:.2f}" if ours else " | | "
            say(f"| {net} | {options.precision} | {batch} each | {one[2]:.1f} | {one[0]} | {ranks} | {plain[2]:.1f} "
                f"| {best[2]:.1f} | {best[0]} | {one[2] / best[2]:.3f} | {best[3]:.0f} | {beside} |")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
