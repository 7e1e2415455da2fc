#!/usr/bin/env python3
"""Seeded faults: does the suite find small mistakes?

    tests/mutation/mutate.py OUT [--jobs 2] [--only WORD ...] [--cmake=-DNAME=VALUE ...] [--report FILE]
    tests/mutation/mutate.py OUT --check

Copies the sources to OUT/source, writes the faults of faults.txt (of files that --only names) into them behind a question for TERN_FAULT, builds
the tests once, and runs for each fault the tests of its section until one fails. Prints the survivors, and a table
with --report. A fault whose place is not found, or not exactly once, ends the run before anything is built.

A section of faults.txt begins with "@ file | tests": the tests in the order of running, as in TESTS below. A fault is
a line "original => mutated", with "anchor >>> " in front where the original is not the only one in the file: then the
first one behind the anchor, which must be the only one, is meant. What ends with ";" is a statement, the rest an
expression. A line that begins with "#" is a remark.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 600  # seconds of one test; what runs longer is found too, as a hang


def command(test):
    """The program, its arguments and its environment for a name of a test."""
    program, *rest = test.split(":")
    if program == "catalogue":  # catalogue:mode[:operator or family]
        environment = {"TERN_TEST_OPERATOR": rest[1]} if len(rest) > 1 else {}
        return "tern_test_operators", [f"[catalogue][{rest[0]}]", "--abort"], environment
    return f"tern_test_{program}", [rest[0] if rest else "~[cuda]~[mode]", "--abort"], {}


class Fault:
    def __init__(self, number, file, tests, line):
        self.number, self.file, self.tests, self.line = number, file, tests, line
        change = line
        self.anchor = None
        if " >>> " in line:
            self.anchor, change = line.split(" >>> ", 1)
        self.original, self.mutated = change.split(" => ", 1)
        self.outcome = ""

    def place(self, text):
        """Where the original stands in the file's text."""
        begin = 0
        if self.anchor is not None:
            if text.count(self.anchor) != 1:
                sys.exit(f"{self.file}: {text.count(self.anchor)} places for the anchor {self.anchor!r}")
            begin = text.index(self.anchor)
        elif text.count(self.original) != 1:
            sys.exit(f"{self.file}: {text.count(self.original)} places for {self.original!r}")
        if self.original not in text[begin:]:
            sys.exit(f"{self.file}: no {self.original!r} behind the anchor")
        return text.index(self.original, begin)

    def code(self):
        asked = f"tern_fault == {self.number}"
        if self.original.endswith(";"):
            return f"{{ if ({asked}) {{ {self.mutated} }} else {{ {self.original} }} }}"
        return f"({asked} ? ({self.mutated}) : ({self.original}))"


def read_faults():
    faults, file, tests = [], None, []
    for line in (pathlib.Path(__file__).parent / "faults.txt").read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("@ "):
            file, tests = (part.strip() for part in line[2:].split("|"))
            tests = tests.split()
        else:
            faults.append(Fault(len(faults) + 1, file, tests, line))
    return faults


def write_sources(faults, source):
    """A copy of the tree with all faults in it; only files that differ are written, so that builds stay short."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    texts = {}
    for fault in faults:
        texts.setdefault(fault.file, (ROOT / fault.file).read_text())
    places = {}
    for fault in faults:
        places.setdefault(fault.file, []).append((fault.place(texts[fault.file]), fault))
    for file, changes in places.items():
        changes.sort(key=lambda change: change[0], reverse=True)
        text = texts[file]
        end = len(text)
        for begin, fault in changes:
            if begin + len(fault.original) > end:
                sys.exit(f"{file}: two faults overlap at {fault.original!r}")
            text = text[:begin] + fault.code() + text[begin + len(fault.original):]
            end = begin
        texts[file] = '#include "tern_fault.hpp"\n' + text
    texts["src/core/tern_fault.cpp"] = ('#include "tern_fault.hpp"\n\n#include <cstdlib>\n\nconst int tern_fault = '
                                        '[] {\n  const char* text = std::getenv("TERN_FAULT");\n'
                                        "  return text == nullptr ? 0 : std::atoi(text);\n}();\n")
    texts["src/tern_fault.hpp"] = ("#pragma once\n/// The fault that is alive, 0 for none.\n"
                                   "extern const int tern_fault;\n")
    for name in listed.decode().split("\0"):
        if name and name not in texts and (ROOT / name).is_file():
            update(source / name, (ROOT / name).read_bytes())
    for name, text in texts.items():
        update(source / name, text.encode())


def update(path, content):
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if path.suffix in (".sh", ".py"):
        path.chmod(0o755)


def build(source, programs, options):
    folder = source / "build"
    subprocess.run(["cmake", "-S", source, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DTERN_CUDA=OFF", "-DTERN_BUILD_EXAMPLES=OFF", *options.cmake], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, f"-j{options.jobs}", *programs], check=True)
    return folder / "tests"


def run(tests, name, fault):
    """"passed", "failed" or "hung"."""
    program, arguments, environment = command(name)
    try:
        done = subprocess.run(["nice", "-n", "15", tests / program, *arguments], cwd=tests, timeout=TIMEOUT,
                              env={**os.environ, **environment, "TERN_FAULT": str(fault)},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "hung"
    return "passed" if done.returncode == 0 else "failed"


def report(faults, path):
    found = [fault for fault in faults if fault.outcome not in ("", "survived")]
    ran = [fault for fault in faults if fault.outcome]
    with open(path, "w") as file:
        print(f"{len(ran)} faults ran, {len(found)} were found.\n", file=file)
        print("| fault | file | change | found by |\n|---|---|---|---|", file=file)
        for fault in ran:
            change = fault.line.replace("|", "\\|")
            print(f"| {fault.number} | {fault.file} | `{change}` | {fault.outcome} |", file=file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[], help="faults whose file contains one of these")
    parser.add_argument("--cmake", action="append", default=[])
    parser.add_argument("--check", action="store_true", help="only whether every fault has its place")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()

    faults = read_faults()
    if options.check:
        for fault in faults:
            fault.place((ROOT / fault.file).read_text())
        print(len(faults), "faults, each with its place")
        return
    source = options.out.resolve() / "source"
    chosen = [fault for fault in faults
              if not options.only or any(word in fault.file for word in options.only)]
    write_sources(chosen, source)
    programs = sorted({command(test)[0] for fault in chosen for test in fault.tests})
    tests = build(source, programs, options)

    for name in sorted({test for fault in chosen for test in fault.tests}):
        if (outcome := run(tests, name, 0)) != "passed":
            sys.exit(f"{name} {outcome} without a fault")
    for fault in chosen:
        begin = time.monotonic()
        fault.outcome = "survived"
        for name in fault.tests:
            outcome = run(tests, name, fault.number)
            if outcome != "passed":
                fault.outcome = name + (" (hung)" if outcome == "hung" else "")
                break
        print(f"{fault.number:4} {time.monotonic() - begin:6.1f} s  {fault.outcome:40} {fault.file}: {fault.line}",
              flush=True)
        if options.report:
            report(faults, options.report)
    survivors = sum(fault.outcome == "survived" for fault in chosen)
    print(f"{len(chosen)} faults, {len(chosen) - survivors} found, {survivors} survived")


if __name__ == "__main__":
    main()
