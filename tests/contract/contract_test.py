#!/usr/bin/env python3
"""Changes each struct, slot and enumeration of the plug-in contract in a copy of the headers: the number must change.

usage: contract_test.py COMPILER [--every N]

Each change is one compilation of about a second. With --every N only each N-th change is made; 1 makes all.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
# The headers whose types reach a plug-in. Other headers of these folders are internal to the library.
headers = sorted((root / "include/tern/kernels").glob("*.hpp")) + [
    root / "include/tern" / name
    for name in ("core/dtype.hpp", "core/random.hpp", "memory/memory.hpp", "modes/mode.hpp")
]
# Used only by the library.
private = {"Number", "Place", "ModeStatus"}

program = """#include "tern/modes/plugin.hpp"
#include <cstdio>
#ifdef EXPECTED
static_assert(tern::plugin_contract != EXPECTED, "the number stays");
#else
int main() { std::printf("0x%llx", static_cast<unsigned long long>(tern::plugin_contract)); }
#endif
"""


def changes(text):
    """Each (description, changed text) of one header."""
    for match in re.finditer(r"^(\s*)using Members =\s*MemberList<([^;]*?)>;", text, re.M):
        first = re.search(r"&(\w+)::", match[2])
        if not first or first[1] in private:
            continue
        owner = first[1]
        members = match[2].rstrip()
        added = (
            f"{match[1]}std::int64_t added_member = 0;\n"
            f"{match[1]}using Members = MemberList<{members}, &{owner}::added_member>;"
        )
        yield f"{owner} gets a member", text[: match.start()] + added + text[match.end() :]
        # Two adjacent members change places.
        body = body_before(text, match.start())
        swap = re.search(r"\b(\w+)( = [^,;]+)?, (\w+)( = [^,;]+)?(?=[,;])", body)
        if swap and f"&{owner}::{swap[1]}," in members and f"&{owner}::{swap[3]}" in members:
            begin = match.start() - len(body)
            declared = f"{swap[3]}{swap[4] or ''}, {swap[1]}{swap[2] or ''}"
            listed = re.sub(
                rf"&{owner}::({swap[1]}|{swap[3]})\b",
                lambda m: f"&{owner}::{swap[3] if m[1] == swap[1] else swap[1]}",
                members,
            )
            changed = (
                text[: begin + swap.start()]
                + declared
                + text[begin + swap.end() : match.start()]
                + f"{match[1]}using Members = MemberList<{listed}>;"
                + text[match.end() :]
            )
            yield f"{owner} swaps {swap[1]} and {swap[3]}", changed
    for match in re.finditer(r"Kernel<(\w[\w:]*)\(((?:const )?Context&)", text):
        line = text.count("\n", 0, match.start()) + 1
        yield f"the slot in line {line} gets a parameter", text[: match.end()] + ", int" + text[match.end() :]
    for match in re.finditer(r"\(\*(\w+)\)\(", text):
        if match[1].startswith("function"):
            continue  # Kernel's own, of any signature
        rest = text[match.end() :]
        comma = "" if rest.startswith(")") else ", "
        yield f"the function {match[1]} gets a parameter", text[: match.end()] + "int" + comma + rest
    for match in re.finditer(r"enum class (\w+) : std::uint8_t \{ ([^}]*) \}", text):
        if match[1] in ("DType", "Kind"):
            continue  # dtype.hpp itself refuses a list without its facts
        changed = text[: match.end() - 2] + ", added_value }" + text[match.end() :]
        yield f"{match[1]} gets a value", changed


def body_before(text, end):
    """The declarations of the struct whose Members begin at `end`."""
    begin = max(text.rfind("struct ", 0, end), text.rfind("union ", 0, end))
    return text[begin:end]


def compile_program(compiler, include, folder, *options):
    source = folder / "number.cpp"
    source.write_text(program)
    command = [compiler, "-std=c++20", "-w", f"-I{include}", str(source), *options]
    return subprocess.run(command, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("compiler")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()

    cases = []
    for header in headers:
        text = header.read_text()
        for description, changed in changes(text):
            cases.append((header.relative_to(root / "include"), description, changed))
    chosen = cases[options.first :: options.every]

    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        built = compile_program(options.compiler, root / "include", top, "-o", str(top / "number"))
        if built.returncode:
            print(built.stderr)
            return 1
        expected = subprocess.run([str(top / "number")], capture_output=True, text=True, check=True).stdout

        def run(index):
            path, description, changed = chosen[index]
            folder = top / str(index)
            shutil.copytree(root / "include", folder)
            (folder / path).write_text(changed)
            checked = compile_program(options.compiler, folder, folder, "-fsyntax-only", f"-DEXPECTED={expected}ull")
            shutil.rmtree(folder)
            if checked.returncode == 0:
                return ""
            if "the number stays" in checked.stderr:
                return f"{path}: {description}: the number stays"
            return f"{path}: {description}: does not compile\n{checked.stderr[:2000]}"

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            failures = [text for text in pool.map(run, range(len(chosen))) if text]
    for failure in failures:
        print(failure)
    print(f"{len(chosen) - len(failures)} of {len(chosen)} changes give another number ({len(cases)} in all)")
    return 1 if failures or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
