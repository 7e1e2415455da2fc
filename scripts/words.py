#!/usr/bin/env python3
"""Finds words that Tern once used where the field has a standard term, so that they do not come back.

CHANGELOG.md has a table of the old and the new names. It is the only file that may use them.

usage: words.py [--root FOLDER]     (0: none found; 1: some found, each with file, line and the standard term)
"""

import argparse
import pathlib
import re
import subprocess
import sys

ALLOWED = {"CHANGELOG.md", "scripts/words.py", "tests/floors/words_test.py"}
SOURCES = {".cpp", ".cu", ".cuh", ".hpp", ".html", ".js", ".css", ".md", ".py", ".sh", ".cmake", ".txt", ".in", ".csv",
           ""}
WORDS = [  # what may not occur, and what to write instead
    (r"TERN_WAY|ForcedWay|\w*forced_ways?\w*|took_way|kernels::Ways", "algorithm"),
    (r"\b(?:way|ways) of (?:convolving|multiplying|a (?:kernel|product|convolution))\b", "algorithm"),
    (r"\blenders?\b", "fallback"),
    (r"\bcarriers?\b|CarrierPlugin|tern_carrier", "transport"),
    (r"\bfew_rows\b", "gemv"),
    (r"\b(?:conv2d|matmul|linear)\w*:(?:patches|tiles|turned|finished)\b",
     "im2col, winograd, transposed or flipped, fused_epilogue"),
    (r"\bturned (?:weight|kernel|matrix|factor|product)s?\b", "transposed or flipped"),
    (r"\bfold(?:s|ed|ing)? (?:a|the|its) strides?\b", "space-to-depth"),
    (r"\bdecided from\b", "cache key"),
    (r"\bby chance\b", "at random, augmented"),
    (r"\btold\b", "reported, set"),
    (r"\basked\b", "requested"),
    (r"\b[Ww]hoever\b|\bfor who\b|\bof one's own\b", "plain English"),
]


def findings(root):
    """(file, line number, match, standard term) of every word in the tracked files."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    names = listed.stdout.splitlines() or sorted(str(file.relative_to(root)) for file in root.rglob("*"))
    for name in names:
        file = root / name
        if name in ALLOWED or file.suffix not in SOURCES or not file.is_file():
            continue
        if file.suffix == ".html" and name.startswith("docs/"):  # reports of earlier runs
            continue
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
            for pattern, term in WORDS:
                for match in re.finditer(pattern, line):
                    yield name, number, match[0], term


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    found = list(findings(parser.parse_args().root))
    for name, number, word, term in found:
        print(f"words.py: {name}:{number}: \"{word}\"; the standard term: {term}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
