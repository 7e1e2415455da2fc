#!/usr/bin/env python3
"""Runs ONNX's backend suite (the package onnx) through onnx::load in every mode.

Every case is loaded, run and compared by the program onnx_backend, with the suite's tolerances. A case passes, is
refused (with a reason), or is WRONG. "Rounded" are cases that miss the suite's tolerance by at most two units in the
last place, in float32 of the largest number: the values come from sums that round after each term. Where an operator
decides by the values of an input (the shape of Reshape), the input is given as a constant; such cases are counted
among those that passed, and once more by themselves. So are those whose inputs or outputs have elements that no tensor
has (int4, float8e5m2, ...): their values are compared as the wider dtype that carries them.

With --saved, in the first mode, each graph that passes is also saved as a model: it must load again with the same
results, pass onnx.checker, and have them in ONNX Runtime, if that is there.

usage: backend.py PROGRAM [--modes sequential,vectorized,debug] [--out FOLDER] [--only TEXT] [--least N] [--saved]
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


def plain(name):
    """A name as graphs have it."""
    return re.sub(r"[\x00- ,()=#:]", "_", name) or "_"


def check_saved(kept, lines):
    """Whether a saved model is refused by onnx.checker or has other results in ONNX Runtime."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    try:
        import onnxruntime
        onnxruntime.set_default_logger_severity(4)
    except ImportError:
        onnxruntime = None
    outcomes, failed = collections.Counter(), False
    for line in lines:
        name, rtol, atol, place = line.split()
        file, place = kept / f"{name}.onnx", pathlib.Path(place)
        if not file.exists():
            continue
        model = onnx.load(file)
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception as error:
            print(f"  REFUSED by onnx.checker: {name}: {str(error)[:300]}")
            failed = True
            continue
        if onnxruntime is None:
            continue
        data = place / "test_data_set_0"
        original = onnx.load(place / "model.onnx")
        initialized = {tensor.name for tensor in original.graph.initializer}
        names = [value.name for value in original.graph.input if value.name not in initialized]
        feeds = {}
        if any(value.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
               for value in [*model.graph.input, *model.graph.output]):
            outcomes["not run: NumPy has no bfloat16"] += 1
            continue
        for value in model.graph.input:
            tensor = onnx.TensorProto()
            plain_names = [plain(known) for known in names]
            if value.name not in plain_names:
                print(f"  FAILED: {name} has an input {value.name}, expected one of {names}")
                failed = True
                break
            where = plain_names.index(value.name)
            tensor.ParseFromString((data / f"input_{where}.pb").read_bytes())
            wide = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)  # as Tern carries it
            feeds[value.name] = numpy_helper.to_array(tensor).astype(wide)
        try:
            session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
            results = session.run(None, feeds)
        except Exception as error:
            short = re.sub(r"\s+", " ", str(error))
            known = "NOT_IMPLEMENTED" in short or "not supported" in short or "bfloat16" in short
            outcomes["lacking in ONNX Runtime" if known else "failed in ONNX Runtime"] += 1
            if not known:
                print(f"  FAILED in ONNX Runtime: {name}: {short[:300]}")
                failed = True
            continue
        for i, result in enumerate(results):
            tensor = onnx.TensorProto()
            tensor.ParseFromString((data / f"output_{i}.pb").read_bytes())
            expected = numpy_helper.to_array(tensor)
            if result.shape != expected.shape or not np.allclose(
                    result.astype(np.float64), expected.astype(np.float64), float(rtol), float(atol), equal_nan=True):
                outcomes["DIFFERENT in ONNX Runtime"] += 1
                print(f"  DIFFERENT in ONNX Runtime: {name}, result {i}")
                failed = True
                break
        else:
            outcomes["equal in ONNX Runtime"] += 1
    print(f"  of the saved models: {dict(outcomes)}")
    return failed


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
    parser.add_argument("--saved", action="store_true")
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
        kept = folder / "saved"
        kept.mkdir()
        modes = options.modes.split(",")
        for mode in modes:
            keep = [str(kept)] if options.saved and mode == modes[0] else []
            text, rest, done = "", list(lines), {}
            while rest:  # a case that ends the program is one that is wrong
                ran = subprocess.run([options.program, mode] + keep, input="\n".join(rest) + "\n", capture_output=True,
                                     text=True)
                answers = [line for line in ran.stdout.split("\n") if line]
                text += "".join(line + "\n" for line in answers)
                rest = rest[len(answers):]
                if ran.returncode == 0 or not rest:
                    break
                text += f"{rest[0].split()[0]}\tWRONG\tends the program: {ran.returncode} {ran.stderr[-200:]!r}\n"
                rest = rest[1:]
            savings, unsaved = collections.Counter(), collections.Counter()
            counts, reasons, constants, carried, wrong = collections.Counter(), collections.Counter(), 0, 0, []
            for line in text.splitlines():
                name, outcome, why, note, saving = (line.split("\t") + ["", "", ""])[:5]
                done[name] = outcome
                counts[outcome] += 1
                if outcome == "refused":
                    reasons[reason(why)] += 1
                elif outcome == "WRONG":
                    wrong.append(f"{name}: {why}")
                constants += outcome == "passed" and "constants" in note
                carried += outcome == "passed" and "carried" in note
                if outcome == "passed" and saving:
                    savings[saving.split(" ")[0]] += 1
                    if saving.startswith("unsaved"):
                        unsaved[reason(saving[8:])] += 1
                    elif saving.startswith("CHANGED"):
                        wrong.append(f"{name}: saved again {saving}")
            sets[mode] = {name for name, outcome in done.items() if outcome == "passed"}
            print(f"\n{mode}: {counts['passed']} passed ({constants} with inputs as constants, "
                  f"{carried} with elements in wider dtypes), "
                  f"{counts['rounded']} rounded, {counts['refused']} refused, {counts['WRONG']} WRONG")
            for line in wrong:
                print(f"  WRONG {line}")
            for why, count in reasons.most_common():
                print(f"  {count:4} {why}")
            if keep:
                print(f"  saved and loaded again: {dict(savings)}")
                for why, count in unsaved.most_common():
                    print(f"  {count:4} {why}")
                failed |= check_saved(kept, lines)
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
