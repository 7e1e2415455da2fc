"""Layers drawn at random from what published networks use, and whole networks: Tern's recorded steps beside PyTorch's.

Each layer is timed in PyTorch as a CUDA graph (eager where that fails), in each way that may be its fastest, and in
Tern with x in both layouts; the best of each counts. PyTorch's best way is timed before and after Tern. The report has
the distribution of the ratios PyTorch / Tern (above 1 Tern is faster) by kind and the worst by name. `--precision
bfloat16` (or float16) makes everything of that dtype. `--layers 0` leaves the layers out, `--nets ""` the networks.
`--compile` also times the nets under torch.compile, as such and as a CUDA graph (up to a minute a cell), `--jax` one
jitted call in JAX (jax_peer.py); a column each, and the best counts.

Most of the time goes into cuDNN's search: `--search` limits it, and with `--prepare SECONDS` PyTorch looks for each
layer's best way before the program is there, so while it is being built: until the file of `--until` exists.

usage: sweep.py PATH/TO/sweep --mode cuda --precision tf32 --layers 200 --nets mobilenet_v2,resnet50 --out sweep.md
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import nets
import torch
from torch.nn import functional

import drawn_layers
from ratios import report
from torch_layers import ways_of


synchronize = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None


def timed(run, seconds):
    for _ in range(2):
        run()
    synchronize()
    start = time.perf_counter()
    run()
    synchronize()
    inner = max(1, min(1000, int(0.003 / max(time.perf_counter() - start, 1e-7))))
    samples, begin = [], time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        for _ in range(inner):
            run()
        synchronize()
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
    """-> (microseconds, how) of the fastest of make(layout) as a graph, or eager where that fails."""
    best = (float("inf"), "none")
    for name, layout in (("NCHW", torch.contiguous_format), ("NHWC", torch.channels_last)):
        for how, form in (("graph", graph_of), ("eager", lambda run: run)):
            try:
                best = min(best, (timed(form(make(layout, **options)), seconds), f"{how} {name}"))
                break
            except Exception as error:  # a layout that one library cannot run
                sys.stderr.write(f"{how} {name}: {error}\n")
        torch.cuda.empty_cache()
    return best


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
        self.program, self.head = program, f"{mode} {precision} {seconds}"
        self.process, self.peak, self.decisions, self.spent = None, 0, "", 0.0

    def microseconds(self, request):
        if self.process is None:
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            env={**os.environ, "DECISIONS": "1"})
        begin = time.perf_counter()
        self.process.stdin.write(f"{self.head} {request}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        self.spent += time.perf_counter() - begin
        if not line:
            self.process = None
        answer = json.loads(line or '{"error": "the program ended"}')
        if "error" in answer:
            sys.stderr.write(f"{request}: {answer['error']}\n")
            return float("inf")
        self.peak = answer.get("peak", 0)
        self.decisions = ", ".join(f"{key}:{value}" for key, value in answer.get("decisions", {}).items())
        return answer["us"]

    def close(self):
        if self.process is not None:
            self.process.communicate()


class PyTorch:
    """Each layer's fastest way: its name, and whether it runs as a graph."""

    def __init__(self, precision, seconds, device):
        self.dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(precision, torch.float32)
        self.autocast, self.seconds, self.device = precision == "bf16", seconds, device
        self.best, self.spent = {}, 0.0

    def run_of(self, layer, phase, way, graph):
        run = ways_of(layer)[way](phase, self.device, self.dtype, self.autocast)
        return graph_of(run) if graph else run

    def find(self, layer, phase):
        """-> (the way, whether as a graph), or None if none works; remembered."""
        if (layer, phase) in self.best:
            return self.best[layer, phase]
        begin, times = time.perf_counter(), {}
        for way in ways_of(layer):
            for graph in (True, False):
                try:
                    times[way, graph] = timed(self.run_of(layer, phase, way, graph), self.seconds)
                    break
                except Exception as error:  # what PyTorch cannot run in this way
                    sys.stderr.write(f"PyTorch {'graph' if graph else 'eager'}, {way}, {layer}: {error}\n")
        self.clear()
        self.best[layer, phase] = min(times, key=times.get) if times else None
        self.spent += time.perf_counter() - begin
        return self.best[layer, phase]

    def clear(self):
        if self.device == "cuda" and torch.cuda.memory_reserved() > 2 ** 33:
            torch.cuda.empty_cache()


def pair(torch_runs, tern, layer, phase):
    """-> a row: the ratio, and what it comes from. PyTorch is timed before and after Tern."""
    best = torch_runs.find(layer, phase)
    run, theirs = None, [float("inf")]
    if best is not None:
        run = torch_runs.run_of(layer, phase, *best)
        theirs = [timed(run, torch_runs.seconds)]
    own, layout, decisions = min((tern.microseconds(layer.request(phase, layout)), layout, tern.decisions)
                                 for layout in layer.layouts)
    if run is not None:
        theirs.append(timed(run, torch_runs.seconds))
    del run
    torch_runs.clear()
    how = "none" if best is None else ("graph, " if best[1] else "eager, ") + best[0]
    return {"ratio": statistics.mean(theirs) / own, "kind": layer.kind, "sort": layer.sort, "phase": phase,
            "layer": str(layer), "theirs": statistics.mean(theirs), "how": how, "own": own, "layout": layout,
            "decisions": decisions}


