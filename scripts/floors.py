#!/usr/bin/env python3
"""Checks that every folder of the library includes only the floors beneath it, and draws them.

A file may include files of its own floor or of a lower one. The modes are beside the tower: each includes only the
contracts, and nothing includes a mode's files. Since every include points down, there are no cycles. Only the
registry names a mode. The parts of the program tern have no cycles either.

usage: floors.py [--root FOLDER] [--picture]     (0: all arrows go down; 1: some do not, each named)
"""

import argparse
import pathlib
import re
import sys

FLOORS = ["core", "memory", "kernels", "modes", "tensor", "io", "autograd", "operators", "run", "nn", "graph", "onnx",
          "optim", "data", "parallel", "training", "models"]
MODES = ["sequential", "vectorized", "cuda", "debug"]
SEEN_BY_MODES = ["core", "memory", "kernels", "modes"]
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]((?:tern/)?([a-z_]+)/[\w./]+|tern/tern\.hpp)[">]')
NAMES_MODES = ["src/modes/modes.cpp"]  # the registry
NAMED = re.compile(r'"(sequential|vectorized|cuda|debug)"')
SOURCES = {".hpp", ".cpp", ".cu", ".cuh"}


def arrows(root):
    """(file, line number, floor of the file, floor that it includes) of every include between floors."""
    for top in ("include/tern", "src"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES or len(file.relative_to(root / top).parts) < 2:
                continue
            own = file.relative_to(root / top).parts[0]
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                seen = "everything" if match[1] == "tern/tern.hpp" else match[2]
                if seen in FLOORS + MODES + ["everything"]:
                    yield file.relative_to(root), number, own, seen


def names(root):
    """(file, line number, mode) wherever the code of a floor names a mode."""
    for top in ("include/tern", "src"):
        for file in sorted((root / top).rglob("*")):
            place = file.relative_to(root)
            a_mode = file.relative_to(root / top).parts[0] in MODES
            if file.suffix not in SOURCES or a_mode or str(place) in NAMES_MODES:
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                for match in NAMED.finditer(line.split("//")[0]):
                    yield place, number, match[1]


def circle(root):
    """Parts of the program tern (a part is a source with its header) that include each other in a circle; or none."""
    parts = {}
    for file in sorted((root / "tools/tern").glob("*.[hc]pp")):
        seen = re.findall(r'^\s*#\s*include\s*"(\w+)\.hpp"', file.read_text(), re.MULTILINE)
        parts.setdefault(file.stem, set()).update(part for part in seen if part != file.stem)
    left = dict(parts)
    while done := [part for part in left if not left[part] & left.keys()]:
        for part in done:
            del left[part]
    if not left:
        return []
    path = [min(left)]
    while path.count(path[-1]) == 1:
        path.append(min(left[path[-1]] & left.keys()))
    return path[path.index(path[-1]):]


def problem(own, seen):
    """What is wrong with an include; None if it is allowed."""
    if own in MODES:
        if seen != own and seen not in SEEN_BY_MODES:
            return f"a mode sees only {', '.join(SEEN_BY_MODES)}"
        return None
    if own not in FLOORS:
        return f"{own} is no floor: name it in scripts/floors.py"
    if seen in MODES:
        return "nobody sees into a mode"
    if seen == "everything" or FLOORS.index(seen) > FLOORS.index(own):
        return f"{seen} stands above {own}"
    return None


def picture(found):
    """Every floor, highest first, and those that it includes; modes that see the same share a line."""
    seen = {}
    for _, _, own, other in found:
        if own != other:
            seen.setdefault(own, set()).add(other)
    width = max(map(len, FLOORS + MODES))
    lines = []
    below = {floor: " ".join(each for each in FLOORS if each in seen.get(floor, ())) for floor in FLOORS + MODES}
    for floor in reversed(FLOORS):
        lines.append(f"{floor:<{width}}  sees" + ("  " + below[floor] if below[floor] else " nothing"))
    for view in dict.fromkeys(below[mode] for mode in MODES):
        modes = [mode for mode in MODES if below[mode] == view]
        lines.append(f"{', '.join(modes):<{width}}  {'sees' if len(modes) == 1 else 'see'}  {view}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--picture", action="store_true", help="print who sees whom")
    options = parser.parse_args()
    found = list(arrows(options.root))
    if not found:
        sys.exit(f"floors: no sources under {options.root}")
    wrong = [(file, number, own, seen, problem(own, seen)) for file, number, own, seen in found if problem(own, seen)]
    for file, number, own, seen, what in wrong:
        print(f"{file}:{number}: {own} includes {seen}: {what}")
    named = list(names(options.root))
    for file, number, mode in named:
        print(f'{file}:{number}: names the mode "{mode}", which only its folder and the registry may')
    around = circle(options.root)
    if around:
        print(f"tools/tern: {' includes '.join(around)}")
    if options.picture:
        print(picture(found))
    if wrong or named or around:
        sys.exit(1)


if __name__ == "__main__":
    main()
