#!/usr/bin/env python3
"""Writes the library as one file to copy, tern_single.hpp, from its sources.

It holds the public headers of PUBLIC and, behind TERN_IMPLEMENTATION, the sources of SOURCES: core, tensors, autograd,
operators, nn, optim, models, the reader of MNIST, the mode `sequential`, and `vectorized` for the compiler's own
instruction set where <hwy/highway.h> is. Each file comes once, behind everything that it includes.

Types and constants of unnamed namespaces that two sources share get the name of their source. Fails on a source of
these folders that is neither used nor in a list of those that stay out, on one that would come twice, and on includes
in a circle or under a condition.

usage: single_header.py [--root FOLDER] [--figures] OUT
"""

import argparse
import collections
import pathlib
import re
import sys

PUBLIC = ["tern/tensor", "tern/autograd", "tern/operators", "tern/nn", "tern/optim", "tern/models",
          "tern/data/loader.hpp", "tern/data/mnist.hpp", "tern/data/synthetic_digits.hpp", "tern/modes/device.hpp",
          "tern/modes/forced_algorithm.hpp", "tern/core/version.hpp"]
# Private sources in this order, each behind what it includes.
SOURCES = ["core", "memory", "modes", "tensor", "io", "autograd", "operators", "run", "nn", "optim", "data", "models",
           "sequential"]
VECTORIZED = ["vectorized"]
# Behind these folders, in place of files that stay out.
INSTEAD = {"sequential": "scripts/single/absent.cpp", "vectorized": "scripts/single/instructions.cpp"}
# Files of these folders that stay out, and why.
ABSENT = {
    "tern/nn/nn.hpp": "names load.hpp",
    "tern/nn/load.hpp": "reads safetensors and npz, which need zlib",
    "tern/models/models.hpp": "names all models",
    "tern/models/alexnet.hpp": "is divided over ranks",
    "tern/models/timm_names.hpp": "is for load.hpp",
}
LIBRARY_ALONE = {
    "src/modes": ["plugins.cpp"],
    "src/vectorized": ["detection.cpp", "instructions.cpp"],
    "src/vectorized/quantized": ["amx.cpp", "avx2.cpp", "avx512.cpp", "avxvnni.cpp", "depthwise256.cpp",
                                 "depthwise512.cpp", "finish256.hpp", "rows256.hpp", "rows512.hpp", "winograd256.cpp"],
    "src/vectorized/bfloat16": ["amx.cpp", "avx512.cpp", "packing.cpp", "packing.hpp"],
    "src/io": ["checkpoint.cpp", "checkpoint_sum.hpp", "dlpack.cpp", "npy.cpp", "npy_bytes.hpp", "npz.cpp",
               "safetensors.cpp", "safetensors_header.cpp", "safetensors_header.hpp"],
    "src/run": ["auto_choice.cpp", "auto_choice.hpp", "loop.cpp", "plan.cpp", "plan.hpp", "profile.cpp",
                "profiler.cpp", "profiler.hpp", "replay.cpp", "step.cpp"],
    "src/nn": ["load.cpp"],
    "src/models": ["alexnet.cpp", "timm_names.cpp"],
    "src/data": ["augment.cpp", "cifar.cpp", "csv.cpp", "csv_classes.cpp", "csv_classes.hpp", "csv_columns.cpp",
                 "csv_columns.hpp", "csv_records.cpp", "csv_records.hpp", "encoding.cpp", "example_source.cpp",
                 "fingerprint.cpp", "image.cpp", "image_codecs.hpp", "image_folder.cpp", "jpeg.cpp", "npz.cpp",
                 "png.cpp", "resize.cpp", "resize.hpp", "scaling.cpp", "synthetic_images.cpp"],
}
MODES = "modes.inc"  # CMake writes it for the library
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
# A header for several instruction sets is read once for each; here there is one.
TOGGLE = re.compile(r"#if defined\((\w+)\) == defined\(HWY_TARGET_TOGGLE\)\n#ifdef \1\n#undef \1\n#else\n#define \1\n"
                    r"#endif\n(.*)\n#endif[^\n]*\n*$", re.DOTALL)
