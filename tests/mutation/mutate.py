#!/usr/bin/env python3
"""Seeded faults: does the suite find small mistakes?

    tests/mutation/mutate.py OUT [--jobs 2] [--seconds N] [--only WORD ...] [--cmake=-DNAME=VALUE ...] [--report FILE]
    tests/mutation/mutate.py OUT --check

Copies the sources to OUT/source, writes the faults of faults*.txt into them behind a question for TERN_FAULT, builds
the tests once, and runs for each fault the tests of its section until one fails; what survives these meets the whole
suite. Outcomes are kept in OUT/outcomes.json, which the next run goes on from: --seconds ends a run in time, and a
fault whose line or tests changed, or that --again names by a word of its line, runs anew (--again survived: all
survivors). Prints the survivors, and writes a page with --report. A fault whose place is not found, or not exactly
once, is left out and named.

--only compiles the faults of some files alone: where no header changes, a compiler's cache serves the rest. A fault
has the same number however many stand before it, so that a new one compiles its own file alone. Put TMPDIR into
memory (/dev/shm): checkpoints wait for the disk.

A section of faults*.txt begins with "@ file | tests": the tests in the order of running, as in command() below. A
fault is a line "original => mutated", with "anchor >>> " in front where the original is not the only one in the file:
then the first one behind the anchor, which must be the only one, is meant. What ends with ";" is a statement, the rest
an expression. "= reason" behind a fault says why it changes nothing that a test could see; it is not counted. A line
that begins with "#" is a remark.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = ["CMakeLists.txt", "README.md", "benchmarks", "cmake", "docs", "examples", "include", "scripts", "src",
          "tests", "tools"]
FOLDERS = ["core", "autograd", "device", "nn", "optim", "data", "parallel", "io", "models", "docs", "golden",
           "training"]
SUITE = [*FOLDERS, "operators", "catalogue:sequential", "catalogue:vectorized", "simd:AVX2", "simd:baseline",
         "teams", "operators:[mode][algorithms]", "environment:algorithms", "card", "tools"]
THREADS = 2  # per test, as on the machines that the suite is made for
LEAST_TIME = 60  # seconds that a test may always take; a longer run counts as a hang


def command(test):
    """The program, its arguments and its environment for a test name."""
    program, *rest = test.split(":", 1)
    if program == "catalogue":  # catalogue:mode[:operator or family]
        mode, *operator = rest[0].split(":")
        return ("tern_test_operators", [f"[catalogue][{mode}]"],
                {"TERN_TEST_OPERATOR": operator[0]} if operator else {})
    if program == "simd":
        return "tern_test_operators", ["[mode][vectorized]"], {"TERN_SIMD": rest[0]}
    if program == "teams":
        return ("tern_test_operators", ["catalogue: vectorized"],
                {"TERN_TEAMS": "always", "TERN_TEST_CHECK": "threads"})
    if program == "environment":
        return ("tern_test_device", ["[environment-algorithms]"],
                {"TERN_ALGORITHM": "vectorized.conv2d:rows,matmul:transposed"})
    if program == "tools":
        return "tools/tern_test_tools", rest, {}
    return f"tern_test_{program}", rest or ["~[cuda]~[mode]~[.]"], {}


class Fault:
    def __init__(self, file, tests, line):
        self.file, self.tests, self.line = file, tests, line
        self.number = zlib.crc32(f"{file} | {line}".encode()) >> 1  # an int's
        self.area = file.split("/")[1]
        self.anchor, change = line.split(" >>> ", 1) if " >>> " in line else (None, line)
        self.original, self.mutated = change.split(" => ", 1)
        self.equivalent = ""  # why, where it is
        self.lost = False  # has no place
        self.outcome = ""  # the test that found it, or "survived"

    def key(self):
        return " | ".join([self.file, *self.tests, self.line])

    def place(self, text):
        """Where the original stands in the file's text. Throws ValueError."""
        begin = 0
        if self.anchor is not None:
            if text.count(self.anchor) != 1:
                raise ValueError(f"{self.file}: {text.count(self.anchor)} places for the anchor {self.anchor!r}")
            begin = text.index(self.anchor)
        elif text.count(self.original) != 1:
            raise ValueError(f"{self.file}: {text.count(self.original)} places for {self.original!r}")
        if self.original not in text[begin:]:
            raise ValueError(f"{self.file}: no {self.original!r} behind the anchor")
        return text.index(self.original, begin)

    def code(self):
        alive = f"tern_fault == {self.number}"
        if self.original.endswith(";"):
            return f"{{ if ({alive}) {{ {self.mutated} }} else {{ {self.original} }} }}"
        return f"({alive} ? ({self.mutated}) : ({self.original}))"


