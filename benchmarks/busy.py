#!/usr/bin/env python3
"""Training on cores that other processes use: how close the default is to the best number of threads.

    taskset -c 2,3 benchmarks/busy.py build/benchmarks/modes [--before OTHER/build/benchmarks/modes] [--openmp]

Takes the cores that it may run on. Beside it run no busy loop, one, and one per core, each pinned to a core. In every
round each arm trains the same net for --seconds: a team of all cores, one thread, and with --before a team of that
build (of the same benchmarks/). Prints a table of the means over the rounds, and of the medians of the ratios of a
round.
With --openmp a team on OpenMP (TERN_TEAM=openmp) takes turns with them; the others run on Tern's workers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys


class Arm:
    """A persistent `modes --serve`, so that its memory and threads are warm."""

    def __init__(self, program, threads, engine="workers"):
        # The environment must not set how threads wait or how many there are.
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
        environment["TERN_TEAM"] = engine
        self.process = subprocess.Popen([program, "--serve", "--threads", str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)

    def microseconds(self, net, batch, seconds):
        print(net, "vectorized train", batch, "strict", seconds, file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            sys.exit(answer["error"])
        return answer["mean"]


def busy_loops(cores):
    def pin(core):
        return lambda: os.sched_setaffinity(0, {core})

    return [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=pin(core)) for core in cores]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--before")
    parser.add_argument("--openmp", action="store_true", help="time a team on OpenMP too")
    parser.add_argument("--nets", nargs="+", default=["mlp-small", "lenet"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    arms = {"team": Arm(options.program, 0), "one thread": Arm(options.program, 1)}
    if options.before:
        arms["team before"] = Arm(options.before, 0)
    if options.openmp:
        arms["team on OpenMP"] = Arm(options.program, 0, "openmp")
    names = list(arms)
    print(f"{len(cores)} cores, batch {options.batch}, {options.rounds} rounds of {options.seconds:g} s each; "
          "microseconds of a training step (mean)\n")
    ratios = [f"team / best"] + (["before / team"] if options.before else [])
    ratios += ["OpenMP / team"] if options.openmp else []
    print("| net | busy loops |", " | ".join(names + ratios), "|")
    print("|" + "---|" * (2 + len(names) + len(ratios)))
    for net in options.nets:
        for count in sorted({0, 1, len(cores)}):
            loops = busy_loops(cores[:count])
            try:
                for name in names:
                    arms[name].microseconds(net, options.batch, options.seconds)  # warm
                rounds = []
                for number in range(options.rounds):
                    order = names if number % 2 == 0 else names[::-1]
                    rounds.append({name: arms[name].microseconds(net, options.batch, options.seconds)
                                   for name in order})
            finally:
                for loop in loops:
                    loop.kill()
                    loop.wait()
            cells = [f"{statistics.mean(r[name] for r in rounds):.0f}" for name in names]
            # The best of the fixed choices over all rounds, so that luck in one of them does not count as a choice.
            best = min(["team", "one thread"], key=lambda name: statistics.mean(r[name] for r in rounds))
            cells.append(f"{statistics.median(r[best] / r['team'] for r in rounds):.2f}")
            if options.before:
                cells.append(f"{statistics.median(r['team before'] / r['team'] for r in rounds):.2f}")
            if options.openmp:
                cells.append(f"{statistics.median(r['team on OpenMP'] / r['team'] for r in rounds):.2f}")
            print("|", net, "|", count, "|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
