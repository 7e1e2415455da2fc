"""The layers of drawn_layers.py as ONNX models for ONNX Runtime: inference, weights as constants."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

OPSET, MICROSOFT = 23, "com.microsoft"


def runs_of(layer, threads):
    """-> {name: run} of the models that ONNX Runtime takes; cross entropy has none."""
    if layer.op not in OPS:
        return {}
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    runs = {}
    for name, (inputs, weights, nodes) in OPS[layer.op](layer).items():
        rng = np.random.default_rng(1)
        feeds = {key: rng.standard_normal(shape, dtype=np.float32) for key, shape in inputs.items()}
        constants = [onnx.numpy_helper.from_array(
            value if isinstance(value, np.ndarray) else rng.standard_normal(value, dtype=np.float32), key)
            for key, value in weights.items()]
        values = [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in inputs.items()]
        graph = helper.make_graph(nodes, "layer", values,
                                  [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
                                  constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET),
                                                        helper.make_opsetid(MICROSOFT, 1)])
        model.ir_version = 10
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), settings,
                                                   providers=["CPUExecutionProvider"])
            session.run(None, feeds)
        except Exception as error:  # what it cannot run in this way
            print(f"ONNX Runtime, {name}, {layer}: {error}")
            continue
        runs[name] = lambda session=session, feeds=feeds: session.run(None, feeds)
    return runs


def one(inputs, weights, *nodes):
    return {"ONNX Runtime": (inputs, weights, list(nodes))}


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs.split(), [output], **attributes)


def conv(layer):
    n, c, h, o, k, stride, padding, dilation, groups = layer.sizes
    return one({"x": (n, c, h, h)}, {"w": (o, c // groups, k, k), "b": (o,)},
               node("Conv", "x w b", "y", kernel_shape=[k, k], strides=[stride] * 2, pads=[padding] * 4,
                    dilations=[dilation] * 2, group=groups), node("Relu", "y", "z"))


def linear(layer):
    rows, i, o, activation = layer.sizes
    nodes = [node("Gemm", "x w b", "y", transB=1)]
    if activation != "none":
        nodes.append(node({"relu": "Relu", "gelu": "Gelu"}[activation], "y", "z"))
    weight = np.random.default_rng(2).standard_normal((o, i), dtype=np.float32) / np.float32(i ** 0.5)
    return one({"x": (rows, i)}, {"w": weight, "b": (o,)}, *nodes)


def matmul(layer):
    batch, m, k, n, transposed = layer.sizes
    if not transposed:
        return one({"a": (batch, m, k), "b": (batch, k, n)}, {}, node("MatMul", "a b", "y"))
    return one({"a": (batch, m, k), "b": (batch, n, k)}, {}, node("Transpose", "b", "t", perm=[0, 2, 1]),
               node("MatMul", "a t", "y"))


def attention(layer):
    n, heads, groups, queries, keys, width, causal = layer.sizes
    by_tokens = layer.layouts[0] == "tokens"

    def part(number, tokens):
        return (n, tokens, number * width) if by_tokens else (n, number, tokens, width)
    inputs = {"q": part(heads, queries), "k": part(groups, keys), "v": part(groups, keys)}
    counts = {"q_num_heads": heads, "kv_num_heads": groups} if by_tokens else {}
    ways = one(inputs, {}, node("Attention", "q k v", "y", is_causal=causal, **counts))
    if by_tokens and heads == groups:
        ways["ONNX Runtime, multi-head"] = (inputs, {}, [node("MultiHeadAttention", "q k v", "y", num_heads=heads,
                                                              unidirectional=causal, domain=MICROSOFT)])
    return ways


def batch_norm(layer):
    n, c, h, form = layer.sizes
    inputs, nodes = {"x": (n, c, h, h)}, [node("BatchNormalization", "x w b m v", "y")]
    if form == "added":
        inputs["more"] = (n, c, h, h)
        nodes.append(node("Add", "y more", "s"))
    if form != "plain":
        nodes.append(node("Relu", nodes[-1].output[0], "z"))
    ones = np.ones(c, np.float32)
    return one(inputs, {"w": (c,), "b": (c,), "m": 0 * ones, "v": ones}, *nodes)


def group_norm(layer):
    n, c, h, groups = layer.sizes
    return one({"x": (n, c, h, h)}, {"w": (c,), "b": (c,)},
               node("GroupNormalization", "x w b", "y", num_groups=groups))


def pool(layer):
    n, c, h, k, stride, padding = layer.sizes
    if k == h:
        return one({"x": (n, c, h, h)}, {}, node("GlobalAveragePool", "x", "y"))
    more = {"count_include_pad": 1} if layer.op == "avg_pool" else {}
    return one({"x": (n, c, h, h)}, {},
               node("MaxPool" if layer.op == "max_pool" else "AveragePool", "x", "y", kernel_shape=[k, k],
                    strides=[stride] * 2, pads=[padding] * 4, **more))


def rows_op(nodes, inputs=("x",), weights=()):
    def op(layer):
        rows, width = layer.sizes
        return one({key: (rows, width) for key in inputs}, {key: (width,) for key in weights}, *nodes)
    return op


def channel_scale(layer):
    n, c, h = layer.sizes
    return one({"x": (n, c, h, h), "s": (n, c, 1, 1)}, {}, node("Mul", "x s", "y"))


OPS = {"conv": conv, "linear": linear, "matmul": matmul, "attention": attention, "batch_norm": batch_norm,
       "group_norm": group_norm, "max_pool": pool, "avg_pool": pool, "channel_scale": channel_scale,
       "layer_norm": rows_op([node("LayerNormalization", "x w b", "y", axis=-1)], weights=("w", "b")),
       "rms_norm": rows_op([node("RMSNormalization", "x w", "y", axis=-1)], weights=("w",)),
       "softmax": rows_op([node("Softmax", "x", "y", axis=-1)]),
       "bias_gelu": rows_op([node("Add", "x b", "y"), node("Gelu", "y", "z")], weights=("b",)),
       "add_relu": rows_op([node("Add", "x more", "y"), node("Relu", "y", "z")], ("x", "more")),
       "swiglu": rows_op([node("Sigmoid", "x", "s"), node("Mul", "x s", "y"), node("Mul", "y more", "z")],
                         ("x", "more")),
       "layer_scale": rows_op([node("Mul", "more w", "y"), node("Add", "x y", "z")], ("x", "more"), ("w",))}