OPEN, CLOSE = re.compile(r"\s*#\s*if"), re.compile(r"\s*#\s*endif")


class Broken(Exception):
    pass


class Sources:
    def __init__(self, root):
        self.root = root
        self.renamed = {}  # by source: names that another source has, too
        self.absent = set(ABSENT) | {f"{folder}/{name}" for folder, names in LIBRARY_ALONE.items() for name in names}
        for name in self.absent:
            if not self.file(name).is_file():
                raise Broken(f"{name} is to stay out and does not exist")

    def file(self, name):
        """The file of "tern/core/error.hpp" or "src/core/shape.cpp"."""
        return self.root / ("include" if name.startswith("tern/") else ".") / name

    def text(self, name):
        text = self.file(name).read_text()
        if name.startswith("src/vectorized/"):
            text = for_one_target(name, text)
        return with_new_names(text, self.renamed.get(name))

    def of(self, folder):
        """The files of a folder that come in, by name; of a file itself."""
        place = self.file(folder)
        files = [place] if place.is_file() else sorted(place.rglob("*.?pp"))
        names = [str(file.relative_to(self.root)).removeprefix("include/") for file in files]
        return [name for name in names if name not in self.absent]

    def included(self, name, path):
        """The name of what `name` includes as "path"; None for a header of the system."""
        for candidate in (path, f"src/{path}", f"{name.rpartition('/')[0]}/{path}"):
            if candidate.startswith(("tern/", "src/")) and self.file(candidate).is_file():
                return candidate
        if path == MODES:
            return MODES
        raise Broken(f"{name}: includes \"{path}\", which is no file of the library")


def short(name):
    """ "quantized_pooling" for "src/vectorized/quantized/pooling.cpp"."""
    return "_".join(pathlib.PurePath(name).with_suffix("").parts[2:])


def for_one_target(name, text):
    """A file that Highway compiles for several instruction sets, for one of them.

    Its names lie in a namespace of the file, since files share one namespace for each instruction set.
    """
    text = TOGGLE.sub(r"\2\n", text)
    if "HWY_TOGGLE" in text or "HWY_TARGET_TOGGLE" in text:
        raise Broken(f"{name}: its guard has another form than those of the other headers")
    if "<hwy/foreach_target.h>" not in text:
        return text
    inside = "in_" + short(name)
    text = re.sub(r"#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE .*\n#include <hwy/foreach_target.h>.*\n", "",
                  text)
    text = re.sub(r"^(namespace tern::[\w:]*HWY_NAMESPACE) \{$", rf"\1::{inside} {{", text, flags=re.M)
    text = re.sub(r"^HWY_EXPORT\(\w+\);\n", "", text, flags=re.M)
    text = re.sub(r"^TERN_DISPATCHED\((\w+), (\w+)\)$", "\n".join(
        f"template <>\ndecltype({own}()) \\1<{element}>() {{\n  return {own}();\n}}"
        for element in ("float", "double") for own in [rf"HWY_NAMESPACE::{inside}::\2_{element}"]), text, flags=re.M)
    text = re.sub(r"HWY_DYNAMIC_DISPATCH\((\w+)\)", rf"HWY_NAMESPACE::{inside}::\1", text)
    text = re.sub(r"HWY_DYNAMIC_POINTER\((\w+)\)", rf"&HWY_NAMESPACE::{inside}::\1", text)
    return text.replace("#if HWY_ONCE", "#if 1")


