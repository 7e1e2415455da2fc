"""The layers of drawn_layers.py in PyTorch, in each way that may be the fastest there."""

import contextlib
import math

import torch
from torch.nn import attention as backends
from torch.nn import functional


def ways_of(layer):
    """-> {name: make}; make(phase, device, dtype) -> a run of the layer."""
    if layer.layouts == ("first", "last"):
        return {"NCHW": run_maker(layer, torch.contiguous_format), "NHWC": run_maker(layer, torch.channels_last)}
    if layer.op != "attention":
        return {"plain": run_maker(layer)}
    n, heads, groups = layer.sizes[:3]
    ways = {"sdpa": run_maker(layer), "math": run_maker(layer, backend=[backends.SDPBackend.MATH])}
    if heads != groups:
        ways["sdpa, repeated"] = run_maker(layer, repeats=True)
    return ways


def run_maker(layer, layout=None, **options):
    def make(phase, device, dtype, autocast=False):
        trains = phase == "train"

        def random(*shape):
            x = torch.randn(*shape, device=device).to(dtype)
            return x.to(memory_format=layout) if layout is not None and x.ndim == 4 else x
        leaves, forward = OPS[layer.op](random, trains, layer, **options)

        def cast():
            return torch.autocast(device, torch.bfloat16, cache_enabled=False) if autocast else contextlib.nullcontext()
        if not trains:
            def run():
                with torch.no_grad(), cast():
                    return forward(*leaves)
            return run
        leaves = [leaf.requires_grad_() for leaf in leaves]
        with cast():
            grad = torch.randn_like(forward(*leaves))

        def run():
            with cast():
                y = forward(*leaves)
            return torch.autograd.grad(y, leaves, grad)
        return run
    return make


def conv(random, trains, layer):
    n, c, h, o, k, stride, padding, dilation, groups = layer.sizes
    return ((random(n, c, h, h), random(o, c // groups, k, k), random(o)),
            lambda x, w, b: functional.conv2d(x, w, b, stride, padding, dilation, groups).relu_())


def linear(random, trains, layer):
    rows, i, o, name = layer.sizes
    activation = {"none": lambda y: y, "relu": torch.relu_, "gelu": functional.gelu}[name]
    weight = random(o, i) / math.sqrt(i)  # results of the size of the inputs
    return (random(rows, i), weight, random(o)), lambda x, w, b: activation(functional.linear(x, w, b))


def matmul(random, trains, layer):
    batch, m, k, n, transposed = layer.sizes
    if transposed:
        return (random(batch, m, k), random(batch, n, k)), lambda a, b: torch.bmm(a, b.transpose(1, 2))
    return (random(batch, m, k), random(batch, k, n)), torch.bmm


def attention(random, trains, layer, backend=None, repeats=False):
    n, heads, groups, queries, keys, width, causal = layer.sizes
    by_tokens = layer.layouts[0] == "tokens"

    def part(number, tokens):
        return random(n, tokens, number, width) if by_tokens else random(n, number, tokens, width)

    def forward(q, k, v):
        if by_tokens:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        if repeats:
            k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
        with contextlib.nullcontext() if backend is None else backends.sdpa_kernel(backend):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal),
                                                        enable_gqa=heads != groups and not repeats)
        return y.transpose(1, 2).reshape(n, queries, heads * width) if by_tokens else y
    return (part(heads, queries), part(groups, keys), part(groups, keys)), forward


def batch_norm(random, trains, layer):
    n, c, h, form = layer.sizes
    x, w, b = random(n, c, h, h), random(c), random(c)
    mean, variance = torch.zeros_like(b), torch.ones_like(b)

    def forward(x, w, b, added=None):
        y = functional.batch_norm(x, mean, variance, w, b, training=trains)
        y = y if added is None else y.add_(added)
        return y if form == "plain" else y.relu_()
    return (x, w, b) + ((random(n, c, h, h),) if form == "added" else ()), forward


def group_norm(random, trains, layer):
    n, c, h, groups = layer.sizes
    return (random(n, c, h, h), random(c), random(c)), lambda x, w, b: functional.group_norm(x, groups, w, b)


def layer_norm(random, trains, layer):
    rows, width = layer.sizes
    return (random(rows, width), random(width), random(width)), \
        lambda x, w, b: functional.layer_norm(x, (width,), w, b)


def rms_norm(random, trains, layer):
    rows, width = layer.sizes
    return (random(rows, width), random(width)), lambda x, w: functional.rms_norm(x, (width,), w)


def max_pool(random, trains, layer):
    n, c, h, k, stride, padding = layer.sizes
    return (random(n, c, h, h),), lambda x: functional.max_pool2d(x, k, stride, padding)


def avg_pool(random, trains, layer):
    n, c, h, k, stride, padding = layer.sizes
    if k == h:
        return (random(n, c, h, h),), lambda x: functional.adaptive_avg_pool2d(x, 1)
    return (random(n, c, h, h),), lambda x: functional.avg_pool2d(x, k, stride, padding)


def cross_entropy(random, trains, layer):
    rows, classes = layer.sizes
    x = random(rows, classes)
    labels = torch.randint(0, classes, (rows,), device=x.device)
    return (x,), lambda x: functional.cross_entropy(x, labels)


def rows_op(function, *shapes):
    """An operator of [rows, width] tensors; False for those of one row."""
    def op(random, trains, layer):
        rows, width = layer.sizes
        return tuple(random(rows, width) if whole else random(width) for whole in shapes), function
    return op


def channel_scale(random, trains, layer):
    n, c, h = layer.sizes
    return (random(n, c, h, h), random(n, c, 1, 1)), torch.mul


OPS = {"conv": conv, "linear": linear, "matmul": matmul, "attention": attention, "batch_norm": batch_norm,
       "group_norm": group_norm, "layer_norm": layer_norm, "rms_norm": rms_norm, "max_pool": max_pool,
       "avg_pool": avg_pool, "cross_entropy": cross_entropy, "channel_scale": channel_scale,
       "softmax": rows_op(lambda x: functional.softmax(x, -1), True),
       "bias_gelu": rows_op(lambda x, b: functional.gelu(x + b), True, False),
       "add_relu": rows_op(lambda x, y: (x + y).relu_(), True, True),
       "swiglu": rows_op(lambda x, y: functional.silu(x) * y, True, True),
       "layer_scale": rows_op(lambda x, y, scale: torch.addcmul(x, y, scale), True, True, False)}
