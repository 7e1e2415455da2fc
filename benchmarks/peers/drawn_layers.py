"""Layers drawn at random from what published networks use, for sweep.py and sweep_cpu.py.

A layer is an operator of sweep_layers.hpp with its sizes, in the order in which that reads them. Each kind of layer has
a generator of its own: the layers of a kind depend on the seed alone, not on which other kinds are drawn.
"""

import random
from dataclasses import dataclass

IMAGES = ("first", "last")  # layouts of images
WIDTHS = [64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1600, 2048, 3072, 4096]
TOKENS = [49, 50, 64, 77, 128, 196, 197, 256, 257, 384, 512, 577, 1024, 2048]


@dataclass(frozen=True)
class Layer:
    kind: str
    op: str
    sizes: tuple
    layouts: tuple = ("",)  # of x; the better one counts

    def request(self, phase, layout):
        return " ".join(map(str, (self.op, phase) + ((layout,) if layout else ()) + self.sizes))

    @property
    def sort(self):
        """What convolutions are reported by; other layers by their operator."""
        if self.op != "conv":
            return self.op
        c, k, groups = self.sizes[1], self.sizes[4], self.sizes[8]
        if groups > 1:
            return "conv, depthwise" if groups == c else "conv, grouped"
        return "conv, 1x1" if k == 1 else "conv, others"

    def __str__(self):
        return f"{self.op} {NAMES[self.op](*self.sizes)}"


def name_of_conv(n, c, h, o, k, stride, padding, dilation, groups):
    return (f"{n}x{c}x{h}x{h} to {o} by {k}x{k}" + (f", stride {stride}" if stride > 1 else "") +
            (f", dilation {dilation}" if dilation > 1 else "") + (f", {groups} groups" if groups > 1 else ""))


NAMES = {
    "conv": name_of_conv,
    "linear": lambda rows, i, o, act: f"{rows}x{i} to {o}" + (f", {act}" if act != "none" else ""),
    "matmul": lambda b, m, k, n, t: f"{b} of {m}x{k} by {f'({n}x{k})^T' if t else f'{k}x{n}'}",
    "attention": lambda n, heads, groups, q, s, e, causal:
        f"{n}x{heads}x{q}x{e}" + (f", {s} keys" if s != q else "") +
        (f", {groups} groups" if groups != heads else "") + (", causal" if causal else ""),
    "batch_norm": lambda n, c, h, form: f"{n}x{c}x{h}x{h}, {form}",
    "group_norm": lambda n, c, h, groups: f"{n}x{c}x{h}x{h}, {groups} groups",
    "max_pool": lambda n, c, h, k, s, p: f"{n}x{c}x{h}x{h} by {k}x{k}, stride {s}",
    "avg_pool": lambda n, c, h, k, s, p: f"{n}x{c}x{h}x{h} by {k}x{k}, stride {s}",
    "channel_scale": lambda n, c, h: f"{n}x{c}x{h}x{h}",
}
for op in ("layer_norm", "rms_norm", "softmax", "cross_entropy", "bias_gelu", "add_relu", "swiglu", "layer_scale"):
    NAMES[op] = lambda rows, width: f"{rows}x{width}"


