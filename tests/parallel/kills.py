#!/usr/bin/env python3
"""Kills and stops random ranks of trainings, and checks that each ends in time, says why, leaves no
process behind, and resumes, with another number of ranks, to the bits of the undisturbed training.

    tests/parallel/kills.py build/tools/tern --runs 200 --seed 1
    TERN_TEST_KILLS=250 tests/parallel/kills.py build/tools/tern --transport threads --kill-only

The ranks are processes under mpirun, or with --transport threads the threads of one process, which end together.
Every second training runs with --restarts and must end by itself.
"""

import argparse
import collections
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

MOST = 30  # seconds within which a disturbed training has to end
CAUSES = [
    ("mpirun", re.compile(r"process rank (\d+) .*on node (\S+) exited on signal 9|exited on signal 9")),
    ("tern", re.compile(r"killed by signal 9\); it starts again")),
    ("a rank", re.compile(r"tern: .*(rank \d+ \(\S+\) did not|the ranks did not|ranks did not end)")),
]


def training(run, options):
    return ["train", "--dataset", "points.csv", "--layers", "3,32,32,3", "--dropout", "0.2", "--optimizer", "adam",
            "--mode", options.mode, "--batch-size", "16", "--shards", "4", "--epochs", str(options.epochs),
            "--schedule", "constant", "--checkpoint-every", "20", "--run", run, "--parallel", options.transport,
            "--rank-limit", str(options.limit), "--threads", "1"]


def points(folder):
    draw = random.Random(7)
    with open(folder / "points.csv", "w") as file:
        for i in range(240):
            centre = i % 3
            file.write(",".join(f"{draw.gauss(centre == axis, 0.7):.4f}" for axis in range(3)) + f",c{centre}\n")


