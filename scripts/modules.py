#!/usr/bin/env python3
"""Writes docs/book/modules-index.md: constructors, options and defaults of modules, optimisers, networks, data sets,
training and ranks. Everything comes from the headers.

usage: modules.py            writes the page
       modules.py --check    writes nothing (0: the page is current; 1: it is not)
"""

import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/book/modules-index.md"
FOLDERS = {"nn": "Layers and measures", "models": "Networks", "optim": "Optimisers and schedules", "data": "Data",
           "training": "Training", "graph": "Graphs", "parallel": "Ranks"}
INNER = {"Parameter", "Collective", "TransportPlugin", "Opening", "Piece", "Share", "Rows",
         "GraphError"}  # users do not make these
CLASS = re.compile(r"^(class|struct) (\w+)(?: final)?(?: : public ([\w:]+))? \{(.*?)^\};", re.M | re.S)

HEAD = """# Index of the modules

Made by `scripts/modules.py` from the headers: constructors, options and their defaults. [Operators](operators-index.md)
have an index of their own.

- A name alone is a `Tensor`; "int" is `std::int64_t`. Defaults stand behind `=`.
- Options are aggregates: `nn::Linear{3, 4, {.bias = false}}`.
- A one-element `Shape` is written `{width}`: `nn::LayerNorm{{width}}`.
"""


def shortened(text):
    """A declaration without const, references and the like."""
    text = re.sub(r"\bconst |&(?!&)|std::(?!function)|\bexplicit ", "", " ".join(text.split()))
    text = re.sub(r"\bint64_t\b", "int", text).replace(", Generator generator = default_generator()", "")
    text = re.sub(r"\(Generator generator = default_generator\(\)\)", "()", text)
    return re.sub(r"(?<=[(, ])Tensor (?=\w)", "", text).replace("|", r"\|")


def closing(text, begin):
    """The position of the parenthesis that closes the one at `begin`."""
    depth = 0
    for place in range(begin, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    raise ValueError(text[begin:begin + 80])


def constructors(name, body):
    """The public constructors of a class, as declared, without copy constructors."""
    public = re.split(r"^ (?:protected|private):", body, flags=re.M)[0]
    public = re.sub(r"//.*", "", public)
    found = []
    for match in re.finditer(rf"^  (?:explicit )?{name}\(", public, re.M):
        end = closing(public, match.end() - 1)
        arguments = public[match.end():end]
        if re.match(rf"\s*(const {name}&|{name}&&)", arguments) or re.match(r"\s*=\s*delete", public[end + 1:]):
            continue
        found.append(shortened(f"{name}({arguments})"))
    return found


def is_plain(name, body):
    """Whether a class has only the implicit default constructor."""
    return not re.search(rf"^  (?:explicit )?{name}\(", body, re.M)


def fields(body):
    """(declaration, remark) of each member of an aggregate."""
    found, remark = [], []
    for line in body.splitlines():
        line = line.strip()
        if line.startswith("///") and not line.startswith("///<"):
            remark.append(line[3:].strip())
            continue
        if re.match(r"[\w:<>, *()&]+ \w+( = .*|\{.*\})?(, \w+ = .*)*;", line) and "operator()" not in line and \
                not line.startswith("using "):
            declared, _, own = line.partition(";")
            own = re.sub(r"^\s*///?<?", "", own).strip()
            found.append([shortened(declared).replace(" = {}", ""), own or " ".join(remark)])
        elif line.startswith("///<") and found:
            found[-1][1] += " " + line[4:].strip()
        remark = []
    return found


def sentence(text, begin):
    """The comment in front of a class: its first sentences, up to an example or an empty line."""
    lines = []
    for line in reversed(text[:begin].rstrip("\n").splitlines()):
        if not line.startswith("///"):
            break
        lines.append(line[3:].strip())
    lines.reverse()
    if "" in lines:
        lines = lines[:lines.index("")]
    return " ".join(lines).rstrip(":").replace("|", r"\|")


def section(folder):
    classes, options = [], []
    for header in sorted((ROOT / "include/tern" / folder).glob("*.hpp")):
        text = header.read_text()
        for kind, name, base, body in CLASS.findall(text):
            if name in INNER or (folder == "nn" and name in ("Counters", "BatchNorm", "Parameter", "Module")):
                continue
            what = sentence(text, text.index(f"{kind} {name} ") if f"{kind} {name} " in text else 0)
            made = constructors(name, body) or ([f"{name}()"] if base and is_plain(name, body) else [])
            if made and not (kind == "struct" and name.endswith("Options")):
                classes.append((made, what))
            elif kind == "struct" and (name.endswith("Options") or name.endswith("Lr")):
                options.append((name, what, fields(body)))
    used = set(re.findall(r"\w+Options", " ".join(one for made, _ in classes for one in made)))
    for header in sorted((ROOT / "include/tern/operators").glob("*.hpp")):  # options that a layer hands on
        for _, name, _, body in CLASS.findall(header.read_text()):
            if folder == "nn" and name in used - {known for known, *_ in options}:
                options.append((name, "", fields(body)))
    page = [f"\n## {FOLDERS[folder]} (`tern::{folder}`)\n"]
    if classes:
        page += ["| constructor | what it is |", "|---|---|"]
        page += ["| " + "<br>".join(f"`{one}`" for one in made) + f" | {what} |" for made, what in classes]
    for name, what, members in options:
        if not members:
            continue
        page += ["", *textwrap.wrap(f"**`{name}`**" + (f": {what}" if what else ""), 120, break_on_hyphens=False), ""]
        page += ["| option and default | meaning |", "|---|---|"]
        page += [f"| `{declared}` | {remark.replace('|', chr(92) + '|')} |" for declared, remark in members]
    return page


def main():
    page = HEAD + "\n".join(line for folder in FOLDERS for line in section(folder)) + "\n"
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page:
            print(f"{PAGE.relative_to(ROOT)} is not current; scripts/modules.py writes it")
            return 1
        return 0
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
