"""Layers drawn at random from what published networks use, and whole networks: Tern's recorded steps beside PyTorch's.

Each layer is timed in PyTorch eager and as a CUDA graph, both layouts, and in Tern with x in both layouts; the best of
each counts, in one run, one after the other. `--precision bfloat16` (or float16) makes everything of that dtype. The
report has the distribution of the ratios PyTorch / Tern (above 1 Tern is faster) and the worst by name. `--layers 0`
leaves the layers out, `--nets ""` the networks. `--compile` also times the nets under torch.compile, as such and as a
CUDA graph (up to a minute a cell), `--jax` one jitted call in JAX (jax_peer.py); a column each, and the best counts.

usage: sweep.py PATH/TO/sweep --mode cuda --precision tf32 --layers 200 --nets mobilenet_v2,resnet50 --out sweep.md
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time

import nets
import torch
from torch.nn import functional

from drawn_layers import draw


def timed(run, seconds):
    for _ in range(2):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    inner = max(1, min(1000, int(0.003 / max(time.perf_counter() - start, 1e-7))))
    samples, begin = [], time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        for _ in range(inner):
            run()
        torch.cuda.synchronize()
        samples.append((time.perf_counter() - start) * 1e6 / inner)
    return statistics.median(samples)


def graph_of(run):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def best_of(make, seconds, **options):
    """-> (microseconds, how) of the fastest of make(layout) eager and as a graph."""
    best = (float("inf"), "none")
    for name, layout in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        try:
            run = make(layout, **options)
            best = min(best, (timed(run, seconds), "eager " + name))
            best = min(best, (timed(graph_of(run), seconds), "graph " + name))
        except Exception as error:  # a layout that one library cannot run
            sys.stderr.write(f"{name}: {error}\n")
        torch.cuda.empty_cache()
    return best


def conv_of(sizes, phase):
    n, c, h, o, k, stride, padding, dilation, groups = sizes

    def make(layout):
        x = torch.randn(n, c, h, h, device="cuda").to(memory_format=layout)
        w = torch.randn(o, c // groups, k, k, device="cuda").to(memory_format=layout)
        b = torch.randn(o, device="cuda")
        if phase == "infer":
            def run():
                with torch.no_grad():
                    functional.conv2d(x, w, b, stride, padding, dilation, groups).relu_()
            return run
        leaves = [t.requires_grad_() for t in (x, w, b)]
        grad = torch.randn_like(functional.conv2d(x, w, b, stride, padding, dilation, groups))

        def run():
            for leaf in leaves:
                leaf.grad = None
            functional.conv2d(x, w, b, stride, padding, dilation, groups).relu_().backward(grad)
        return run
    return make


def net_by(name):
    """-> the net, the shape of an input, its classes: those that torchvision has with other layers are in nets.py."""
    import torchvision

    if name == "unet":
        return nets.UNet(), (3, 128, 128), 2
    if name in ("mlp", "lenet", "alexnet", "googlenet"):
        make, shape, classes = nets.NETS["mlp-big" if name == "mlp" else name]
        return make(), shape, classes
    return getattr(torchvision.models, name)(), (3, 224, 224), 1000


def net_of(name, batch, phase, precision):
    autocast = precision in ("bf16", "bfloat16_masters")
    halves = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(precision)

    def make(layout, compiled=False):
        net, shape, classes = net_by(name)
        x = torch.randn(batch, *shape, device="cuda")
        net = net.cuda()
        if x.ndim == 4:
            net, x = net.to(memory_format=layout), x.to(memory_format=layout)
        net.train(phase == "train")
        y = torch.randint(0, classes, (batch, 128, 128) if name == "unet" else (batch,), device="cuda")
        if autocast and phase == "infer":
            net, x = net.bfloat16(), x.bfloat16()
        elif halves is not None:
            net, x = net.to(halves), x.to(halves)
        forward = torch.compile(net, dynamic=False) if compiled else net
        if phase == "infer":
            def run():
                with torch.no_grad():
                    forward(x)
            return run
        update = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, fused=True)
        own_loss = getattr(net, "loss", None)
        if own_loss is not None and compiled:
            own_loss = torch.compile(own_loss, dynamic=False)

        def run():
            update.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16, enabled=autocast, cache_enabled=False):
                loss = functional.cross_entropy(forward(x), y) if own_loss is None else own_loss(x, y)
            loss.backward()
            update.step()
        return run
    return make


class Tern:
    def __init__(self, program, mode, precision, seconds):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.head = f"{mode} {precision} {seconds}"
        self.peak = 0

    def microseconds(self, request):
        self.process.stdin.write(f"{self.head} {request}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            sys.stderr.write(f"{request}: {answer['error']}\n")
            return float("inf")
        self.peak = answer.get("peak", 0)
        return answer["us"]


def of_jax(name, batch, phase, precision, seconds):
    """-> (microseconds, how) of the fastest way in JAX; infinity where it lacks the net or the precision."""
    try:
        import jax_peer

        peer = jax_peer.JaxPeer("mlp-big" if name == "mlp" else name, batch, phase, precision)
        best = (float("inf"), "none")
        for how, run, steps in peer.variants():
            if steps > 1:
                continue
            run(), peer.wait()
            times, begin = [], time.perf_counter()
            while len(times) < 3 or time.perf_counter() - begin < seconds:
                start, inner = time.perf_counter(), 10
                for _ in range(inner):
                    run()
                peer.wait()
                times.append((time.perf_counter() - start) * 1e6 / inner)
            best = min(best, (statistics.median(times), how))
        return best
    except Exception as error:
        sys.stderr.write(f"JAX, {name}: {error}\n")
        return float("inf"), "none"


def distribution(rows):
    ratios = sorted(r[0] for r in rows)
    at = lambda q: ratios[min(len(ratios) - 1, int(q * len(ratios)))]
    return f"| {len(ratios)} | {at(0.5):.2f} | {at(0.05):.2f} | {ratios[0]:.2f} | {ratios[-1]:.2f} | " \
           f"{100 * sum(r >= 1 for r in ratios) / len(ratios):.0f} % |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--mode", default="cuda")
    parser.add_argument("--precision", default="tf32",
                        choices=("strict", "tf32", "bf16", "bfloat16", "float16", "bfloat16_masters"))
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--phases", default="infer,train")
    parser.add_argument("--nets", default="")
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--seconds", type=float, default=0.03, help="of a way of a layer; nets have five times that")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no other layer is begun")
    parser.add_argument("--seed", type=int, default=39)
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--label", default="")
    parser.add_argument("--out", default="/dev/stdout")
    arguments = parser.parse_args()
    began = time.time()
    tf32 = arguments.precision != "strict"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    generator = random.Random(arguments.seed)
    out = open(arguments.out, "w")
    out.write(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {arguments.precision}. "
              f"{arguments.label}\n\n")
    names = [n for n in arguments.nets.split(",") if n]
    if names:
        more = ["torch.compile us"] * arguments.compile + ["JAX us"] * arguments.jax
        out.write("| net | phase | batch | PyTorch us | how | " + "".join(each + " | " for each in more) +
                  "Tern us | as a program | ratio | Tern's peak, MB |\n|" + "---|" * (9 + len(more)) + "\n")
        tern = Tern(arguments.program, arguments.mode, arguments.precision, 5 * arguments.seconds)
        for name in names:
            for phase in arguments.phases.split(","):
                for batch in map(int, arguments.batches.split(",")):
                    if time.time() - began > arguments.budget:
                        continue
                    own, peak = tern.microseconds(f"net {phase} {name} {batch}"), tern.peak
                    program = tern.microseconds(f"net program {name} {batch}") if phase == "infer" else float("inf")
                    best, how = best_of(net_of(name, batch, phase, arguments.precision), 5 * arguments.seconds)
                    others = []
                    if arguments.compile:
                        others.append(best_of(net_of(name, batch, phase, arguments.precision), 5 * arguments.seconds,
                                              compiled=True)[0])
                        torch.compiler.reset()
                    if arguments.jax:
                        others.append(of_jax(name, batch, phase, arguments.precision, 5 * arguments.seconds)[0])
                    columns = "".join(f"{each:.0f} | " for each in others)
                    out.write(f"| {name} | {phase} | {batch} | {best:.0f} | {how} | {columns}{own:.0f} | "
                              f"{program:.0f} | "
                              f"{min([best] + others) / min(own, program):.2f} | {peak / 1e6:.0f} |\n")
                    out.flush()
        out.write("\n")
    rows = []
    tern = Tern(arguments.program, arguments.mode, arguments.precision, arguments.seconds)
    for i in range(arguments.layers):
        sizes = draw(generator, [1, 2, 4, 8, 16, 32, 64, 128], 2 ** 27, 2e11)
        phase = arguments.phases.split(",")[i % len(arguments.phases.split(","))]
        if time.time() - began > arguments.budget:
            out.write(f"Out of time behind {i} layers.\n\n")
            break
        text = " ".join(map(str, sizes))
        own = min((tern.microseconds(f"conv {phase} {layout} {text}"), layout) for layout in ("first", "last"))
        best, how = best_of(conv_of(sizes, phase), arguments.seconds)
        rows.append((best / own[0], phase, sizes, best, how, own))
    if rows:
        out.write("| layers | median | 5th percentile | least | most | ahead |\n|---|---|---|---|---|---|\n")
        out.write(distribution(rows) + "\n\n")
        kinds = {"depthwise": lambda s: s[8] > 1 and s[8] == s[1], "grouped": lambda s: 1 < s[8] < s[1],
                 "1x1": lambda s: s[8] == 1 and s[4] == 1, "others": lambda s: s[8] == 1 and s[4] > 1}
        for name, is_kind in kinds.items():
            of_kind = [r for r in rows if is_kind(r[2])]
            if of_kind:
                out.write(f"{name}: {distribution(of_kind)}\n")
        out.write("\n| ratio | phase | N, C, H, O, K, stride, padding, dilation, groups | PyTorch us | how | Tern us |"
                  "\n|---|---|---|---|---|---|\n")
        for ratio, phase, sizes, best, how, own in sorted(rows)[:arguments.worst]:
            out.write(f"| {ratio:.2f} | {phase} | {', '.join(map(str, sizes))} | {best:.1f} | {how} | "
                      f"{own[0]:.1f} {own[1]} |\n")


if __name__ == "__main__":
    main()
