#!/usr/bin/env python3
"""Tern, ONNX Runtime and Debian's libonnx in one process, in every order, run and check one model.

Two copies of ONNX's messages in one program abort it where both register them with libprotobuf; Tern has none. Each
order runs in a process of its own.

usage: together.py LIBRARY [ORDER]
exit status: 0; 1 where a result is wrong or a process ends; 77 where onnxruntime, onnx or libonnx is missing
"""

import ctypes
import itertools
import pathlib
import subprocess
import sys
import tempfile


def model_file(folder):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    weight = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])], "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])], [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    file = pathlib.Path(folder) / "net.onnx"
    file.write_bytes(model.SerializeToString())
    return str(file), weight


def run(library, order):
    import numpy as np
    x = np.array([[1, -2, 3, -0.5]], np.float32)
    loaded = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in order:  # each is loaded before the next one, and all are used afterwards
            if part == "tern":
                loaded[part] = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
            elif part == "onnxruntime":
                import onnxruntime
                loaded[part] = onnxruntime
            else:
                loaded[part] = ctypes.CDLL("libonnx.so.1", mode=ctypes.RTLD_GLOBAL)
        file, weight = model_file(folder)
        expected = np.maximum(x @ weight, 0)
        theirs = loaded["onnxruntime"].InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        ours = np.zeros(3, np.float32)
        run_it = loaded["tern"].tern_together
        run_it.restype = ctypes.c_size_t
        pointer = ctypes.POINTER(ctypes.c_float)
        count = run_it(file.encode(), x.ctypes.data_as(pointer), ctypes.c_size_t(4), ours.ctypes.data_as(pointer),
                       ctypes.c_size_t(3))
        if count != 3 or not np.allclose(theirs[0], expected[0]) or not np.allclose(ours, expected[0]):
            sys.exit(f"{order}: Tern {ours}, ONNX Runtime {theirs}, expected {expected}")


def main():
    library = sys.argv[1]
    if len(sys.argv) > 2:
        return run(library, sys.argv[2].split(","))
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        ctypes.CDLL("libonnx.so.1")
    except (ImportError, OSError) as error:
        print(f"skipped: {error}")
        sys.exit(77)
    failed = False
    for order in itertools.permutations(["tern", "onnxruntime", "libonnx"]):
        outcome = subprocess.run([sys.executable, __file__, library, ",".join(order)], capture_output=True, text=True)
        print(",".join(order), "passed" if outcome.returncode == 0 else
              f"FAILED ({outcome.returncode}) {outcome.stderr[-500:]}")
        failed |= outcome.returncode != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
