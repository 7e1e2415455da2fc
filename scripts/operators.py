#!/usr/bin/env python3
"""Writes docs/book/operators-index.md: every operator of include/tern/operators, with its observed properties.

Declarations and sentences come from the headers, names elsewhere from operator_names.csv, dtypes, gradients and kernels
from the program operator_facts (tests/docs), which runs the operators.

usage: operators.py FACTS            writes the page; FACTS is the program
       operators.py FACTS --check    writes nothing (0: the page is current; 1: it is not, or a name is missing)
"""

import collections
import csv
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/book/operators-index.md"
FAMILIES = {"arithmetic": "Arithmetic, comparisons, logic", "functions": "Further functions",
            "activation": "Activations", "thresholds": "Activations with a threshold", "bits": "Shifts",
            "dot": "Products", "einsum": "Sums of products",
            "fourier": "Fourier transforms", "linalg": "Small matrices", "attention": "Attention",
            "rotary": "Attention of decoders", "recurrent": "Recurrent layers", "conv": "Convolutions",
            "pooling": "Pools", "sequences": "Rows", "volumes": "Volumes", "patches": "Windows and blocks",
            "normalization": "Normalisations", "reduction": "Reductions", "loss": "Losses", "shape": "Views and shapes",
            "indexing": "Indexing and order", "scattering": "Whole positions", "resizing": "Images",
            "sampling": "Between the elements", "quantized": "8 bits, for inference",
            "update": "Steps of optimisers"}
BEGIN = re.compile(r"(?:inline )?(Tensor|bool|void|Sorted|Pooled|std::vector<Tensor>) ([a-z]\w*)\(")
DECLARED = re.compile(BEGIN.pattern + r"(.*)\)(?:;| \{ return .*\})(?:\s+///< (.*))?$")
MOVING = {"copy", "cast", "fill"}
FLOATING, INTEGERS = {"float32", "float64", "bfloat16", "float16"}, {"int32", "int64", "uint8"}

COLUMNS = "| operator | what it is | dtypes | gradient | kernel | PyTorch<br>ONNX |"
HEAD = """# Index of the operators

Made by `scripts/operators.py` from the headers and from running every operator. What several of a family have in
common is said in [operators](../operators.md).

- **arguments**: a name alone is a `Tensor`; defaults stand behind `=`. A result is a `Tensor` unless another one
  is named.
- **dtypes**: "floating" are float32, float64, bfloat16 and float16; "integers" int32, int64 and uint8; "any" all
  of these and bool. Of a few operators only the first input has that freedom; labels and indices are int64, masks
  bool.
- **kernel**: "kernel" is a call through the table, for which each of `sequential`, `vectorized` and `cuda` has a
  kernel of its own. The others are composed, once for all modes, of those named, rare ones first. A "view" moves
  no element, "moves" copies or converts them.
- `F` is `torch.nn.functional`. ONNX's operators, in the second line, are those of ai.onnx; "-" is none of one
  name.
"""


def declarations(header):
    """(name, result, arguments, sentence) of every operator of a header, in order; options as the header has them."""
    text = header.read_text()
    found, options, sentence = [], [], []
    body = text[text.index("namespace tern"):]
    for struct in re.findall(r"^(?:struct|enum class) \w+[^;{]*\{.*?^\};", body, re.M | re.S):
        options.append(re.sub(r"\n+  using Members =[^;]*;", "", struct))
    body = re.sub(r"^(?:struct|enum class) \w+[^;{]*\{.*?^\};", "", body, flags=re.M | re.S)
    body = re.split(r"^namespace tern \{\ninline Tensor operator", body, flags=re.M)[0]
    lines = iter(body.splitlines())
    for line in lines:
        if not line.strip():
            sentence = []
        elif line.startswith("///"):
            sentence.append(line[3:].strip())
        elif line.startswith("//"):
            continue
        elif BEGIN.match(line):
            while not (match := DECLARED.match(line)):
                line += " " + next(lines).strip()
            found.append((match[2], match[1], match[3], match[4] or " ".join(sentence)))
            sentence = []
    return found, options


