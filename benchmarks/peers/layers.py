"""Single layers of AlexNet and GoogLeNet: Tern's `vectorized` mode beside PyTorch on the same cores, interleaved.

Every line has the floor as well: the time in which the machine's peak (--gflops, all threads) computes the layer
directly, or in which its memory (--gbps) moves every array once, whichever is longer. Winograd's convolutions may go
below it.

usage: layers.py PATH/TO/layers --batches 1,32 --out layers.md
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import torch
from torch.nn import functional

INCEPTIONS = {  # name: (size, in, 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool)
    "3a": (28, 192, 64, 96, 128, 16, 32, 32), "3b": (28, 256, 128, 128, 192, 32, 96, 64),
    "4a": (14, 480, 192, 96, 208, 16, 48, 64), "4b": (14, 512, 160, 112, 224, 24, 64, 64),
    "4c": (14, 512, 128, 128, 256, 24, 64, 64), "4d": (14, 512, 112, 144, 288, 32, 64, 64),
    "4e": (14, 528, 256, 160, 320, 32, 128, 128), "5a": (7, 832, 256, 160, 320, 32, 128, 128),
    "5b": (7, 832, 384, 192, 384, 48, 128, 128),
}


def alexnet():
    yield "conv1", "conv", (3, 227, 96, 11, 4, 0, 1)
    yield "norm1", "lrn", (96, 55)
    yield "pool1", "max", (96, 55, 3, 2, 0, 0)
    yield "conv2", "conv", (96, 27, 256, 5, 1, 2, 2)
    yield "norm2", "lrn", (256, 27)
    yield "pool2", "max", (256, 27, 3, 2, 0, 0)
    yield "conv3", "conv", (256, 13, 384, 3, 1, 1, 1)
    yield "conv4", "conv", (384, 13, 384, 3, 1, 1, 2)
    yield "conv5", "conv", (384, 13, 256, 3, 1, 1, 2)
    yield "pool5", "max", (256, 13, 3, 2, 0, 0)
    yield "fc6", "linear", (9216, 4096)
    yield "fc7", "linear", (4096, 4096)
    yield "fc8", "linear", (4096, 1000)
    yield "sgd", "sgd", (60965224,)


def googlenet():
    yield "conv1", "conv", (3, 224, 64, 7, 2, 3, 1)
    yield "pool1", "max", (64, 112, 3, 2, 0, 1)
    yield "norm1", "lrn", (64, 56)
    yield "conv2 reduce", "conv", (64, 56, 64, 1, 1, 0, 1)
    yield "conv2", "conv", (64, 56, 192, 3, 1, 1, 1)
    yield "norm2", "lrn", (192, 56)
    yield "pool2", "max", (192, 56, 3, 2, 0, 1)
    for name, (size, i, a, b1, b3, c1, c5, d) in INCEPTIONS.items():
        yield f"{name} 1x1", "conv", (i, size, a, 1, 1, 0, 1)
        yield f"{name} 3x3 reduce", "conv", (i, size, b1, 1, 1, 0, 1)
        yield f"{name} 3x3", "conv", (b1, size, b3, 3, 1, 1, 1)
        yield f"{name} 5x5 reduce", "conv", (i, size, c1, 1, 1, 0, 1)
        yield f"{name} 5x5", "conv", (c1, size, c5, 5, 1, 2, 1)
        yield f"{name} pool", "max", (i, size, 3, 1, 1, 0)
        yield f"{name} pool 1x1", "conv", (i, size, d, 1, 1, 0, 1)
        if name in ("3b", "4e"):
            yield f"pool{name[0]}", "max", (a + b3 + c5 + d, size, 3, 2, 0, 1)
    yield "pool5", "average", (1024, 7, 7, 1, 0)
    yield "loss3", "linear", (1024, 1000)


NETS = {"alexnet": alexnet, "googlenet": googlenet}
PHASES = {"conv": ("forward", "x", "weight"), "sgd": ("forward",)}


def windows(size, kernel, stride, padding, ceil):
    count = (size + 2 * padding - kernel + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def peer(kind, phase, batch, sizes, layout):
    """-> (a function that runs the layer in PyTorch, its floating-point operations, its bytes)"""
    def image(*shape):
        tensor = torch.randn(*shape)
        return tensor.contiguous(memory_format=layout) if len(shape) == 4 else tensor

    def bytes_of(*tensors):
        return 4 * sum(t.numel() for t in tensors)

    if kind == "conv":
        c, h, o, k, stride, padding, groups = sizes
        x, w, b = image(batch, c, h, h), image(o, c // groups, k, k), torch.randn(o)
        out = windows(h, k, stride, padding, False)
        y, g = image(batch, o, out, out), image(batch, o, out, out)
        flops, moved = 2 * y.numel() * k * k * c // groups, bytes_of(x, w, y)
        if phase == "forward":
            return lambda: functional.conv2d(x, w, b, stride, padding, 1, groups).relu_(), flops, moved
        mask = [phase == "x", phase != "x", phase != "x"]

        def backward():
            grad = torch.ops.aten.threshold_backward(g, y, 0)
            torch.ops.aten.convolution_backward(
                grad, x, w, [o], [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, mask)

        return backward, flops, moved
    if kind == "sgd":
        p = torch.nn.Parameter(torch.randn(sizes[0]))
        p.grad = torch.randn(sizes[0])
        optimizer = torch.optim.SGD([p], lr=1e-6, momentum=0.9, weight_decay=5e-4, foreach=True)
        return optimizer.step, 0, 20 * sizes[0]
    if kind == "linear":
        x, w, b = torch.randn(batch, sizes[0]), torch.randn(sizes[1], sizes[0]), torch.randn(sizes[1])
        call, flops = (lambda t: functional.linear(t, w, b).relu_()), 2 * batch * sizes[0] * sizes[1]
        leaves = [x, w, b]
    else:
        x, flops, leaves, w = image(batch, sizes[0], sizes[1], sizes[1]), 0, None, None
        if kind == "lrn":
            call = lambda t: functional.local_response_norm(t, 5, 1e-4, 0.75, 1.0)
        elif kind == "max":
            call = lambda t: functional.max_pool2d(t, sizes[2], sizes[3], sizes[4], ceil_mode=bool(sizes[5]))
        else:
            call = lambda t: functional.avg_pool2d(t, sizes[2], sizes[3], ceil_mode=bool(sizes[4]))
        leaves = [x]
    with torch.no_grad():
        size_out = call(x)
    arrays = [x, size_out] + ([w] if w is not None else [])
    if phase == "forward":
        def forward():
            with torch.no_grad():
                call(x)
        return forward, flops, bytes_of(*arrays)
    for leaf in leaves:
        leaf.requires_grad_()
    y = call(x)
    g = torch.randn_like(y)
    moved = bytes_of(*arrays) * (2 if kind in ("lrn", "linear") else 1)
    return lambda: torch.autograd.grad(y, leaves, g, retain_graph=True), 2 * flops, moved


def microseconds(run, seconds):
    start = time.perf_counter()
    run()
    inner = max(1, min(1000, int(0.001 / max(time.perf_counter() - start, 1e-7))))
    samples, begin = [], time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        for _ in range(inner):
            run()
        samples.append((time.perf_counter() - start) * 1e6 / inner)
    return statistics.median(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the benchmark program `layers`")
    parser.add_argument("--nets", default="alexnet,googlenet")
    parser.add_argument("--layers", default="", help="only layers whose name or kind contains one of these words")
    parser.add_argument("--phases", default="")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.03)
    parser.add_argument("--gflops", type=float, default=320, help="peak of all threads")
    parser.add_argument("--gbps", type=float, default=28, help="memory bandwidth of all threads")
    parser.add_argument("--layout", default="best", choices=["best", "nchw", "nhwc"], help="PyTorch's memory format")
    parser.add_argument("--out")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    formats = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
    if options.layout != "best":
        formats = {options.layout: formats[options.layout]}
    tern = subprocess.Popen([options.program, str(options.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env={**os.environ})
    lines = [f"Microseconds, {options.threads} threads; PyTorch {torch.__version__}, the faster of its memory formats.",
             "",
             "| net | batch | layer | phase | floor | PyTorch | how | Tern | GFLOP/s | ratio |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    totals = {}
    for net in options.nets.split(","):
        for batch in map(int, options.batches.split(",")):
            for name, kind, sizes in NETS[net]():
                wanted = [word for word in options.layers.split(",") if word]
                if wanted and not any(word in name or word == kind for word in wanted):
                    continue
                for phase in PHASES.get(kind, ("forward", "backward")):
                    if options.phases and phase not in options.phases.split(","):
                        continue
                    if phase == "x" and name == "conv1":
                        continue
                    candidates = {}
                    for how, layout in formats.items():
                        run, flops, moved = peer(kind, phase, batch, sizes, layout)
                        run()
                        candidates[how] = (microseconds(run, options.seconds), run)
                        if kind in ("linear", "sgd"):
                            break
                    how, (_, run) = min(candidates.items(), key=lambda item: item[1][0])
                    ours, theirs = [], []
                    for pair in range(options.pairs + 1):
                        tern.stdin.write(f"{kind} {phase} {batch} {options.seconds} {' '.join(map(str, sizes))}\n")
                        tern.stdin.flush()
                        answer = json.loads(tern.stdout.readline())
                        if "error" in answer:
                            raise RuntimeError(answer["error"])
                        if pair == 0:
                            continue  # a warm-up
                        ours.append(answer["us"])
                        theirs.append(microseconds(run, options.seconds))
                    floor = max(flops / options.gflops / 1e3, moved / options.gbps / 1e3)
                    mine, yours = statistics.median(ours), statistics.median(theirs)
                    ratio = statistics.median(b / a for a, b in zip(ours, theirs))
                    lines.append(f"| {net} | {batch} | {name} | {phase} | {floor:.0f} | {yours:.0f} | {how} "
                                 f"| {mine:.0f} | {flops / mine / 1e3:.0f} | {ratio:.2f} |")
                    print(lines[-1], flush=True)
                    total = totals.setdefault((net, batch), [0, 0, 0])
                    for i, value in enumerate((floor, yours, mine)):
                        total[i] += value
    lines.append("")
    for (net, batch), (floor, yours, mine) in totals.items():
        lines.append(f"{net}, batch {batch}, sum of the lines: floor {floor / 1e3:.1f} ms, "
                     f"PyTorch {yours / 1e3:.1f} ms, Tern {mine / 1e3:.1f} ms.")
        print(lines[-1])
    if options.out:
        with open(options.out, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
