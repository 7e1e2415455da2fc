"""Fused normalisation and attention: Tern beside PyTorch, interleaved, on a GPU or (--device cpu) on the processor.

PyTorch's variants (eager and torch.compile, each under a CUDA graph) are timed once per cell, and the fastest again in
turn with Tern's, pair by pair. A line has the median of the ratios PyTorch / Tern, above 1 where Tern is faster, with
their 10th and 90th percentile, the microseconds of both and the bytes that a call takes beside its inputs.

usage: fused.py PATH/TO/fused [--only layer_norm,rms_norm,attention,causal] [--rows 1,8,32,128,8192]
                [--precisions strict,tf32] [--sequences 128,512,2048] [--widths 64] [--device cuda]
                [--no-compile] [--pairs 7] [--out fused.md]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional

CALLS = {"layer_norm": 32, "rms_norm": 32, "attention": 2, "causal": 2}


class Tern:
    def __init__(self, program, device):
        mode = {"cuda": "cuda", "cpu": "vectorized"}[device]
        self.process = subprocess.Popen([program, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, kind, phase, precision, seconds, sizes):
        request = f"{kind} {phase} {precision} {CALLS[kind]} {seconds} {' '.join(map(str, sizes))}\n"
        self.process.stdin.write(request)
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{request.strip()}: {answer['error']}")
        return answer["us"], answer["bytes"]


class Peer:
    def __init__(self, device, kind, phase, precision, sizes):
        torch.manual_seed(0)
        self.device = device
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        self.kind, self.both = kind, phase == "both"
        if kind in ("attention", "causal"):
            self.inputs = [torch.randn(*sizes, device=device) for _ in range(3)]
        else:
            count = 3 if kind == "layer_norm" else 2
            self.inputs = [torch.randn(*sizes, device=device)] + [torch.randn(sizes[1], device=device)
                                                                  for _ in range(count - 1)]
        for x in self.inputs:
            x.requires_grad_(self.both)
        self.gradient = torch.randn_like(self.inputs[0])

    def forward(self, *inputs):
        if self.kind == "layer_norm":
            return functional.layer_norm(inputs[0], inputs[0].shape[1:], inputs[1], inputs[2])
        if self.kind == "rms_norm":
            return functional.rms_norm(inputs[0], inputs[0].shape[1:], inputs[1])
        return functional.scaled_dot_product_attention(*inputs, is_causal=self.kind == "causal")

    def call(self, function):
        if not self.both:
            with torch.no_grad():
                return function(*self.inputs)
        return torch.autograd.grad(function(*self.inputs), self.inputs, self.gradient)

    def variants(self, compiles):
        yield "eager", self.graphed(self.forward)
        if compiles:
            yield "compile", self.graphed(torch.compile(self.forward, dynamic=False))

    def graphed(self, function):
        if self.device == "cpu":
            return lambda: [self.call(function) for _ in range(CALLS[self.kind])]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.call(function)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(CALLS[self.kind]):
                self.call(function)
        return graph.replay

    def measure(self, run, seconds):
        wait = torch.cuda.synchronize if self.device == "cuda" else lambda: None

        def timed(times):
            wait()
            start = time.perf_counter()
            for _ in range(times):
                run()
            wait()
            return (time.perf_counter() - start) / times

        timed(1)
        inner = int(min(1000, max(1, 0.005 / timed(1))))
        samples, begin = [], time.perf_counter()
        while len(samples) < 3 or time.perf_counter() - begin < seconds:
            samples.append(timed(inner) * 1e6 / CALLS[self.kind])
        return statistics.median(samples)

    def bytes(self):
        if self.device == "cpu":
            return float("nan")
        for _ in range(2):
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            self.call(self.forward)
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated() - before
        return peak


def cells(only, row_counts, precisions, sequences, widths):
    for kind in ("layer_norm", "rms_norm"):
        for length in (256, 1024, 4096):
            for rows in row_counts:
                for phase in ("forward", "both"):
                    if kind in only:
                        yield kind, phase, "strict", (rows, length)
    for kind in ("attention", "causal"):
        for precision in precisions:
            for width in widths:
                for sequence in sequences:
                    for phase in ("forward", "both"):
                        if kind in only:
                            yield kind, phase, precision, (4, 8, sequence, width)


def quantile(values, q):
    ordered = sorted(values)
    return ordered[round(q * (len(ordered) - 1))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", default="layer_norm,rms_norm,attention,causal")
    parser.add_argument("--rows", default="1,8,32,128,8192")
    parser.add_argument("--precisions", default="strict,tf32", help="of attention")
    parser.add_argument("--sequences", default="128,512,2048", help="of attention")
    parser.add_argument("--widths", default="64", help="of a head")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.02)
    parser.add_argument("--out")
    arguments = parser.parse_args()
    tern = Tern(arguments.program, arguments.device)
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else f"{torch.get_num_threads()} threads"
    lines = [f"{name}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}", "",
             "| operator | phase | precision | sizes | PyTorch / Tern | p10 - p90 | Tern us | PyTorch us | "
             "its variant | Tern MiB | PyTorch MiB |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    def numbers(text):
        return [int(number) for number in text.split(",")]

    for kind, phase, precision, sizes in cells(arguments.only.split(","), numbers(arguments.rows),
                                               arguments.precisions.split(","), numbers(arguments.sequences),
                                               numbers(arguments.widths)):
        peer = Peer(arguments.device, kind, phase, precision, sizes)
        variants = dict(peer.variants(not arguments.no_compile))
        best = min(variants, key=lambda variant: peer.measure(variants[variant], arguments.seconds))
        try:
            tern.measure(kind, phase, precision, arguments.seconds, sizes)
        except RuntimeError as error:
            print(f"| {error} |", flush=True)
            continue
        ratios, own, theirs = [], [], []
        for _ in range(arguments.pairs):
            us, held = tern.measure(kind, phase, precision, arguments.seconds, sizes)
            own.append(us)
            theirs.append(peer.measure(variants[best], arguments.seconds))
            ratios.append(theirs[-1] / own[-1])
        line = (f"| {kind} | {phase} | {precision} | {' x '.join(map(str, sizes))} | {statistics.median(ratios):.2f} | "
                f"{quantile(ratios, 0.1):.2f} - {quantile(ratios, 0.9):.2f} | {statistics.median(own):.2f} | "
                f"{statistics.median(theirs):.2f} | {best} | {held / 2**20:.1f} | {peer.bytes() / 2**20:.1f} |")
        print(line, flush=True)
        lines.append(line)
    if arguments.out:
        with open(arguments.out, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
