#!/usr/bin/env python3
"""LSTM and GRU layers beside PyTorch's: the least time of a call that waits for its result, in interleaved rounds.

usage: recurrent.py PROGRAM [--steps 128] [--widths 128,256,512,1024] [--batches 1,8,32,128] [--kinds forward,training]
                    [--cells lstm,gru] [--precisions strict] [--seconds S] [--rounds R] [--threads N] [--mode MODE]
Prints tables of ratios, PyTorch's time divided by Tern's, and the times in milliseconds behind them. With --mode cuda
PyTorch runs on the GPU: eagerly and as a CUDA graph, of which the faster counts.
"""

import argparse
import subprocess
import time

import torch


class Peer:
    def __init__(self, cell, steps, batch, width, trains, precision, device):
        self.device, self.trains = device, trains
        self.tf32 = precision == "tf32"
        self.layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](width, width).to(device)
        self.layer.flatten_parameters()
        self.x = torch.randn(steps, batch, width, device=device, requires_grad=trains)
        self.variants = [self.call]
        if device == "cuda":
            try:
                self.variants.append(self.graph())
            except RuntimeError as error:
                print(f"not captured: {error}", flush=True)

    def call(self):
        if not self.trains:
            with torch.inference_mode():
                return self.layer(self.x)[0]
        return torch.autograd.grad(self.layer(self.x)[0].sum(), [self.x, *self.layer.parameters()])

    def set_precision(self):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32

    def graph(self):
        self.set_precision()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.call()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.kept = self.call()
        return graph.replay

    def least(self, seconds):
        self.set_precision()
        wait = torch.cuda.synchronize if self.device == "cuda" else lambda: None
        least = 1e9
        for run in self.variants:
            total, calls = 0, 0
            run()
            wait()
            while total < seconds or calls < 3:
                start = time.perf_counter()
                run()
                wait()
                now = time.perf_counter() - start
                least, total, calls = min(least, now), total + now, calls + 1
        return 1e3 * least


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--widths", default="128,256,512,1024")
    parser.add_argument("--batches", default="1,8,32,128")
    parser.add_argument("--kinds", default="forward,training")
    parser.add_argument("--cells", default="lstm,gru")
    parser.add_argument("--precisions", default="strict")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mode", default="vectorized")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = "cuda" if options.mode.startswith("cuda") else "cpu"
    cells, precisions, kinds = (each.split(",") for each in (options.cells, options.precisions, options.kinds))
    batches, widths = ([int(each) for each in text.split(",")] for text in (options.batches, options.widths))
    program = subprocess.Popen([options.program, options.mode, str(options.threads)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def measured(cell, width, batch, kind, precision):
        peer = Peer(cell, options.steps, batch, width, kind == "training", precision, device)
        ours = theirs = 1e9
        for _ in range(options.rounds):
            print(cell, options.steps, batch, width, kind, precision, options.seconds, file=program.stdin, flush=True)
            ours = min(ours, float(program.stdout.readline()))
            theirs = min(theirs, peer.least(options.seconds))
        return ours, theirs

    for precision in precisions:
        for kind in kinds:
            ratios = []
            for cell in cells:
                print(f"| {cell}, {kind}, {precision} | " + " | ".join(f"batch {each}" for each in batches) + " |")
                print("|" + "---|" * (len(batches) + 1), flush=True)
                for width in widths:
                    row = [measured(cell, width, batch, kind, precision) for batch in batches]
                    ratios += [theirs / ours for ours, theirs in row]
                    print(f"| {width} | " + " | ".join(f"{theirs / ours:.2f} ({ours:.3f} / {theirs:.3f})"
                                                       for ours, theirs in row) + " |", flush=True)
            ahead = sum(each >= 1 for each in ratios)
            print(f"{kind}, {precision}: {ahead} of {len(ratios)} ahead, least {min(ratios):.2f}, "
                  f"most {max(ratios):.2f}\n", flush=True)
    program.communicate()


if __name__ == "__main__":
    main()
