"""Layers drawn at random from what published networks use: Tern's `vectorized` mode beside ONNX Runtime (inference) and
PyTorch (where it is there, inference and training). In pairs on the same cores.

Tern is timed with x in both layouts, and the better one counts, as of PyTorch. Figures are the least processor time of
a call: other programs on the machine disturb it less than the clock; with one thread it is the time of the call. The
report has the distribution of the ratios (above 1 Tern is faster) by kind and the worst by name.

All are held to AVX2 where avx2_only.c is preloaded.

A long sweep can be collected in pieces: --rows FILE appends each layer to a file and begins behind those that it
has, and --report prints the table of the collected rows without measuring.

usage: sweep_cpu.py PATH/TO/sweep [--kinds conv] [--phases infer] [--layers 200] [--threads 1] [--seed 1] [--rows FILE]
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time

import drawn_layers
import onnx_layers
from ratios import report


def least(run, seconds):
    run()
    best = float("inf")
    start = time.perf_counter()
    run()
    inner = max(1, min(1000, int(0.002 / max(time.perf_counter() - start, 1e-7))))
    begin, count = time.perf_counter(), 0
    while count < 3 or time.perf_counter() - begin < seconds:
        clock = time.process_time()
        for _ in range(inner):
            run()
        best, count = min(best, (time.process_time() - clock) / inner), count + 1
    return best * 1e6


class Tern:
    def __init__(self, program, threads, seconds):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "THREADS": str(threads), "DECISIONS": "1"})
        self.head = f"vectorized strict {seconds}"

    def __call__(self, request):
        self.process.stdin.write(f"{self.head} {request}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["processor"], ", ".join(f"{key}:{value}" for key, value in answer["decisions"].items())


def peers_of(layer, phase, options):
    """-> {name: microseconds}"""
    peers = {}
    if phase == "infer":
        for name, run in onnx_layers.runs_of(layer, options.threads).items():
            peers[name] = least(run, options.seconds)
    if options.torch:
        import torch
        from torch_layers import ways_of

        for name, make in ways_of(layer).items():
            peers[f"PyTorch, {name}"] = least(make(phase, "cpu", torch.float32), options.seconds)
    return peers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep")
    parser.add_argument("--kinds", default="conv", help=f"of {','.join(drawn_layers.KINDS)}")
    parser.add_argument("--phases", default="infer", help="infer,train: in turns")
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--most-flops", type=float, default=2e9)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--first", type=int, default=0, help="leaves out the first that the seed draws")
    parser.add_argument("--rows")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--worst", type=int, default=20)
    options = parser.parse_args()
    rows = []
    if options.rows and os.path.exists(options.rows):
        with open(options.rows) as file:
            rows = [json.loads(line) for line in file]
    if not options.report:
        rows += measure(options, max([options.first] + [row["index"] + 1 for row in rows]))
    print(report(rows, options.worst, "peer"))


def measure(options, first):
    if options.torch:
        import torch

        torch.set_num_threads(options.threads)
    tern = Tern(options.sweep, options.threads, options.seconds)
    kinds, phases = options.kinds.split(","), options.phases.split(",")
    layers = drawn_layers.layers(options.seed, kinds, [1, 1, 2, 4, 8, 16, 32], 2 ** 23, options.most_flops)
    rows, begin = [], time.perf_counter()
    for index, layer in itertools.islice(enumerate(layers), first, options.layers):
        phase = phases[index // len(kinds) % len(phases)]
        peers = peers_of(layer, phase, options)
        if not peers:
            continue
        own = {layout: tern(layer.request(phase, layout)) for layout in layer.layouts}
        layout, peer = min(own, key=own.get), min(peers, key=peers.get)
        mine, decisions = own[layout]
        rows.append({"index": index, "ratio": peers[peer] / mine, "kind": layer.kind, "sort": layer.sort,
                     "phase": phase, "layer": str(layer), "theirs": peers[peer], "how": peer, "own": mine,
                     "layout": layout, "decisions": decisions})
        print(f"{index} {rows[-1]['ratio']:.2f} {phase} {layer}: {own} {peers}", file=sys.stderr, flush=True)
        if options.rows:
            with open(options.rows, "a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
        if time.perf_counter() - begin > 60 * options.minutes:
            break
    return rows


if __name__ == "__main__":
    main()