def read_faults():
    faults, file, tests = [], None, []
    files = sorted(pathlib.Path(__file__).parent.glob("faults*.txt"))
    for line in [line for path in files for line in path.read_text().splitlines()]:
        if line.startswith("@ "):
            file, tests = (part.strip() for part in line[2:].split("|"))
            tests = tests.split()
        elif line.startswith("= "):
            faults[-1].equivalent = line[2:]
        elif line.strip() and not line.startswith("#"):
            faults.append(Fault(file, tests, line))
    return faults


def mutated_files(faults):
    """The text of every file with faults in it, and what is wrong with faults that are left out."""
    texts, places, wrong = {}, {}, []
    for fault in faults:
        text = texts.setdefault(fault.file, (ROOT / fault.file).read_text())
        try:
            places.setdefault(fault.file, []).append((fault.place(text), fault))
        except ValueError as error:
            fault.lost = True
            wrong.append(str(error))
    for file, changes in places.items():
        changes.sort(key=lambda change: change[0], reverse=True)
        text, end = texts[file], len(texts[file])
        for begin, fault in changes:
            if begin + len(fault.original) > end:
                fault.lost = True
                wrong.append(f"{file}: two faults overlap at {fault.original!r}")
                continue
            text = text[:begin] + fault.code() + text[begin + len(fault.original):]
            end = begin
        texts[file] = '#include "tern_fault.hpp"\n' + text
    return texts, wrong


def write_sources(faults, source):
    """A copy of the tree with all faults in it; only files that differ are written, so that builds stay short."""
    texts, _ = mutated_files(faults)
    texts["src/core/tern_fault.cpp"] = ('#include "tern_fault.hpp"\n\n#include <cstdlib>\n\nconst int tern_fault = '
                                        '[] {\n  const char* text = std::getenv("TERN_FAULT");\n'
                                        "  return text == nullptr ? 0 : std::atoi(text);\n}();\n")
    texts["include/tern_fault.hpp"] = ("#pragma once\n/// The fault that is alive, 0 for none.\n"
                                   "extern const int tern_fault;\n")
    for place in PLACES:
        for path in [ROOT / place, *(ROOT / place).rglob("*")]:
            name = str(path.relative_to(ROOT))
            if name not in texts and path.is_file():
                update(source / name, path.read_bytes(), path.stat().st_mode)
    for name, text in texts.items():
        update(source / name, text.encode())


def update(path, content, mode=0o644):
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    path.chmod(mode)


def build(source, programs, options):
    folder = source / "build"
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DTERN_CUDA=OFF", "-DTERN_BUILD_EXAMPLES=OFF", "-DTERN_BUILD_BENCHMARKS=OFF", *options.cmake],
                   check=True, stdout=subprocess.DEVNULL)
    targets = [pathlib.Path(program).name for program in programs]
    subprocess.run(["ninja", "-C", folder, f"-j{options.jobs}", *targets], check=True)
    return folder / "tests"