class Writer:
    """Files in the order of their includes, each once."""

    def __init__(self, sources, before=None):
        self.sources = sources
        self.done = list(before.done) if before else []        # files
        self.system = set(before.system) if before else set()  # headers of the system that are included by now
        self.lines = []

    def add(self, name, bare, path=()):
        if name in self.done:
            return
        if name in path:
            raise Broken("includes in a circle: " + " > ".join([*path, name]))
        if name in self.sources.absent:
            raise Broken(f"{path[-1] if path else 'the list'} includes {name}, which stays out")
        text, depth = [], 0
        for number, line in enumerate(self.sources.text(name).splitlines(), 1):
            if line.strip() == "#pragma once":
                continue
            depth += bool(OPEN.match(line)) - bool(CLOSE.match(line))
            include = INCLUDE.match(line)
            if include and include[1]:
                other = self.sources.included(name, include[1])
                if other == MODES:
                    text += ["TERN_SINGLE_MODES"]
                elif depth:
                    raise Broken(f"{name}:{number}: includes {other} under a condition")
                else:
                    self.add(other, bare, (*path, name))
            elif include and not depth:
                if include[2] not in self.system:
                    self.system.add(include[2])
                    self.lines.append(line)
            elif not bare or (line.strip() and not line.lstrip().startswith("//")):
                text.append(line)
        if name in self.done:
            raise Broken(f"{name} comes twice")
        self.done.append(name)
        while text and not text[0].strip():
            text.pop(0)
        self.lines += [f"// ---- {name}", *text] if bare else ["", f"// ---- {name}", "", *text]


def unnamed_names(text):
    """(enclosing namespace, name) of the functions, types and constants that unnamed namespaces define."""
    scopes, names = [], set()
    for line in text.splitlines():
        inside = scopes and scopes[-1] == ""
        if match := re.match(r"(inline )?namespace ?([\w:]*) ?\{$", line):
            scopes.append(match[2])
        elif line.startswith("}  // namespace"):
            if scopes:
                scopes.pop()
        elif inside and not line.startswith((" ", "#", "}", "//", "template", "using ")):
            match = (re.match(r"(?:struct|class|enum class|enum) (\w+)", line) or
                     re.match(r".*?\b(\w+)(?:\[[^]]*\])?(?: =|\{|;)", line.split("(")[0] if "(" in line else line) or
                     re.match(r".*?(\w+)$", line.split("(")[0]))
            if match:
                names.add(("::".join(scope for scope in scopes if scope), match[1], "(" in line))
    return names


def new_names(sources, files):
    """For each source the names that it shares with an earlier one, and what they become.

    Types and constants; functions may be overloads, and the compiler says where they are not.
    """
    places = collections.defaultdict(list)
    for name in files:
        for scope, word, function in sorted(unnamed_names(sources.text(name))):
            places[scope, word].append((name, function))
    renamed = collections.defaultdict(dict)
    for (_, word), found in places.items():
        if len(found) > 1 and not all(function for _, function in found):
            for name, _ in found[1:]:
                renamed[name][word] = f"{word}_of_{short(name)}"
    return renamed


def with_new_names(text, renamed):
    """The words outside of strings, members and qualified names replaced."""
    if not renamed:
        return text
    words = re.compile(r"(?<![\w.:>])(" + "|".join(map(re.escape, renamed)) + r")(?!\w)")
    pieces = re.split(r'("(?:\\.|[^"\\\n])*")', text)
    return "".join(piece if i % 2 else words.sub(lambda match: renamed[match[1]], piece) for i, piece in
                   enumerate(pieces))


HEAD = """\
// Tern {version} in one file: tensors, autograd, operators, modules, optimisers, networks, the reader of MNIST, and the
// modes `sequential` and, where <hwy/highway.h> is, `vectorized`. scripts/single_header.py wrote it; edit the sources.
//
// Every source includes it. One of them defines TERN_IMPLEMENTATION before:
//
//     #define TERN_IMPLEMENTATION
//     #include "tern_single.hpp"
//
//     g++ -std=c++20 -O2 -fopenmp lenet.cpp && ./a.out
//
// The results have the library's bits; with -march=native or -mfma add -ffp-contract=off. TERN_ZLIB reads .gz files;
// then link with -lz. TERN_SEQUENTIAL_ALONE leaves `vectorized` out.
//
{licence}
#ifndef TERN_SINGLE_HPP
#define TERN_SINGLE_HPP
"""