def draw(generator, batches, most_elements, most_flops):
    """A convolution: N, C, H, O, K, stride, padding, dilation, groups."""
    def channels(most):
        if generator.random() < 0.8:
            return max(1, int(2 ** generator.uniform(0, most) / 8 + 0.5) * 8)
        return generator.randint(1, 2 ** most)

    while True:
        n = generator.choice(batches)
        h = generator.choice([7, 14, 28, 56, 112, 224])
        c = channels(11)
        kind = generator.choice(["plain", "plain", "1x1", "grouped", "depthwise"])
        k = 1 if kind == "1x1" else generator.choice([3, 3, 3, 5, 7])
        if kind == "depthwise":
            o, groups = c, c
        elif kind == "grouped":
            groups = generator.choice([2, 4, 8, 16, 32])
            c = max(groups, c // groups * groups)
            o = c
        else:
            o, groups = channels(11), 1
        stride = generator.choice([1, 1, 1, 2])
        dilation = generator.choice([1] * 9 + [2])
        flops = 2 * n * (h // stride) ** 2 * o * c // groups * k * k
        if n * h * h * max(c, o) <= most_elements and flops <= most_flops:
            return n, c, h, o, k, stride, dilation * (k - 1) // 2, dilation, groups


# What follows returns a layer with its largest tensor's elements and its floating point operations.
def width_of(generator):
    return generator.choice(WIDTHS) if generator.random() < 0.8 else generator.randint(1, 4096)


def tokens_of(generator):
    return generator.choice(TOKENS) if generator.random() < 0.8 else generator.randint(1, 2048)


def rows_of(generator, batches):
    return generator.choice(batches) * (1 if generator.random() < 0.3 else tokens_of(generator))


def linear(generator, batches):
    rows, width = rows_of(generator, batches), width_of(generator)
    wide, activation = generator.choice([(4 * width, "gelu"), (4 * width, "relu"), (4 * width, "none"),
                                         (3 * width, "none"), (width, "none"), (width, "relu"),
                                         (generator.choice([10, 100, 1000, 30522]), "none")])
    i, o = width, wide
    if activation == "none" and wide == 4 * width and generator.random() < 0.8:
        i, o = wide, width
    return Layer("linear", "linear", (rows, i, o, activation)), max(rows * i, i * o, rows * o), 2 * rows * i * o


def product(generator, batches):
    batch = generator.choice(batches) * generator.choice([1, 3, 6, 8, 12, 16])
    m, k, n = tokens_of(generator), generator.choice([32, 40, 48, 64, 72, 80, 96, 128]), tokens_of(generator)
    form = generator.choice(["scores", "values", "free"])
    if form == "values":
        k, n = n, k
    if form == "free":
        k = width_of(generator)
    sizes = (batch, m, k, n, int(form == "scores"))
    return Layer("product", "matmul", sizes), batch * max(m * k, k * n, m * n), 2 * batch * m * k * n


def attention(generator, batches):
    n, heads = generator.choice(batches), generator.choice([1, 2, 3, 4, 6, 8, 12, 16, 32])
    width = generator.choice([32, 40, 48, 64, 64, 64, 72, 80, 96, 128])
    queries = keys = generator.choice(TOKENS) if generator.random() < 0.8 else generator.randint(49, 2048)
    form = generator.choice(["self", "self", "self", "causal", "causal", "cross", "one query"])
    if form == "cross":
        keys = generator.choice([77, 128, 197, 256])
    if form == "one query":
        queries = 1
    groups = heads
    if generator.random() < 0.25:
        groups = heads // generator.choice([d for d in (2, 4, 8, heads) if heads % d == 0])
    sizes = (n, heads, groups, queries, keys, width, int(form == "causal"))
    return (Layer("attention", "attention", sizes, (generator.choice(["heads", "tokens", "tokens"]),)),
            n * heads * max(queries, keys) * width, 4 * n * heads * queries * keys * width)


def image_of(generator, batches):
    channels = max(1, int(2 ** generator.uniform(3, 11) / 8 + 0.5) * 8)
    if generator.random() < 0.2:
        channels = generator.randint(1, 2048)
    return generator.choice(batches), channels, generator.choice([7, 14, 28, 56, 112, 224])


def norm(generator, batches):
    op = generator.choice(["batch_norm", "batch_norm", "layer_norm", "group_norm", "rms_norm"])
    if op in ("layer_norm", "rms_norm"):
        rows, width = rows_of(generator, batches), width_of(generator)
        return Layer("norm", op, (rows, width)), rows * width, 0
    n, c, h = image_of(generator, batches)
    if op == "batch_norm":
        more = generator.choice(["plain", "relu", "relu", "added"])
    else:
        more = generator.choice([g for g in (1, 8, 16, 32, 32, 32) if c % g == 0])
    return Layer("norm", op, (n, c, h, more), IMAGES), n * c * h * h, 0


def pooling(generator, batches):
    n, c, h = image_of(generator, batches)
    op, k, stride, padding = generator.choice([("max_pool", 3, 2, 1), ("max_pool", 2, 2, 0), ("max_pool", 3, 1, 1),
                                               ("avg_pool", 2, 2, 0), ("avg_pool", 3, 1, 1), ("avg_pool", h, h, 0)])
    return Layer("pooling", op, (n, c, h, k, stride, padding), IMAGES), n * c * h * h, 0


def softmax(generator, batches):
    if generator.random() < 0.5:
        rows, width = generator.choice(batches) * generator.choice([1, 8, 12]) * tokens_of(generator), \
                      tokens_of(generator)
        return Layer("softmax", "softmax", (rows, width)), rows * width, 0
    rows, classes = rows_of(generator, batches), generator.choice([2, 10, 100, 1000, 1000, 21841, 30522, 50257])
    return Layer("softmax", "cross_entropy", (rows, classes)), rows * classes, 0


def chain(generator, batches):
    op = generator.choice(["bias_gelu", "add_relu", "swiglu", "layer_scale", "channel_scale"])
    if op == "channel_scale":
        n, c, h = image_of(generator, batches)
        return Layer("chain", op, (n, c, h), IMAGES), n * c * h * h, 0
    rows, width = rows_of(generator, batches), width_of(generator)
    return Layer("chain", op, (rows, width)), rows * width, 0


KINDS = {"conv": None, "linear": linear, "product": product, "attention": attention, "norm": norm, "pooling": pooling,
         "softmax": softmax, "chain": chain}


def layers(seed, kinds, batches, most_elements, most_flops):
    """An endless sequence of layers, the kinds in turn."""
    generators = {kind: random.Random(seed if kind == "conv" else f"{seed} {kind}") for kind in kinds}
    while True:
        for kind in kinds:
            generator = generators[kind]
            if kind == "conv":
                yield Layer("conv", "conv", draw(generator, batches, most_elements, most_flops), IMAGES)
                continue
            while True:
                layer, elements, flops = KINDS[kind](generator, batches)
                if elements <= most_elements and flops <= most_flops:
                    yield layer
                    break
