"""Inference on the processor: Tern's `vectorized` mode beside ONNX Runtime, interleaved on the same cores.

The networks are written as ONNX graphs of random weights, batch normalisation folded into the convolutions, as an
exporter leaves them: no PyTorch is needed. The least time of all rounds counts, on both sides.

usage: infer_ort.py INFER [--base OLDER_INFER] [--nets resnet18,...] [--batches 1,8] [--threads 2] [--rounds 5]
"""

import argparse
import os
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


class Graph:
    """Nodes in order; every method returns the name of its output."""

    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(1)

    def weight(self, *shape, scale=None):
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        values = self.rng.standard_normal(shape, dtype=np.float32) * np.float32((2 / fan) ** 0.5 if scale is None else scale)
        return self.constant(values)

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def conv(self, x, c, o, k=1, stride=1, groups=1, act=None):
        x = self.node("Conv", x, self.weight(o, c // groups, k, k), self.weight(o, scale=0.01), kernel_shape=[k, k],
                      strides=[stride, stride], pads=[k // 2] * 4, group=groups)
        if act == "relu6":
            return self.node("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self.node("Relu", x) if act == "relu" else x

    def linear(self, x, c, o):
        return self.node("Add", self.node("MatMul", x, self.weight(c, o, scale=0.02)), self.weight(o, scale=0.01))

    def head(self, x, c):
        return self.node("Gemm", self.node("Flatten", self.node("GlobalAveragePool", x)), self.weight(c, 1000, scale=0.02),
                         self.weight(1000, scale=0.01))

    def model(self, out):
        shape = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, "net", [shape("x", ["n", 3, 224, 224])], [shape(out, ["n", 1000])], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        return model


def mobilenet_v2():
    g = Graph()
    x, c = g.conv("x", 3, 32, 3, 2, act="relu6"), 32
    for expansion, channels, blocks, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                                (6, 160, 3, 2), (6, 320, 1, 1)]:
        for i in range(blocks):
            s, wide, y = stride if i == 0 else 1, c * expansion, x
            if expansion > 1:
                y = g.conv(y, c, wide, act="relu6")
            y = g.conv(g.conv(y, wide, wide, 3, s, wide, act="relu6"), wide, channels)
            x, c = g.node("Add", x, y) if s == 1 and c == channels else y, channels
    return g.model(g.head(g.conv(x, c, 1280, act="relu6"), 1280))


def resnet(bottleneck, blocks):
    g = Graph()
    x, c = g.node("MaxPool", g.conv("x", 3, 64, 7, 2, act="relu"), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for stage, count in enumerate(blocks):
        for i in range(count):
            width, s = 64 << stage, 2 if i == 0 and stage > 0 else 1
            out = 4 * width if bottleneck else width
            if bottleneck:
                y = g.conv(g.conv(g.conv(x, c, width, act="relu"), width, width, 3, s, act="relu"), width, out)
            else:
                y = g.conv(g.conv(x, c, width, 3, s, act="relu"), width, out, 3)
            x = g.node("Relu", g.node("Add", y, x if s == 1 and c == out else g.conv(x, c, out, 1, s)))
            c = out
    return g.model(g.head(x, c))


def vit_b_16():
    g = Graph()
    width, heads, tokens = 768, 12, 197
    x = g.node("Conv", "x", g.weight(width, 3, 16, 16), g.weight(width, scale=0.01), kernel_shape=[16, 16], strides=[16, 16])
    x = g.node("Transpose", g.node("Reshape", x, g.constant(np.array([0, width, 196]))), perm=[0, 2, 1])
    token = g.node("Expand", g.weight(1, 1, width, scale=0.02), g.node("Concat", g.node("Slice", g.node("Shape", "x"), g.constant(
        np.array([0])), g.constant(np.array([1]))), g.constant(np.array([1, width])), axis=0))
    x = g.node("Add", g.node("Concat", token, x, axis=1), g.weight(1, tokens, width, scale=0.02))
    norm = lambda x: g.node("LayerNormalization", x, g.constant(np.ones(width, np.float32)), g.constant(np.zeros(width, np.float32)),
                            axis=-1, epsilon=1e-6)
    split = lambda x, perm: g.node("Transpose", g.node("Reshape", x, g.constant(np.array([0, tokens, heads, width // heads]))), perm=perm)
    for _ in range(12):
        y = norm(x)
        q, k, v = (split(g.linear(y, width, width), perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = g.node("Softmax", g.node("Mul", g.node("MatMul", q, k), g.constant(np.float32(0.125))), axis=-1)
        y = g.node("Reshape", g.node("Transpose", g.node("MatMul", scores, v), perm=[0, 2, 1, 3]), g.constant(np.array([0, tokens, width])))
        x = g.node("Add", x, g.linear(y, width, width))
        y = g.linear(norm(x), width, 4 * width)
        half = g.node("Add", g.node("Erf", g.node("Div", y, g.constant(np.float32(2**0.5)))), g.constant(np.float32(1)))
        x = g.node("Add", x, g.linear(g.node("Mul", g.node("Mul", y, half), g.constant(np.float32(0.5))), 4 * width, width))
    x = g.node("Gather", norm(x), g.constant(np.array(0)), axis=1)
    return g.model(g.node("Gemm", x, g.weight(width, 1000, scale=0.02), g.weight(1000, scale=0.01)))


NETS = {"mobilenet_v2": mobilenet_v2, "resnet18": lambda: resnet(False, [2, 2, 2, 2]),
        "resnet50": lambda: resnet(True, [3, 4, 6, 3]), "vit_b_16": vit_b_16}


def least(call, seconds):
    call()
    times = []
    while sum(times) < seconds or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def tern(program, net, batch, threads, seconds):
    out = subprocess.run([program, net, str(batch), str(threads), str(seconds)], capture_output=True, text=True, check=True)
    return float(out.stdout.split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer")
    parser.add_argument("--base", help="the same program of an older commit")
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    options = parser.parse_args()
    print(f"TERN_SIMD={os.environ.get('TERN_SIMD', '')}, {options.threads} threads, ONNX Runtime {onnxruntime.__version__}; ms\n")
    print("| network | images | before | now | ONNX Runtime | before / now | ORT / now |\n|---|---|---|---|---|---|---|")
    for net in options.nets.split(","):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(NETS[net]().SerializeToString(), settings, providers=["CPUExecutionProvider"])
        for batch in map(int, options.batches.split(",")):
            x = np.random.default_rng(2).standard_normal((batch, 3, 224, 224), dtype=np.float32)
            before, now, peer = [], [], []
            for _ in range(options.rounds):
                now.append(tern(options.infer, net, batch, options.threads, options.seconds))
                peer.append(least(lambda: session.run(None, {"x": x}), options.seconds))
                if options.base:
                    before.append(tern(options.base, net, batch, options.threads, options.seconds))
            a, b, c = min(before, default=float("nan")), min(now), min(peer)
            print(f"| {net} | {batch} | {a:.2f} | {b:.2f} | {c:.2f} | {a / b:.2f} | {c / b:.2f} |", flush=True)


if __name__ == "__main__":
    main()