MIDDLE = """
namespace tern {
namespace op = operators;
}  // namespace tern

#endif  // TERN_SINGLE_HPP

#if defined(TERN_IMPLEMENTATION) && !defined(TERN_SINGLE_IMPLEMENTED)
#define TERN_SINGLE_IMPLEMENTED

#ifndef TERN_ZLIB
#define TERN_WITHOUT_ZLIB
#endif
#define TERN_CUDA_BUILT 0
#if __has_include(<hwy/highway.h>) && !defined(TERN_SEQUENTIAL_ALONE)
#define TERN_SINGLE_VECTORIZED
#define TERN_SINGLE_MODES MODE(sequential) MODE(vectorized)
#define HWY_COMPILE_ONLY_STATIC
#else
#define TERN_SINGLE_MODES MODE(sequential)
#endif
"""

SIMD = """
#ifdef TERN_SINGLE_VECTORIZED
#ifdef _OPENMP
#define TERN_OPENMP_BUILT 1
#else
#define TERN_OPENMP_BUILT 0
#endif
#define TERN_AVX512_BF16_BUILT 0
#define TERN_AMX_BUILT 0
"""

TAIL = """
#endif  // TERN_SINGLE_VECTORIZED
#endif  // TERN_IMPLEMENTATION
"""


def version_of(root):
    return re.search(r'TERN_VERSION_STRING "([^"]+)"', (root / "include/tern/core/version.hpp").read_text())[1]


def single(root):
    """The text of the file, and the lines of its parts."""
    sources = Sources(root)
    files = [name for folder in SOURCES + VECTORIZED for name in sources.of(f"src/{folder}") if name.endswith(".cpp")]
    sources.renamed = new_names(sources, files)
    writer = Writer(sources)
    for entry in PUBLIC:
        for name in sources.of(entry):
            writer.add(name, bare=False)
    declarations, writer.lines = writer.lines, []
    simd = None
    for folders in (SOURCES, VECTORIZED):
        writer = simd = Writer(sources, writer) if folders is VECTORIZED else writer
        for folder in folders:
            for name in [*sources.of(f"src/{folder}"), *([INSTEAD[folder]] if folder in INSTEAD else [])]:
                if name.endswith(".cpp"):
                    writer.add(name, bare=True)
        if folders is SOURCES:
            implementation = writer.lines
    wanted = {name for folder in SOURCES + VECTORIZED for name in sources.of(f"src/{folder}")}
    unused = sorted(wanted - set(simd.done))
    if unused:
        raise Broken("never used: " + ", ".join(unused))
    if len(set(simd.done)) != len(simd.done):
        raise Broken("a file comes twice")
    licence = "".join(f"// {line}".rstrip() + "\n" for line in (root / "LICENSE").read_text().splitlines())
    head = HEAD.format(version=version_of(root), licence=licence)
    text = "\n".join([head, *declarations, MIDDLE, *implementation, SIMD, *simd.lines, TAIL])
    alone = len((head + MIDDLE + TAIL).splitlines()) + len(declarations) + len(implementation)
    whole = len(text.splitlines())
    return text, f"{len(declarations)} lines declare, {alone} with sequential, {whole} in all; {len(simd.done)} files"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--figures", action="store_true", help="print how long it is")
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    try:
        text, figures = single(arguments.root)
    except Broken as error:
        print(f"single_header.py: {error}", file=sys.stderr)
        return 1
    if not arguments.out.is_file() or arguments.out.read_text() != text:
        arguments.out.write_text(text)
    if arguments.figures:
        print(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
