"""Tern beside PyTorch and JAX, cell by cell, interleaved in one run on one machine.

For every net, phase and batch: PyTorch's modes of execution (eager, torch.compile, and on cuda the whole step as one
CUDA graph) and, with --jax, those of JAX (one jitted call a step, and a loop of steps inside one program) are timed
once; the fastest of all is then timed in turn with Tern's, pair by pair, and the ratio peer / Tern of every pair is
kept: its median, 10th and 90th percentile are reported. Above 1 Tern is faster. With --fastest a second Tern, whose
algorithms need not repeat, takes its turn in every pair.

usage: compare.py PATH/TO/modes --mode cuda --precision strict --out peers.md
"""

import argparse
import gc
import json
import platform
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional

from nets import NETS


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(q * (len(ordered) - 1))))]


class Tern:
    """The program `modes --serve`: one line requests a cell, one line answers."""

    def __init__(self, program, mode, threads, fastest):
        command = [program, "--serve", "--threads", str(threads)] + (["--fastest"] if fastest else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.mode = mode

    def microseconds(self, net, phase, batch, precision, seconds):
        self.process.stdin.write(f"{net} {self.mode} {phase} {batch} {precision} {seconds}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["us"], answer["transfers"], answer["peak"]


class TorchPeer:
    """One net in PyTorch, ready to run in several variants."""

    def __init__(self, net, batch, phase, device, precision, layout):
        make, shape, classes = NETS[net]
        torch.manual_seed(0)
        self.device = device
        self.precision = precision
        self.module = make().to(device)
        self.x = torch.randn(batch, *shape, device=device)
        self.y = torch.randint(0, classes, (batch,), device=device)
        if layout == "NHWC":
            self.module = self.module.to(memory_format=torch.channels_last)
            self.x = self.x.contiguous(memory_format=torch.channels_last)
        self.phase = phase
        kind = {"fused": True} if device == "cuda" else {"foreach": True}
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, **kind)

    def function(self, compiled):
        forward = torch.compile(self.module, dynamic=False) if compiled else self.module
        loss = torch.compile(self.module.loss, dynamic=False) if compiled else self.module.loss

        def mixed():
            # A cache of the rounded weights would outlive the step that a graph records.
            return torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.precision == "bf16",
                                  cache_enabled=False)

        def train():
            self.optimizer.zero_grad(set_to_none=True)
            with mixed():
                value = loss(self.x, self.y)
            value.backward()
            self.optimizer.step()

        def infer():
            with torch.no_grad(), mixed():
                forward(self.x)

        self.module.train(self.phase == "train")
        return train if self.phase == "train" else infer

    def graphed(self, run):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(4):
                run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def variants(self, compiles):
        """(name, run, steps in a run) of each variant."""
        for how, run in [("eager", self.function(False))] + [("compile", self.function(True))] * compiles:
            yield how, run, 1
            if self.device == "cuda":
                yield "graph" if how == "eager" else "compile+graph", self.graphed(run), 1

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


def microseconds(run, wait, steps, seconds):
    """The median of one step, where a run is several."""
    run()
    wait()
    start = time.perf_counter()
    run()
    wait()
    inner = max(1, int(0.01 / max(time.perf_counter() - start, 1e-7)))
    samples = []
    begin = time.perf_counter()
    while len(samples) < 3 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        for _ in range(inner):
            run()
        wait()
        samples.append((time.perf_counter() - start) * 1e6 / inner / steps)
    return statistics.median(samples)


