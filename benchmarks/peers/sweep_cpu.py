"""Convolutions drawn at random from what published networks use: inference by Tern's `vectorized` mode beside ONNX
Runtime, and beside PyTorch where it is there. In pairs on the same cores.

Tern is timed with x in both layouts, and the better one counts, as of PyTorch. Figures are the least processor time of
a call: other programs on the machine disturb it less than the clock; with one thread it is the time of the call. The
report has the distribution of the ratios (above 1 Tern is faster) and the worst by name.

All are held to AVX2 where avx2_only.c is preloaded.

A long sweep can be collected in pieces: --rows FILE appends each layer to a file, --first N leaves out the first N
layers that the seed draws, and --report prints the table of the collected rows without measuring.

usage: sweep_cpu.py PATH/TO/sweep [--layers 200] [--threads 1] [--seed 1] [--rows FILE [--first N] [--report]]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from drawn_layers import draw


def name_of(sizes):
    n, c, h, o, k, stride, padding, dilation, groups = sizes
    return (f"{n}x{c}x{h}x{h} to {o} by {k}x{k}" + (f", stride {stride}" if stride > 1 else "") +
            (f", dilation {dilation}" if dilation > 1 else "") + (f", {groups} groups" if groups > 1 else ""))


def least(run, seconds):
    run()
    best, total = float("inf"), 0
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


def onnx_runtime(sizes, threads):
    n, c, h, o, k, stride, padding, dilation, groups = sizes
    rng = np.random.default_rng(1)
    weights = [onnx.numpy_helper.from_array(rng.standard_normal(shape, dtype=np.float32), name)
               for name, shape in (("w", (o, c // groups, k, k)), ("b", (o,)))]
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], kernel_shape=[k, k], strides=[stride] * 2,
                              pads=[padding] * 4, dilations=[dilation] * 2, group=groups),
             helper.make_node("Relu", ["y"], ["z"])]
    value = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    graph = helper.make_graph(nodes, "conv", [value("x", [n, c, h, h])], [value("z", None)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    x = rng.standard_normal((n, c, h, h), dtype=np.float32)
    return lambda: session.run(None, {"x": x})


def pytorch(sizes, layout):
    import torch

    n, c, h, o, k, stride, padding, dilation, groups = sizes
    kind = torch.channels_last if layout == "last" else torch.contiguous_format
    x, w = (torch.randn(*shape).to(memory_format=kind) for shape in ((n, c, h, h), (o, c // groups, k, k)))
    b = torch.randn(o)

    def run():
        with torch.inference_mode():
            torch.nn.functional.conv2d(x, w, b, stride, padding, dilation, groups).relu_()
    return run


class Tern:
    def __init__(self, program, threads, seconds):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "THREADS": str(threads)})
        self.seconds = seconds

    def __call__(self, sizes, layout):
        request = f"vectorized strict {self.seconds} conv infer {layout} " + " ".join(map(str, sizes))
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["processor"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep")
    parser.add_argument("--layers", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--most-flops", type=float, default=2e9)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rows")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    rows = []
    if not options.report:
        rows = measure(options)
    if options.rows:
        with open(options.rows) as file:
            rows = [tuple(json.loads(line)) for line in file]
    print(table(rows, options.threads))


def measure(options):
    if options.torch:
        import torch

        torch.set_num_threads(options.threads)
    generator, tern = random.Random(options.seed), Tern(options.sweep, options.threads, options.seconds)
    rows, begin = [], time.perf_counter()
    for index in range(options.layers):
        sizes = draw(generator, [1, 1, 2, 4, 8, 16, 32], 2 ** 23, options.most_flops)
        if index < options.first:
            continue
        own = {layout: tern(sizes, layout) for layout in ("first", "last")}
        peers = {"ONNX Runtime": least(onnx_runtime(sizes, options.threads), options.seconds)}
        if options.torch:
            for layout in ("first", "last"):
                peers[f"PyTorch, {layout}"] = least(pytorch(sizes, layout), options.seconds)
        layout, peer = min(own, key=own.get), min(peers, key=peers.get)
        rows.append((peers[peer] / own[layout], name_of(sizes), own[layout], layout, peers[peer], peer))
        print(f"{index} {rows[-1][0]:.2f} {name_of(sizes)}: {own} {peers}", file=sys.stderr, flush=True)
        if options.rows:
            with open(options.rows, "a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
        if time.perf_counter() - begin > 60 * options.minutes:
            break
    return rows


def table(rows, threads):
    ratios = sorted(row[0] for row in rows)
    at = lambda q: ratios[min(len(ratios) - 1, int(q * len(ratios)))]
    lines = [f"{len(rows)} layers, {threads} threads: least {ratios[0]:.2f}, 5th percentile {at(0.05):.2f}, "
             f"median {at(0.5):.2f}, 95th {at(0.95):.2f}; {sum(r >= 1 for r in ratios)} ahead, "
             f"{sum(r < 0.85 for r in ratios)} below 0.85, {sum(r < 0.5 for r in ratios)} below 0.5", "",
             "| best peer / Tern | layer | Tern, us | x | peer, us | peer |", "|---|---|---|---|---|---|"]
    for ratio, name, mine, layout, theirs, peer in sorted(rows)[:20]:
        lines.append(f"| {ratio:.2f} | {name} | {mine:.0f} | {layout} | {theirs:.0f} | {peer} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