def wait_for(path, until):
    """Whether the file was there by the time."""
    while not os.path.exists(path) and time.time() < until:
        time.sleep(0.2)
    return os.path.exists(path)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--mode", default="cuda")
    parser.add_argument("--precision", default="tf32",
                        choices=("strict", "tf32", "bf16", "bfloat16", "float16", "bfloat16_masters"))
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="leaves out the first that the seed draws")
    parser.add_argument("--kinds", default=",".join(drawn_layers.KINDS))
    parser.add_argument("--phases", default="infer,train")
    parser.add_argument("--most-flops", type=float, default=2e11)
    parser.add_argument("--most-elements", type=float, default=2 ** 27)
    parser.add_argument("--nets", default="")
    parser.add_argument("--batches", default="1,64")
    parser.add_argument("--seconds", type=float, default=0.03, help="of a way of a layer; nets have five times that")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no other layer is begun")
    parser.add_argument("--seed", type=int, default=39)
    parser.add_argument("--search", type=int, default=10, help="algorithms that cuDNN tries for a convolution")
    parser.add_argument("--prepare", type=float, default=0, help="seconds in which PyTorch begins without the program")
    parser.add_argument("--until", help="the file that ends --prepare; the program if absent")
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--device", default="cuda", help="PyTorch's; cpu tests this script")
    parser.add_argument("--label", default="")
    parser.add_argument("--rows", help="a file to which each layer is appended")
    parser.add_argument("--out", default="/dev/stdout")
    arguments = parser.parse_args()
    began = time.time()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    tf32 = arguments.precision != "strict"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = arguments.search
    card = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
    with open(arguments.out, "w") as out:
        out.write(f"{card}, PyTorch {torch.__version__}, {arguments.precision}. {arguments.label}\n\n")
        torch_runs = PyTorch(arguments.precision, arguments.seconds, arguments.device)
        layers = list(drawn(arguments))
        if arguments.prepare > 0:
            prepare(arguments, torch_runs, layers, began)
        if arguments.nets:
            compare_nets(arguments, began, out)
        if layers:
            compare(arguments, torch_runs, layers, began, out)


def drawn(arguments):
    """-> the layers with their phases; within a kind the phases take turns."""
    kinds, phases = arguments.kinds.split(","), arguments.phases.split(",")
    layers = drawn_layers.layers(arguments.seed, kinds, [1, 2, 4, 8, 16, 32, 64, 128], arguments.most_elements,
                                 arguments.most_flops)
    for i, layer in enumerate(itertools.islice(layers, arguments.layers)):
        if i >= arguments.first:
            yield layer, phases[i // len(kinds) % len(phases)]


def prepare(arguments, torch_runs, layers, began):
    until = arguments.until or arguments.program
    found = 0
    for layer, phase in layers:
        if os.path.exists(until) or time.time() - began > arguments.prepare:
            break
        torch_runs.find(layer, phase)
        found += 1
    sys.stderr.write(f"PyTorch's ways of {found} layers in {time.time() - began:.0f} s\n")
    if not wait_for(until, began + arguments.budget):
        sys.exit(f"{until} did not come")


def compare(arguments, torch_runs, layers, began, out):
    tern = Tern(arguments.program, arguments.mode, arguments.precision, arguments.seconds)
    rows = []
    try:
        for layer, phase in layers:
            if time.time() - began > arguments.budget:
                out.write(f"Out of time behind {len(rows)} layers.\n\n")
                break
            rows.append(pair(torch_runs, tern, layer, phase))
            if arguments.rows:
                with open(arguments.rows, "a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    finally:
        out.write(report(rows, arguments.worst, "PyTorch"))
        sys.stderr.write(f"{len(rows)} layers in {time.time() - began:.0f} s; "
                         f"PyTorch's search took {torch_runs.spent:.0f}, Tern {tern.spent:.0f}\n")
        tern.close()


def compare_nets(arguments, began, out):
    more = ["torch.compile us"] * arguments.compile + ["JAX us"] * arguments.jax
    out.write("| net | phase | batch | PyTorch us | how | " + "".join(each + " | " for each in more) +
              "Tern us | as a program | ratio | Tern's peak, MB |\n|" + "---|" * (9 + len(more)) + "\n")
    tern = Tern(arguments.program, arguments.mode, arguments.precision, 5 * arguments.seconds)
    for name in arguments.nets.split(","):
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
    tern.close()


if __name__ == "__main__":
    main()