def processor():
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the benchmark program `modes`")
    parser.add_argument("--mode", default="vectorized",
                        help="Tern's mode; on cuda PyTorch runs on the GPU, else on the CPU")
    parser.add_argument("--precision", default="strict", choices=["strict", "tf32", "bf16"])
    parser.add_argument("--nets", default="mlp-small,mlp-medium,mlp-big,lenet")
    parser.add_argument("--phases", default="train,infer")
    parser.add_argument("--batches", default="1,32,128,512")
    parser.add_argument("--threads", type=int, default=2, help="threads of both, on the CPU")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of one measurement")
    parser.add_argument("--budget", type=float, default=1e9, help="stop starting cells after so many seconds")
    parser.add_argument("--compile", action="store_true", help="time torch.compile too (seconds to minutes a cell)")
    parser.add_argument("--compile-batches", default="", help="with --compile: only at these batch sizes")
    parser.add_argument("--jax", action="store_true", help="time JAX too (some seconds a cell to compile)")
    parser.add_argument("--layouts", default="NCHW", help="PyTorch's memory formats to try: NCHW,NHWC")
    parser.add_argument("--fastest", action="store_true",
                        help="time Tern's cuda mode with algorithms that need not repeat, as PyTorch's, beside")
    parser.add_argument("--label", default="", help="a line for the table, such as the commit")
    parser.add_argument("--out", help="Markdown file")
    options = parser.parse_args()

    device = "cuda" if options.mode == "cuda" else "cpu"
    torch.set_num_threads(options.threads)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    where = torch.cuda.get_device_name() if device == "cuda" else f"{processor()}, {options.threads} threads"
    peers = f"PyTorch {torch.__version__}"
    if options.jax:
        import jax_peer  # requires JAX only here

        peers += f" and JAX {jax_peer.jax.__version__}"
    lines = [
        f"Tern `{options.mode}` beside {peers} on {where}, precision {options.precision}. Median microseconds of one "
        "step; the ratio peer / Tern is taken pair by pair with the fastest peer (above 1: Tern is faster).",
        "",
        f"Command: `python3 compare.py {' '.join(sys.argv[1:])}`. {options.label}",
        "",
        "| net | phase | batch | PyTorch eager | best peer | how | Tern | ratio | 10th to 90th percentile | transfers "
        "| peak MB, PyTorch eager : Tern |" + " Tern --fastest | its ratio |" * options.fastest,
        "|---|---|---|---|---|---|---|---|---|---|---|" + "---|---|" * options.fastest,
    ]
    print("\n".join(lines), flush=True)
    threads = options.threads if device == "cpu" else 0
    terns = [Tern(options.program, options.mode, threads, fastest) for fastest in [False, True][:1 + options.fastest]]
    begin = time.time()
    behind = 0
    for net in options.nets.split(","):
        for phase in options.phases.split(","):
            for batch in map(int, options.batches.split(",")):
                if time.time() - begin > options.budget:
                    print(f"(time is up before {net} {phase} {batch})", flush=True)
                    continue
                found, their_peak = {}, 0
                compiles = options.compile and (not options.compile_batches
                                                or str(batch) in options.compile_batches.split(","))
                for layout in options.layouts.split(","):
                    if device == "cuda":
                        torch.cuda.reset_peak_memory_stats()
                    peer = TorchPeer(net, batch, phase, device, options.precision, layout)
                    for how, run, steps in peer.variants(compiles and layout == options.layouts.split(",")[-1]):
                        for _ in range(3):
                            run()
                        took = microseconds(run, peer.wait, steps, options.seconds)
                        found[f"{how} {layout}"] = (took, run, peer.wait, steps)
                        if how == "eager" and device == "cuda" and not their_peak:
                            their_peak = torch.cuda.max_memory_allocated()
                if options.jax:
                    peer = jax_peer.JaxPeer(net, batch, phase, options.precision)
                    for how, run, steps in peer.variants():
                        run()
                        found[how] = (microseconds(run, peer.wait, steps, options.seconds), run, peer.wait, steps)
                how, (_, run, wait, steps) = min(found.items(), key=lambda item: item[1][0])
                cell = (net, phase, batch, options.precision, options.seconds)
                for tern in terns:
                    tern.microseconds(*cell)
                # One list of answers (microseconds, transfers, peak) for each Tern.
                ours, theirs = [[] for _ in terns], []
                for pair in range(options.pairs):
                    turns = [*range(len(terns)), "peer"]
                    for turn in turns if pair % 2 == 0 else reversed(turns):
                        if turn == "peer":
                            theirs.append(microseconds(run, wait, steps, options.seconds))
                        else:
                            ours[turn].append(terns[turn].microseconds(*cell))
                times = [[answer[0] for answer in answers] for answers in ours]
                ratios = [sorted(peer / value for peer, value in zip(theirs, values)) for values in times]
                ratio = statistics.median(ratios[0])
                behind += ratio < 1
                eager = min(variant[0] for name, variant in found.items() if name.startswith("eager"))
                lines.append(
                    f"| {net} | {phase} | {batch} | {eager:.1f} | {statistics.median(theirs):.1f} | {how} "
                    f"| {statistics.median(times[0]):.1f} "
                    f"| {ratio:.2f} | {quantile(ratios[0], 0.1):.2f} to {quantile(ratios[0], 0.9):.2f} "
                    f"| {sum(answer[1] for answer in ours[0])} | {their_peak / 1e6:.0f} : {ours[0][-1][2] / 1e6:.0f} |"
                    + "".join(f" {statistics.median(values):.1f} | {statistics.median(faster):.2f} |"
                              for values, faster in zip(times[1:], ratios[1:]))
                )
                print(lines[-1], flush=True)
                del peer, run, wait, found
                # What stays compiled would hold memory, and make the next batch size a function of any, which is
                # slower.
                torch._dynamo.reset()
                gc.collect()
                if device == "cuda":
                    torch.cuda.empty_cache()
    lines += ["", f"Cells in which a peer is faster: {behind}."]
    print(lines[-1], flush=True)
    if options.out:
        with open(options.out, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
