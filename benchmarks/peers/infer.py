"""Inference on the processor: Tern's `vectorized` mode beside ONNX Runtime and OpenVINO, interleaved on the same cores.

The networks are written as ONNX graphs of random weights, batch normalisation folded into the convolutions, as an
exporter leaves them: no PyTorch is needed. Of all rounds the least time counts, on all sides: of the clock, and of the
processor, which other programs on the machine disturb less.

All are held to AVX2 where avx2_only.c is preloaded.

usage: infer.py PATH/TO/infer [--base OLDER_INFER] [--nets resnet18,...] [--batches 1,8] [--threads 2] [--rounds 5]
"""

import argparse
import os
import subprocess
import sys
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
        deviation = (2 / fan) ** 0.5 if scale is None else scale
        values = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        return self.constant(values)

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def conv(self, x, c, o, k=1, stride=1, groups=1, act=None, padding=None):
        x = self.node("Conv", x, self.weight(o, c // groups, k, k), self.weight(o, scale=0.01), kernel_shape=[k, k],
                      strides=[stride, stride], pads=[k // 2 if padding is None else padding] * 4, group=groups)
        if act == "relu6":
            return self.node("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self.node("Relu", x) if act == "relu" else x

    def linear(self, x, c, o):
        return self.node("Add", self.node("MatMul", x, self.weight(c, o, scale=0.02)), self.weight(o, scale=0.01))

    def pool(self, x, kernel=2, stride=2, padding=0, up=0):
        return self.node("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4,
                         ceil_mode=up)

    def norm(self, x):
        return self.node("LRN", x, size=5, alpha=1e-4, beta=0.75, bias=1.0)

    def layers(self, x, *sizes):
        """Linear layers with relu between them."""
        x = self.node("Flatten", x)
        for i, (c, o) in enumerate(zip(sizes, sizes[1:])):
            x = self.node("Relu", x) if i > 0 else x
            x = self.node("Gemm", x, self.weight(o, c), self.weight(o, scale=0.01), transB=1)
        return x

    def head(self, x, c):
        x = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.node("Gemm", x, self.weight(c, 1000, scale=0.02),
                         self.weight(1000, scale=0.01))

    def model(self, out, shape=(3, 224, 224)):
        value = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, "net", [value("x", ["n", *shape])], [value(out, None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        return model


def mobilenet_v2():
    g = Graph()
    x, c = g.conv("x", 3, 32, 3, 2, act="relu6"), 32
    for expansion, channels, blocks, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                (6, 96, 3, 1),
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
    x, c = g.pool(g.conv("x", 3, 64, 7, 2, act="relu"), 3, 2, 1), 64
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
    x = g.node("Conv", "x", g.weight(width, 3, 16, 16), g.weight(width, scale=0.01), kernel_shape=[16, 16],
               strides=[16, 16])
    x = g.node("Transpose", g.node("Reshape", x, g.constant(np.array([0, width, 196]))), perm=[0, 2, 1])
    images = g.node("Slice", g.node("Shape", "x"), g.constant(np.array([0])), g.constant(np.array([1])))
    one = g.node("Concat", images, g.constant(np.array([1, width])), axis=0)
    token = g.node("Expand", g.weight(1, 1, width, scale=0.02), one)
    x = g.node("Add", g.node("Concat", token, x, axis=1), g.weight(1, tokens, width, scale=0.02))
    ones, none = g.constant(np.ones(width, np.float32)), g.constant(np.zeros(width, np.float32))
    norm = lambda x: g.node("LayerNormalization", x, ones, none, axis=-1, epsilon=1e-6)
    by_heads = g.constant(np.array([0, tokens, heads, width // heads]))
    whole = g.constant(np.array([0, tokens, width]))
    split = lambda x, perm: g.node("Transpose", g.node("Reshape", x, by_heads), perm=perm)
    for _ in range(12):
        y = norm(x)
        q, k, v = (split(g.linear(y, width, width), perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        scores = g.node("Softmax", g.node("Mul", g.node("MatMul", q, k), g.constant(np.float32(0.125))), axis=-1)
        y = g.node("Reshape", g.node("Transpose", g.node("MatMul", scores, v), perm=[0, 2, 1, 3]), whole)
        x = g.node("Add", x, g.linear(y, width, width))
        y = g.linear(norm(x), width, 4 * width)
        half = g.node("Add", g.node("Erf", g.node("Div", y, g.constant(np.float32(2**0.5)))), g.constant(np.float32(1)))
        y = g.node("Mul", g.node("Mul", y, half), g.constant(np.float32(0.5)))
        x = g.node("Add", x, g.linear(y, 4 * width, width))
    x = g.node("Gather", norm(x), g.constant(np.array(0)), axis=1)
    return g.model(g.node("Gemm", x, g.weight(width, 1000, scale=0.02), g.weight(1000, scale=0.01)))


def mlp():
    g = Graph()
    return g.model(g.layers("x", 784, 784, 784, 784, 10), (784,))


def lenet():
    g = Graph()
    x = g.pool(g.conv(g.pool(g.conv("x", 1, 20, 5, padding=0)), 20, 50, 5, padding=0))
    return g.model(g.layers(x, 800, 500, 10), (1, 28, 28))


def alexnet():
    g = Graph()
    x = g.pool(g.norm(g.conv("x", 3, 96, 11, 4, act="relu", padding=0)), 3)
    x = g.pool(g.norm(g.conv(x, 96, 256, 5, groups=2, act="relu")), 3)
    x = g.conv(g.conv(x, 256, 384, 3, act="relu"), 384, 384, 3, groups=2, act="relu")
    x = g.pool(g.conv(x, 384, 256, 3, groups=2, act="relu"), 3)
    return g.model(g.layers(x, 9216, 4096, 4096, 1000), (3, 227, 227))


def googlenet():
    g = Graph()
    x = g.norm(g.pool(g.conv("x", 3, 64, 7, 2, act="relu"), 3, up=1))
    x = g.pool(g.norm(g.conv(g.conv(x, 64, 64, act="relu"), 64, 192, 3, act="relu")), 3, up=1)
    c = 192
    for row in [
            (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None, (192, 96, 208, 16, 48, 64),
            (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
            (256, 160, 320, 32, 128, 128), None, (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)]:
        if row is None:
            x = g.pool(x, 3, up=1)
            continue
        one, reduce3, three, reduce5, five, pool = row
        relu = lambda y, c, o, k=1: g.conv(y, c, o, k, act="relu")
        x = g.node("Concat", relu(x, c, one), relu(relu(x, c, reduce3), reduce3, three, 3),
                   relu(relu(x, c, reduce5), reduce5, five, 5), relu(g.pool(x, 3, 1, 1), c, pool), axis=1)
        c = one + three + five + pool
    return g.model(g.head(x, c))


def vgg16():
    g = Graph()
    x, c = "x", 3
    for channels, count in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        for _ in range(count):
            x, c = g.conv(x, c, channels, 3, act="relu"), channels
        x = g.pool(x)
    return g.model(g.layers(x, 25088, 4096, 4096, 1000))


def unet():
    g = Graph()
    twice = lambda x, c, o: g.conv(g.conv(x, c, o, 3, act="relu"), o, o, 3, act="relu")
    x, seen, c = twice("x", 3, 64), [], 64
    for _ in range(4):
        seen.append(x)
        x, c = twice(g.pool(x), c, 2 * c), 2 * c
    for before in reversed(seen):
        up = g.node("ConvTranspose", x, g.weight(c, c // 2, 2, 2), g.weight(c // 2, scale=0.01), kernel_shape=[2, 2],
                    strides=[2, 2])
        x, c = twice(g.node("Concat", before, up, axis=1), c, c // 2), c // 2
    return g.model(g.conv(x, c, 2), (3, 128, 128))


NETS = {"mlp": mlp, "lenet": lenet, "alexnet": alexnet, "googlenet": googlenet,
        "resnet18": lambda: resnet(False, [2, 2, 2, 2]),
        "resnet50": lambda: resnet(True, [3, 4, 6, 3]), "mobilenet_v2": mobilenet_v2, "vgg16": vgg16, "unet": unet,
        "vit_b_16": vit_b_16}


class Tern:
    """A process that holds the network between measurements."""

    def __init__(self, program, net, batch, threads, phase="program"):
        self.process = subprocess.Popen([program, net, str(batch), str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env={**os.environ, "PHASE": phase})

    def __call__(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        return float(words[0]), float(words[3])

    def close(self):
        self.process.communicate()


class Peer:
    def __init__(self, run):
        self.run = run
        for _ in range(2):
            run()

    def __call__(self, seconds):
        times, processor = [], []
        while sum(times) < seconds or len(times) < 3:
            start, clock = time.perf_counter(), time.process_time()
            self.run()
            processor.append(time.process_time() - clock)
            times.append(time.perf_counter() - start)
        return 1e3 * min(times), 1e3 * min(processor)

    def close(self):
        pass


def onnx_runtime(model, x, threads):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
    return Peer(lambda: session.run(None, {"x": x}))


def openvino_of(model, x, threads):
    import openvino

    core = openvino.Core()
    graph = core.read_model(model)
    graph.reshape(list(x.shape))
    compiled = core.compile_model(graph, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                                                 "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    return Peer(lambda: request.infer({0: x}))


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
    names = ["ONNX Runtime " + onnxruntime.__version__]
    try:
        import openvino
        names.append("OpenVINO " + openvino.__version__.split("-")[0])
    except ImportError:
        sys.stderr.write("without OpenVINO\n")
    names.append("Tern, eager")
    if options.base:
        names.append("before, eager")
    print(f"{options.threads} threads; ms of the clock / of the processor\n")
    print("| network | images | Tern | " + " | ".join(names) + " | best peer / Tern |")
    print("|---|---|---|" + "---|" * len(names) + "---|")
    for net in options.nets.split(","):
        model = NETS[net]()
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim][1:]
        model = model.SerializeToString()
        for batch in map(int, options.batches.split(",")):
            x = np.random.default_rng(2).standard_normal((batch, *shape), dtype=np.float32)
            sides = [Tern(options.infer, net, batch, options.threads), onnx_runtime(model, x, options.threads)]
            if any("OpenVINO" in name for name in names):
                sides.append(openvino_of(model, x, options.threads))
            peers = len(sides)
            sides.append(Tern(options.infer, net, batch, options.threads, "infer"))
            if options.base:
                sides.append(Tern(options.base, net, batch, options.threads, "infer"))
            for side in sides:  # Tern's processes may not be ready, and would disturb the others
                side(0)
            best = [(float("inf"), float("inf"))] * len(sides)
            for _ in range(options.rounds):
                for i, side in enumerate(sides):
                    best[i] = tuple(map(min, best[i], side(options.seconds)))
            for side in sides:
                side.close()
            ratio = lambda k: min(b[k] for b in best[1:peers]) / best[0][k]
            print(f"| {net} | {batch} | " + " | ".join(f"{b[0]:.2f} / {b[1]:.2f}" for b in best) +
                  f" | {ratio(0):.2f} / {ratio(1):.2f} |", flush=True)


if __name__ == "__main__":
    main()