class Runner:
    """Runs tests with a fault alive, until the time is up."""

    def __init__(self, tests, seconds):
        self.tests, self.seconds, self.usual, self.lock = tests, seconds, {}, threading.Lock()
        self.begin = time.monotonic()

    def left(self):
        return self.seconds - (time.monotonic() - self.begin) if self.seconds else 1e9

    def run(self, name, fault):
        """"passed", "failed", "hung", or "" when the time was up before."""
        program, arguments, environment = command(name)
        allowed = max(LEAST_TIME, 10 * self.usual[name]) if name in self.usual else 1e9
        begin = time.monotonic()
        try:
            done = subprocess.run(["nice", "-n", "15", self.tests / program, *arguments, "--abort"],
                                  cwd=(self.tests / program).parent, timeout=max(0.1, min(allowed, self.left())),
                                  env={**os.environ, "OMP_NUM_THREADS": str(THREADS), **environment,
                                       "TERN_FAULT": str(fault)},
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "" if self.left() < allowed - (time.monotonic() - begin) + 1 else "hung"
        with self.lock:
            if fault == 0:
                self.usual[name] = time.monotonic() - begin
        return "passed" if done.returncode == 0 else "failed"

    def meet(self, fault, names):
        """The first of the tests that finds the fault, "survived", or "" when the time was up before."""
        for name in names:
            outcome = self.run(name, fault.number)
            if outcome == "":
                return ""
            if outcome != "passed":
                return name + (" (hung)" if outcome == "hung" else "")
        return "survived"


def report(faults, path):
    counted = [fault for fault in faults if not fault.equivalent]
    ran = [fault for fault in counted if fault.outcome]
    survivors = [fault for fault in ran if fault.outcome == "survived"]
    lines = [f"{len(counted)} faults, {len(ran)} ran, {len(ran) - len(survivors)} were found "
             f"({100 * (len(ran) - len(survivors)) / max(1, len(ran)):.1f} %).", "",
             "| area | faults | found |", "|---|---|---|"]
    for area in sorted({fault.area for fault in ran}):
        own = [fault for fault in ran if fault.area == area]
        lines.append(f"| {area} | {len(own)} | {sum(fault.outcome != 'survived' for fault in own)} |")

    def table(title, some, column, text):
        if some:
            lines.extend(["", title, "", f"| file | change | {column} |", "|---|---|---|"])
            lines.extend("| {} | `{}` | {} |".format(fault.file, fault.line.replace("|", "\\|"), text(fault))
                         for fault in some)
    table("Survivors:", survivors, "", lambda fault: "")
    table("Changes that no test could see, not counted:", [fault for fault in faults if fault.equivalent], "why",
          lambda fault: fault.equivalent)
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0, help="ends the run in time")
    parser.add_argument("--only", nargs="+", default=[], help="faults whose file contains one of these")
    parser.add_argument("--again", nargs="+", default=[], help="runs these anew, by a word of the line or the outcome")
    parser.add_argument("--near", action="store_true", help="the tests of the section alone")
    parser.add_argument("--cmake", action="append", default=[])
    parser.add_argument("--check", action="store_true", help="only whether every fault has its place")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()

    faults = read_faults()
    wrong = mutated_files(faults)[1]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if options.check:
        print(f"{len(faults) - len(wrong)} of {len(faults)} faults have their place")
        sys.exit(bool(wrong))
    faults = [fault for fault in faults if not fault.lost
              and (not options.only or any(word in fault.file for word in options.only))]
    begin = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    kept = options.out / "outcomes.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    for fault in faults:
        fault.outcome = known.get(fault.key(), "")
        if any(word in fault.outcome or word in fault.line for word in options.again):
            fault.outcome = ""
    waiting = [fault for fault in faults if not fault.outcome and not fault.equivalent]
    write_sources(faults, options.out.resolve() / "source")
    suite = [] if options.near else SUITE
    names = sorted({test for fault in waiting for test in fault.tests}.union(suite))
    tests = build(options.out.resolve() / "source", sorted({command(name)[0] for name in names}), options)

    runner = Runner(tests, options.seconds and options.seconds - (time.monotonic() - begin))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # A test that fails by itself finds nothing.
        broken = [name for name, outcome in zip(names, pool.map(lambda name: runner.run(name, 0), names))
                  if outcome != "passed"]
        print(f"built, and {len(names) - len(broken)} tests passed without a fault, after "
              f"{time.monotonic() - begin:.0f} s", flush=True)
        for name in broken:
            print("left out, it fails without a fault:", name, flush=True)

        def try_out(fault):
            outcome = runner.meet(fault, [name for name in [*fault.tests, *(name for name in suite
                                                                            if name not in fault.tests)]
                                          if name not in broken])
            with runner.lock:
                fault.outcome = outcome
                known.update({fault.key(): outcome})
                kept.write_text(json.dumps({key: value for key, value in known.items() if value}, indent=1))
                if outcome:
                    print(f"{outcome:40} {fault.file}: {fault.line}", flush=True)
        list(pool.map(try_out, waiting))
    if options.report:
        report(faults, options.report)
    ran = [fault for fault in faults if fault.outcome]
    print(f"{sum(not fault.equivalent for fault in faults)} faults, {len(ran)} ran, "
          f"{sum(fault.outcome == 'survived' for fault in ran)} survived")


if __name__ == "__main__":
    main()
