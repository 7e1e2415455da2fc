#!/usr/bin/env python3
"""Runs the program of a page and compares its output with the page's ```text blocks, concatenated.

There "..." stands for anything on a line, and alone on its line for any number of lines.

usage: book.py PAGE PROGRAM FOLDER      (the folder is emptied, and the program runs in it; 1: the page says otherwise)
"""

import difflib
import pathlib
import re
import shutil
import subprocess
import sys


def expected(page):
    """What the page shows."""
    return "".join(re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.M | re.S))


def pattern(text):
    """The regular expression of texts that look like `text`."""
    lines = []
    for line in text.splitlines():
        rest = ".*".join(re.escape(part) for part in line.split("..."))
        lines.append(r"(?:.*\n)*?" if line == "..." else rest + r"\n")
    return "".join(lines)


def main():
    page, program, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run = subprocess.run([program.resolve()], cwd=folder, capture_output=True, text=True, check=False)
    shown = expected(page)
    if run.returncode != 0:
        print(run.stdout + run.stderr + f"{program} ended with {run.returncode}")
        return 1
    if not re.fullmatch(pattern(shown), run.stdout):
        difference = difflib.unified_diff(shown.splitlines(), run.stdout.splitlines(), page.name, "the program",
                                          lineterm="")
        print(*difference, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
