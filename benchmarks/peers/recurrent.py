#!/usr/bin/env python3
"""LSTM and GRU layers beside PyTorch's: the least time of a call, in interleaved rounds.

usage: recurrent.py PROGRAM [--steps 128] [--widths 128,256,512,1024] [--batches 1,8,32,128] [--kinds forward,training]
                    [--cells lstm,gru] [--seconds S] [--rounds R] [--threads N]
Prints a table of ratios, PyTorch's time divided by Tern's, and the times in milliseconds behind them.
"""

import argparse
import subprocess
import time

import torch


def theirs(layer, x, trains, seconds):
    least, total, calls = 1e9, 0, 0
    x.requires_grad_(trains)
    while total < seconds or calls < 3:
        start = time.perf_counter()
        if trains:
            layer(x)[0].sum().backward()
            layer.zero_grad(set_to_none=True)
            x.grad = None
        else:
            with torch.inference_mode():
                layer(x)
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
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    batches = [int(each) for each in options.batches.split(",")]
    ratios = []
    for cell in options.cells.split(","):
        for kind in options.kinds.split(","):
            print(f"| {cell}, {kind} | " + " | ".join(f"batch {each}" for each in batches) + " |", flush=True)
            for width in (int(each) for each in options.widths.split(",")):
                cells = []
                for batch in batches:
                    program = subprocess.Popen([options.program, cell, str(options.steps), str(batch), str(width),
                                                str(options.threads)], text=True, stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE)
                    layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](width, width)
                    x = torch.randn(options.steps, batch, width)
                    best = [1e9, 1e9]
                    for _ in range(options.rounds):
                        print(kind, options.seconds, file=program.stdin, flush=True)
                        ours = float(program.stdout.readline())
                        best = [min(best[0], ours), min(best[1], theirs(layer, x, kind == "training",
                                                                        options.seconds))]
                    program.communicate()
                    ratios.append(best[1] / best[0])
                    cells.append(f"{ratios[-1]:.2f} ({best[0]:.2f} / {best[1]:.2f})")
                print(f"| {width} | " + " | ".join(cells) + " |", flush=True)
    ahead = sum(each >= 1 for each in ratios)
    print(f"{ahead} of {len(ratios)} ahead, least {min(ratios):.2f}, most {max(ratios):.2f}")


if __name__ == "__main__":
    main()