def split_arguments(text):
    """The arguments of a declaration, one by one."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<({[") - (letter in ">)}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def shortened(argument):
    """`const Tensor& x` as `x`; other types without const, references and the like."""
    argument = argument.replace("const ", "").replace("&", "").replace("std::", "").replace("int64_t", "int")
    return re.sub(r"^Tensor ", "", argument).replace("numeric_limits<int>::max()", "the end")


def facts_of(program):
    """By operator: dtypes, whether there is a gradient, kernels on float32 and on int64."""
    rows = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    facts = {}
    for row in rows:
        name, dtypes, gradient, view, floating, integers = row.split("\t")
        facts[name] = (set(dtypes.split()), gradient == "yes", view == "view", floating.split(), integers.split())
    return facts


def dtypes_as_text(dtypes):
    if dtypes == FLOATING | INTEGERS | {"bool"}:
        return "any"
    parts = []
    for name, group in (("floating", FLOATING), ("integers", INTEGERS)):
        if group <= dtypes:
            parts.append(name)
            dtypes = dtypes - group
    return ", ".join(parts + sorted(dtypes))


def kernel_as_text(name, view, floating, integers, uses):
    """`uses` says how many operators call a kernel: those that few call say most, so they come first."""
    names = floating or integers
    if set(names) <= MOVING:
        return ("view, or " if view and names else "view" if view else "") + ("moves" if names else "")
    if name in names:
        return "kernel"
    parts = sorted((part for part in names if part not in MOVING), key=lambda part: (uses[part], part))
    composed = "composed: " + ", ".join(parts[:4]) + (", ..." if len(parts) > 4 else "")
    return ("kernel of integers; " if name in integers else "") + composed


def cell(text):
    return text.replace("|", "\\|")


def page(program):
    """The page, and the list of what is missing."""
    with open(ROOT / "scripts/operator_names.csv", encoding="utf-8") as file:
        elsewhere = {row["operator"]: row for row in csv.DictReader(file)}
    facts, lacking, seen, text = facts_of(program), [], set(), HEAD
    uses = collections.Counter(kernel for *_, floating, integers in facts.values() for kernel in floating or integers)
    for family, title in FAMILIES.items():
        found, options = declarations(ROOT / f"include/tern/operators/{family}.hpp")
        text += f"\n## {title}\n\n{COLUMNS}\n|---|---|---|---|---|---|\n"
        names = list(dict.fromkeys(name for name, *_ in found))
        for name in names:
            seen.add(name)
            if name not in facts or name not in elsewhere:
                lacking.append(f"{name} is not in " + ("the catalogue" if name not in facts else "operator_names.csv"))
                continue
            forms, sentences = [], []
            for _, result, arguments, sentence in (form for form in found if form[0] == name):
                form = f"`{name}({', '.join(map(shortened, split_arguments(arguments)))})`"
                forms.append(form + ("" if result == "Tensor" else f" `{result.replace('std::', '')}`"))
                sentences += [sentence] if sentence else []
            dtypes, gradient, view, floating, integers = facts[name]
            names_there = elsewhere[name]
            text += "| " + " | ".join([cell("<br>".join(forms)), cell(" ".join(sentences)), dtypes_as_text(dtypes),
                                       "yes" if gradient else "no",
                                       kernel_as_text(name, view, floating, integers, uses),
                                       f"{names_there['PyTorch'] or '-'}<br>{names_there['ONNX'] or '-'}"]) + " |\n"
        if options:
            text += "\n```c++\n" + "\n".join(options) + "\n```\n"
    lacking += [f"{name} of operator_names.csv is no operator" for name in elsewhere if name not in seen]
    return text, lacking


def main():
    text, lacking = page(sys.argv[1])
    for line in lacking:
        print("operators.py:", line)
    if sys.argv[2:] == ["--check"]:
        current = PAGE.exists() and PAGE.read_text() == text
        if not current:
            print(f"operators.py: {PAGE.relative_to(ROOT)} is not what the headers say; scripts/operators.py writes it")
        return 0 if current and not lacking else 1
    PAGE.write_text(text)
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
