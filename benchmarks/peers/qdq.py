#!/usr/bin/env python3
"""QDQ models of ONNX Runtime's quantisation in Tern (build/benchmarks/onnx_nets) and in ONNX Runtime, in turns.

Builds networks for 224 x 224 with random weights (int8.py), quantises them with uint8 activations and int8 weights per
channel, and prints: the largest difference of the outputs in steps of their scale, the error of both from float32, and
the median milliseconds of each round.

usage: qdq.py PROGRAM NETS BATCHES THREADS SECONDS ROUNDS
       such as qdq.py build/benchmarks/onnx_nets resnet18,resnet50 1,32 2 1 3
needs: pip install numpy onnx onnxruntime
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime

import int8


def session_of(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def scale_of_output(path):
    model = onnx.load(path)
    makers = {output: node for node in model.graph.node for output in node.output}
    scale = makers[model.graph.output[0].name].input[1]
    return next(float(onnx.numpy_helper.to_array(each)) for each in model.graph.initializer if each.name == scale)


def median_ms(call, seconds):
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e3 * sorted(times)[len(times) // 2]


def main(program, nets, batches, threads, seconds, rounds):
    threads, seconds = int(threads), float(seconds)
    for name in nets.split(","):
        for batch in map(int, batches.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                path, data = pathlib.Path(folder) / "net.onnx", pathlib.Path(folder) / "data.npz"
                onnx.save(int8.build(name, batch), path)
                small = int8.quantised(path, batch)
                x = int8.RANDOM.normal(size=(batch, 3, 224, 224)).astype(numpy.float32)
                session = session_of(small, threads)
                y, real = session.run(None, {"x": x})[0], session_of(path, threads).run(None, {"x": x})[0]
                numpy.savez(data, **{"input.0": x, "output.0": y})
                tern = subprocess.Popen([program, str(small), str(data), str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
                first = tern.stdout.readline().split()
                steps = float(first[1]) * numpy.abs(y).max() / scale_of_output(small)
                lost = numpy.sqrt(((y - real) ** 2).sum() / (real ** 2).sum())
                print(f"{name} {batch}: {steps:.2f} steps apart, ONNX Runtime's error from float32 {lost:.4f}")
                for _ in range(int(rounds)):
                    tern.stdin.write(f"{seconds}\n")
                    tern.stdin.flush()
                    own = tern.stdout.readline().split()
                    peer = median_ms(lambda: session.run(None, {"x": x}), seconds)
                    print(f"  Tern {float(own[1]):.2f}, ONNX Runtime {peer:.2f}", flush=True)
                tern.stdin.close()
                tern.wait()


if __name__ == "__main__":
    main(*sys.argv[1:7])
