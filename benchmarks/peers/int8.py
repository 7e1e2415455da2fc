#!/usr/bin/env python3
"""Inference in 8 bits by other libraries: ONNX Runtime (static quantisation, QDQ) and OpenVINO on the same model.

Builds resnet18, resnet50, googlenet and mobilenet_v2 for 224 x 224 with random weights and batch normalisation folded,
quantises them with ONNX Runtime (uint8 activations, int8 weights per channel) and prints the median milliseconds of
each library and precision, and in brackets those of processor time.

usage: int8.py NETS BATCHES THREADS CALLS       such as: int8.py resnet18,googlenet 1,32 2 20
needs: pip install numpy onnx onnxruntime openvino
"""

import pathlib
import sys
import tempfile
import time

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = numpy.random.default_rng(1)


class Net:
    """An ONNX graph, layer by layer."""

    def __init__(self, name):
        self.name, self.nodes, self.constants, self.count = name, [], [], 0

    def add(self, op, inputs, **attributes):
        self.count += 1
        result = f"v{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [result], **attributes))
        return result

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array.astype(numpy.float32), name))
        return name

    def conv(self, x, channels, out, kernel, stride=1, groups=1, act="Relu"):
        inputs = channels // groups * kernel * kernel
        weight = self.constant(RANDOM.normal(size=(out, channels // groups, kernel, kernel)) * (2 / inputs) ** 0.5)
        bias = self.constant(RANDOM.normal(size=out) * 0.1)
        pad = kernel // 2
        y = self.add("Conv", [x, weight, bias], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
                     group=groups)
        if act == "Relu6":
            return self.add("Clip", [y, self.constant(numpy.array(0.0)), self.constant(numpy.array(6.0))])
        return self.add(act, [y]) if act else y

    def pool(self, x, kernel, stride, pad=0, ceil=0):
        return self.add("MaxPool", [x], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, ceil_mode=ceil)

    def head(self, x, channels):
        x = self.add("Flatten", [self.add("GlobalAveragePool", [x])])
        weight = self.constant(RANDOM.normal(size=(1000, channels)) * channels ** -0.5)
        return self.add("Gemm", [x, weight, self.constant(numpy.zeros(1000))], transB=1)

    def model(self, result, batch):
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 224, 224])
        y = helper.make_tensor_value_info(result, TensorProto.FLOAT, [batch, 1000])
        graph = helper.make_graph(self.nodes, self.name, [x], [y], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def resnet(net, blocks, bottleneck):
    x, channels = net.pool(net.conv("x", 3, 64, 7, 2), 3, 2, 1), 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        out = width * (4 if bottleneck else 1)
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            if bottleneck:
                y = net.conv(x, channels, width, 1)
                y = net.conv(net.conv(y, width, width, 3, stride), width, out, 1, act=None)
            else:
                y = net.conv(net.conv(x, channels, width, 3, stride), width, width, 3, act=None)
            if stride != 1 or channels != out:
                x = net.conv(x, channels, out, 1, stride, act=None)
            x, channels = net.add("Relu", [net.add("Add", [y, x])]), out
    return net.head(x, channels)


def mobilenet_v2(net):
    x, channels = net.conv("x", 3, 32, 3, 2, act="Relu6"), 32
    for expansion, out, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                          (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            step, wide = stride if block == 0 else 1, channels * expansion
            y = net.conv(x, channels, wide, 1, act="Relu6") if expansion > 1 else x
            y = net.conv(y, wide, wide, 3, step, groups=wide, act="Relu6")
            y = net.conv(y, wide, out, 1, act=None)
            x, channels = net.add("Add", [x, y]) if step == 1 and channels == out else y, out
    return net.head(net.conv(x, channels, 1280, 1, act="Relu6"), 1280)


def googlenet(net):
    x = net.pool(net.conv("x", 3, 64, 7, 2), 3, 2, 0, 1)
    x = net.add("LRN", [x], size=5, alpha=1e-4, beta=0.75, bias=1.0)
    x = net.conv(net.conv(x, 64, 64, 1), 64, 192, 3)
    x, channels = net.pool(net.add("LRN", [x], size=5, alpha=1e-4, beta=0.75, bias=1.0), 3, 2, 0, 1), 192
    modules = [(64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None, (192, 96, 208, 16, 48, 64),
               (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
               (256, 160, 320, 32, 128, 128), None, (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)]
    for sizes in modules:
        if sizes is None:
            x = net.pool(x, 3, 2, 0, 1)
            continue
        one, reduce3, three, reduce5, five, project = sizes
        branches = [net.conv(x, channels, one, 1), net.conv(net.conv(x, channels, reduce3, 1), reduce3, three, 3),
                    net.conv(net.conv(x, channels, reduce5, 1), reduce5, five, 5),
                    net.conv(net.pool(x, 3, 1, 1), channels, project, 1)]
        x, channels = net.add("Concat", branches, axis=1), one + three + five + project
    return net.head(x, channels)


def build(name, batch):
    net = Net(name)
    result = {"resnet18": lambda: resnet(net, (2, 2, 2, 2), False), "resnet50": lambda: resnet(net, (3, 4, 6, 3), True),
              "mobilenet_v2": lambda: mobilenet_v2(net), "googlenet": lambda: googlenet(net)}[name]()
    return net.model(result, batch)


def quantised(path, batch):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Images(CalibrationDataReader):
        def __init__(self):
            self.left = 2

        def get_next(self):
            self.left -= 1
            return None if self.left < 0 else {"x": RANDOM.normal(size=(batch, 3, 224, 224)).astype(numpy.float32)}

    out = path.with_suffix(".int8.onnx")
    quantize_static(str(path), str(out), Images(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return out


def median(call, calls):
    """Median milliseconds of the clock, and of processor time."""
    for _ in range(3):
        call()
    times = []
    for _ in range(calls):
        start, before = time.perf_counter(), time.process_time()
        call()
        times.append((time.perf_counter() - start, time.process_time() - before))
    return [1e3 * sorted(column)[len(times) // 2] for column in zip(*times)]


def onnxruntime_ms(path, x, threads, calls):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return median(lambda: session.run(None, {"x": x}), calls)


def openvino_ms(path, x, threads, calls):
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(str(path), "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                                                     "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    return median(lambda: request.infer({0: x}), calls)


def main(nets, batches, threads, calls):
    print("net batch | onnxruntime float32, int8 | openvino float32, int8: ms (processor time)")
    for name in nets.split(","):
        for batch in map(int, batches.split(",")):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "net.onnx"
                onnx.save(build(name, batch), path)
                small = quantised(path, batch)
                x = RANDOM.normal(size=(batch, 3, 224, 224)).astype(numpy.float32)
                row = [run(file, x, int(threads), int(calls)) for run in (onnxruntime_ms, openvino_ms)
                       for file in (path, small)]
                cells = [f"{wall:.2f} ({processor:.2f})" for wall, processor in row]
                print(f"{name} {batch} | {cells[0]}, {cells[1]} | {cells[2]}, {cells[3]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:5])