def processes_of(folder):
    """Process numbers of what runs in the folder, with their ranks; -1 is mpirun, None what else there is."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            if os.readlink(f"/proc/{entry}/cwd") != str(folder):
                continue
            with open(f"/proc/{entry}/stat") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    continue
            with open(f"/proc/{entry}/environ", "rb") as environment:
                words = dict(word.split(b"=", 1) for word in environment.read().split(b"\0") if b"=" in word)
            with open(f"/proc/{entry}/cmdline", "rb") as line:
                program = pathlib.Path(os.fsdecode(line.read().split(b"\0")[0])).name
            rank = int(words[b"OMPI_COMM_WORLD_RANK"]) if b"OMPI_COMM_WORLD_RANK" in words else None
            found[int(entry)] = -1 if program == "mpirun" and rank is None else rank if program == "tern" else None
        except (OSError, ValueError):
            pass
    return found


class Stress:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.counts, self.longest, self.failures = collections.Counter(), 0.0, []
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def words(self, run, ranks, restarts=False):
        """What starts a training of so many ranks."""
        words = [self.options.tern] + training(run, self.options)
        if self.options.transport == "threads":
            return words + ["--ranks", str(ranks)] + (["--restarts", "2"] if restarts else [])
        if restarts:
            return words + ["--restarts", "2", "--launcher", " ".join(self.mpirun(ranks))]
        return self.mpirun(ranks) + words

    def victim(self, process, wanted, restarts):
        """The process of a rank, -1 for mpirun; None where it has not started yet."""
        found = processes_of(self.folder)
        if self.options.transport == "threads":
            return next((pid for pid in sorted(found, reverse=True) if (pid != process.pid) == restarts), None)
        return next((pid for pid, rank in found.items() if rank == wanted), None)

    def mpirun(self, ranks):
        return [self.options.mpirun, "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]

    def start(self, words):
        return subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace")

    def whole(self, run, ranks):
        """The undisturbed training, and how long it takes."""
        began = time.monotonic()
        process = self.start(self.words(run, ranks))
        text, _ = process.communicate()
        if process.returncode != 0:
            sys.exit(f"the undisturbed training failed:\n{text}")
        return (self.folder / run / "model.safetensors").read_bytes(), time.monotonic() - began

    def epochs_done(self, run):
        try:
            return (self.folder / run / "metrics.jsonl").read_text().count('"event":"epoch"')
        except OSError:
            return 0

    def await_moment(self, process, run, draw):
        """While all start, after some epoch, or when the last one is done."""
        epochs = draw.randint(0, self.options.epochs)
        while process.poll() is None and self.epochs_done(run) < epochs:
            time.sleep(0.005)
        time.sleep(draw.random() * (1 if epochs == 0 else 0.1))

    def disturb(self, number, draw, reference, usual):
        run, ranks, again = f"r{number}", draw.randint(2, self.options.ranks), draw.randint(1, self.options.ranks)
        what, restarts = draw.choice([signal.SIGKILL, signal.SIGSTOP]), number % 2 == 1
        wanted = -1 if draw.random() < 0.1 else draw.randrange(ranks)
        if wanted == -1 or self.options.kill_only or self.options.transport == "threads":
            what = signal.SIGKILL  # nobody looks after an mpirun that is stopped, nor after a single process
        began = time.monotonic()
        process = self.start(self.words(run, ranks, restarts))
        self.await_moment(process, run, draw)
        victim = None
        while process.poll() is None and victim is None:
            victim = self.victim(process, wanted, restarts)
        struck = time.monotonic()
        try:
            if victim is not None:
                os.kill(victim, what)
        except ProcessLookupError:
            victim = None
        most = MOST + (4 * usual[ranks] if restarts else 0)
        try:
            text, _ = process.communicate(timeout=most)
        except subprocess.TimeoutExpired:
            if what == signal.SIGSTOP and self.saved(run) and self.goes_on(process, victim):
                self.counts["SIGSTOP: after the last word of a rank, with all saved; mpirun waits for it"] += 1
                return self.compare(number, "SIGSTOP", run, reference, "")
            self.clear()
            text, _ = process.communicate()
            return self.fail(number, f"{what.name} of rank {wanted} of {ranks}: no end within {most:.0f} s", text)
        took = time.monotonic() - struck
        left = self.clear(patience=self.options.limit + 5)
        label = f"{what.name}{', restarts' if restarts else ''}"
        named = [name for name, cause in CAUSES if cause.search(text)]
        hit = victim is not None and (process.returncode != 0 or bool(named) or "starts again" in text)
        if process.returncode == -signal.SIGKILL and self.options.transport == "threads":
            named = named or ["its exit code"]
        if wanted == -1 and self.options.transport == "mpi":
            label += " of mpirun"
            named = named or ["its exit code"]  # the words of its ranks go with it
        if left:
            self.fail(number, f"{label}: {left} processes were left", text)
        if not hit:
            self.counts[f"{label}: over before the signal came"] += 1
        elif not named:
            self.fail(number, f"{label} of rank {wanted} of {ranks}: nobody says why", text)
        else:
            self.counts[f"{label}: ended, the cause named by {named[0]}"] += 1
            if not restarts:
                self.longest = max(self.longest, took)
        if restarts and process.returncode != 0:
            return self.fail(number, f"{label}: exit code {process.returncode} after restarts", text)
        if not restarts and process.returncode != 0:
            process = self.start(self.words(run, again) + ["--resume"])
            text, _ = process.communicate(timeout=120)
            if process.returncode != 0:
                return self.fail(number, f"{label}: exit code {process.returncode} when it went on", text)
        self.compare(number, label, run, reference, text)
        if self.options.verbose:
            print(number, label, ranks, f"rank {wanted}", f"{took:.1f} s", named, f"{time.monotonic() - began:.1f} s",
                  flush=True)

    def saved(self, run):
        return '"event":"end"' in (self.folder / run / "metrics.jsonl").read_text()

    @staticmethod
    def goes_on(process, victim):
        """Whether a stopped rank that is let go was all that was waited for; it may find that its time is over."""
        os.kill(victim, signal.SIGCONT)
        try:
            process.communicate(timeout=MOST)
        except subprocess.TimeoutExpired:
            return False
        return process.returncode in (0, 5)

    def compare(self, number, label, run, reference, text):
        if (self.folder / run / "model.safetensors").read_bytes() != reference:
            return self.fail(number, f"{label}: other bits than the undisturbed training", text)
        self.counts["the bits of the undisturbed training"] += 1

    def clear(self, patience=0.0):
        """Ends what is left; how many there were. Ranks whose mpirun was killed end by themselves, a moment later."""
        over = time.monotonic() + patience
        while (left := processes_of(self.folder)) and time.monotonic() < over:
            time.sleep(0.05)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(left)

    def fail(self, number, words, text):
        self.failures.append(words)
        print(f"run {number}: {words}\n{text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tern")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--runs", type=int, default=int(os.environ.get("TERN_TEST_KILLS", 4)))
    parser.add_argument("--transport", choices=["mpi", "threads"], default="mpi")
    parser.add_argument("--kill-only", action="store_true", help="stop none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=4, help="as many at most; in cuda no more than there are GPUs")
    parser.add_argument("--mode", default="vectorized")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--limit", type=int, default=15, help="seconds that a rank waits for another one")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.tern = str(pathlib.Path(options.tern).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        points(folder)
        stress = Stress(options, folder)
        usual = {}
        for ranks in range(2, options.ranks + 1):
            reference, usual[ranks] = stress.whole(f"whole{ranks}", ranks)
        draw = random.Random(options.seed)
        for number in range(options.runs):
            stress.disturb(number, draw, reference, usual)
    for words, count in sorted(stress.counts.items()):
        print(f"{count:5}  {words}")
    print(f"longest from the signal to the end: {stress.longest:.1f} s; undisturbed: {usual[2]:.1f} s; "
          f"{len(stress.failures)} of {options.runs} failed")
    return 1 if stress.failures else 0


if __name__ == "__main__":
    sys.exit(main())
