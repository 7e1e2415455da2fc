"""Latency of one inference by ONNX Runtime, beside benchmarks/programs.cpp: median and 99th percentile of a call with
the copies of its input and result. The networks are those of infer.py.

usage: latency.py NET BATCH THREADS CALLS
"""

import sys
import time

import numpy as np
import onnxruntime

import infer


def main():
    net, batch, threads, calls = sys.argv[1], *map(int, sys.argv[2:5])
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    model = infer.NETS[net]()
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    sizes = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim[1:]]
    x = np.random.default_rng(1).standard_normal((batch, *sizes), dtype=np.float32)
    times = []
    for i in range(calls + 3):
        start = time.perf_counter()
        session.run(None, {"x": x})
        times.append(1e3 * (time.perf_counter() - start))
    times = sorted(times[3:])
    median, late = times[(calls - 1) // 2], times[int(0.99 * (calls - 1))]
    print(f"onnxruntime {onnxruntime.__version__} {median:.4f} {late:.4f} ms")


if __name__ == "__main__":
    main()
