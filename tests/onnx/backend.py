#!/usr/bin/env python3
"""Runs ONNX's backend suite (the package onnx) through onnx::load in every mode.

Every case is loaded, run and compared by the program onnx_backend, with the suite's tolerances. A case passes, is
refused (with a reason), or is WRONG. "Rounded" are cases of bfloat16 and float16 that miss the suite's tolerance by at
most two units in the last place: the values come from sums that round after each term. Where an operator decides
by the values of an input (the shape of Reshape), the input is given as a constant; such cases are counted among those
that passed, and once more by themselves.

usage: backend.py PROGRAM [--modes sequential,vectorized,debug] [--out FOLDER] [--only TEXT] [--least N]
exit status: 0; 1 where a value is wrong, the modes differ or fewer than N cases pass; 77 without the package onnx
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import warnings


def write_cases(folder, only):
    """The cases as lines for the program. Node cases are made by the package, others lie in it."""
    warnings.simplefilter("ignore")
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.loader import load_model_tests

    def proto(value, kind):
        if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
            return value
        if kind.HasField("sequence_type"):
            return numpy_helper.from_list(value)
        if kind.HasField("optional_type"):
            return numpy_helper.from_optional(value)
        return numpy_helper.from_array(np.asarray(value))

    lines, left_out = [], []
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator", "real"):
        for case in load_model_tests(kind=kind):
            if only and not re.search(only, case.name):
                continue
            if kind == "real":
                left_out.append(case.name)  # has to be downloaded
                continue
            place = folder / case.name
            if case.model_dir is not None:
                place = pathlib.Path(case.model_dir)
            else:
                place.mkdir(parents=True)
                (place / "model.onnx").write_bytes(case.model.SerializeToString())
                for k, (inputs, outputs) in enumerate(case.data_sets):
                    data = place / f"test_data_set_{k}"
                    data.mkdir()
                    for name, values, infos in (("input", inputs, case.model.graph.input),
                                                ("output", outputs, case.model.graph.output)):
                        for i, value in enumerate(values):
                            try:
                                content = proto(value, infos[i].type).SerializeToString()
                            except Exception:  # an element type that NumPy has not: refused by the model's types
                                content = b""
                            (data / f"{name}_{i}.pb").write_bytes(content)
            lines.append(f"{case.name} {case.rtol} {case.atol} {place}")
    return lines, left_out


def reason(text):
    """Cases with one cause have one reason."""
    text = re.sub(r"^ONNX: \S+: Tern lacks \d+ things?: - ", "", text)
    text = re.sub(r"'[^']*'", "'..'", text.split(" - ")[0])
    return re.sub(r"\d+", "N", re.sub(r"\[[\d,]*\]", "[..]", text))[:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--modes", default="sequential,vectorized,debug")
    parser.add_argument("--out", type=pathlib.Path, help="writes MODE.tsv, a line for each case")
    parser.add_argument("--only", help="a regular expression")
    parser.add_argument("--least", type=int, default=0)
    options = parser.parse_args()
    try:
        import onnx
    except ImportError:
        print("the package onnx is missing")
        sys.exit(77)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="onnx_cases."))
    try:
        lines, left_out = write_cases(folder, options.only)
        print(f"onnx {onnx.__version__}: {len(lines)} cases; {len(left_out)} more need a download")
        failed, sets = False, {}
        for mode in options.modes.split(","):
            text, rest, done = "", list(lines), {}
            while rest:  # a case that ends the program is one that is wrong
                ran = subprocess.run([options.program, mode], input="\n".join(rest) + "\n", capture_output=True,
                                     text=True)
                answers = [line for line in ran.stdout.split("\n") if line]
                text += "".join(line + "\n" for line in answers)
                rest = rest[len(answers):]
                if ran.returncode == 0 or not rest:
                    break
                text += f"{rest[0].split()[0]}\tWRONG\tends the program: {ran.returncode} {ran.stderr[-200:]!r}\n"
                rest = rest[1:]
            counts, reasons, constants, wrong = collections.Counter(), collections.Counter(), 0, []
            for line in text.splitlines():
                name, outcome, why, *more = line.split("\t") + [""]
                done[name] = outcome
                counts[outcome] += 1
                if outcome == "refused":
                    reasons[reason(why)] += 1
                elif outcome == "WRONG":
                    wrong.append(f"{name}: {why}")
                constants += outcome == "passed" and "constants" in more
            sets[mode] = {name for name, outcome in done.items() if outcome == "passed"}
            print(f"\n{mode}: {counts['passed']} passed ({constants} with inputs as constants), "
                  f"{counts['rounded']} rounded, {counts['refused']} refused, {counts['WRONG']} WRONG")
            for line in wrong:
                print(f"  WRONG {line}")
            for why, count in reasons.most_common():
                print(f"  {count:4} {why}")
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                (options.out / f"{mode}.tsv").write_text(text)
            failed |= bool(wrong) or counts["passed"] < options.least
        first = next(iter(sets.values()))
        for mode, names in sets.items():
            if names != first:
                print(f"\n{mode} passes other cases: {sorted(names ^ first)[:20]}")
                failed = True
        sys.exit(1 if failed else 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
