"""The models of benchmarks/modes in JAX: the same layers, the same work, channels last, as XLA likes them."""

import math
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch and Tern use the same card

import jax
import numpy
from jax import lax
from jax import numpy as jnp

INCEPTIONS = [  # in, 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool
    (192, 64, 96, 128, 16, 32, 32), (256, 128, 128, 192, 32, 96, 64), (480, 192, 96, 208, 16, 48, 64),
    (512, 160, 112, 224, 24, 64, 64), (512, 128, 128, 256, 24, 64, 64), (512, 112, 144, 288, 32, 64, 64),
    (528, 256, 160, 320, 32, 128, 128), (832, 256, 160, 320, 32, 128, 128), (832, 384, 192, 384, 48, 128, 128),
]
PRECISIONS = {"strict": "float32", "tf32": "tensorfloat32", "bf16": "bfloat16"}


def layer(*shape):
    """Weights [kernel..., in, out] and biases of one layer, uniform as PyTorch's are."""
    bound = 1 / math.sqrt(math.prod(shape[:-1]))
    random = numpy.random.default_rng(sum(shape))
    return [jnp.asarray(random.uniform(-bound, bound, size), jnp.float32) for size in (shape, shape[-1:])]


class Forward:
    """The layers that the nets are made of; in bf16 products and convolutions read rounded factors."""

    def __init__(self, precision, training, key):
        self.dtype = jnp.bfloat16 if precision == "bf16" else jnp.float32
        self.training = training
        self.key = key

    def dense(self, weights, x):
        weight, bias = weights
        return x.astype(self.dtype) @ weight.astype(self.dtype) + bias.astype(self.dtype)

    def conv(self, weights, x, stride=1, padding=0, groups=1):
        weight, bias = weights
        y = lax.conv_general_dilated(
            x.astype(self.dtype), weight.astype(self.dtype), (stride, stride), [(padding, padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)
        return y + bias.astype(self.dtype)

    def conv_relu(self, *arguments, **options):
        return jax.nn.relu(self.conv(*arguments, **options))

    def max_pool(self, x, size, stride, before=0, after=0):
        around = [(0, 0), (before, after), (before, after), (0, 0)]
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), around)

    def average_pool(self, x, size, stride):
        window, strides = (1, size, size, 1), (1, stride, stride, 1)
        return lax.reduce_window(x.astype(jnp.float32), 0.0, lax.add, window, strides, "VALID") / (size * size)

    def response_norm(self, x):
        whole = x.astype(jnp.float32)
        sums = lax.reduce_window(whole * whole, 0.0, lax.add, (1, 1, 1, 5), (1, 1, 1, 1), [(0, 0)] * 3 + [(2, 2)])
        return (whole * (1 + 1e-4 / 5 * sums) ** -0.75).astype(x.dtype)

    def dropout(self, x, rate):
        if not self.training:
            return x
        self.key, own = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(own, 1 - rate, x.shape), x / (1 - rate), 0).astype(x.dtype)

    def norm(self, weights, x):
        """Batch normalisation by the batch in training, by kept statistics in inference; these are not updated."""
        scale, shift, mean, variance = weights
        whole = x.astype(jnp.float32)
        if self.training:
            mean, variance = jnp.mean(whole, (0, 1, 2)), jnp.var(whole, (0, 1, 2))
        factor = scale * lax.rsqrt(variance + 1e-5)
        return (whole * factor + (shift - mean * factor)).astype(x.dtype)

    def conv_norm(self, weights, x, stride=1, padding=0):
        weight, norm = weights
        y = lax.conv_general_dilated(
            x.astype(self.dtype), weight.astype(self.dtype), (stride, stride), [(padding, padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return self.norm(norm, y)

    @staticmethod
    def flat(x):
        return x.reshape(x.shape[0], -1)


# A net returns its weights and a function of (layers, weights, x) that returns the outputs: first the net's own, then
# those of auxiliary heads, which only training needs.


def mlp(hidden):
    def run(to, weights, x):
        for weight in weights[:-1]:
            x = jax.nn.relu(to.dense(weight, x))
        return [to.dense(weights[-1], x)]

    return [layer(784, hidden), layer(hidden, hidden), layer(hidden, hidden), layer(hidden, 10)], run


def lenet():
    def run(to, weights, x):
        x = to.max_pool(to.conv(weights[0], x), 2, 2)
        x = to.max_pool(to.conv(weights[1], x), 2, 2)
        return [to.dense(weights[3], jax.nn.relu(to.dense(weights[2], to.flat(x))))]

    return [layer(5, 5, 1, 20), layer(5, 5, 20, 50), layer(800, 500), layer(500, 10)], run


def alexnet():
    def run(to, weights, x):
        x = to.max_pool(to.response_norm(to.conv_relu(weights[0], x, stride=4)), 3, 2)
        x = to.max_pool(to.response_norm(to.conv_relu(weights[1], x, padding=2, groups=2)), 3, 2)
        x = to.conv_relu(weights[2], x, padding=1)
        x = to.conv_relu(weights[3], x, padding=1, groups=2)
        x = to.max_pool(to.conv_relu(weights[4], x, padding=1, groups=2), 3, 2)
        x = to.dropout(jax.nn.relu(to.dense(weights[5], to.flat(x))), 0.5)
        x = to.dropout(jax.nn.relu(to.dense(weights[6], x)), 0.5)
        return [to.dense(weights[7], x)]

    weights = [layer(11, 11, 3, 96), layer(5, 5, 48, 256), layer(3, 3, 256, 384), layer(3, 3, 192, 384),
               layer(3, 3, 192, 256), layer(9216, 4096), layer(4096, 4096), layer(4096, 1000)]
    return weights, run


def inception(to, weights, x):
    one, reduce_three, three, reduce_five, five, pool = weights
    return jnp.concatenate([
        to.conv_relu(one, x),
        to.conv_relu(three, to.conv_relu(reduce_three, x), padding=1),
        to.conv_relu(five, to.conv_relu(reduce_five, x), padding=2),
        to.conv_relu(pool, to.max_pool(x, 3, 1, 1, 1)),
    ], -1)


def auxiliary_head(to, weights, x):
    x = to.conv_relu(weights[0], to.average_pool(x, 5, 3))
    return to.dense(weights[2], to.dropout(jax.nn.relu(to.dense(weights[1], to.flat(x))), 0.7))


def googlenet():
    def pool(to, x):  # as with ceil_mode: one more row and column below and to the right
        return to.max_pool(x, 3, 2, 0, 1)

    def run(to, weights, x):
        stem, modules, heads, last = weights
        x = to.response_norm(pool(to, to.conv_relu(stem[0], x, stride=2, padding=3)))
        x = to.conv_relu(stem[2], to.conv_relu(stem[1], x), padding=1)
        x = pool(to, to.response_norm(x))
        outputs = []
        for at, module in enumerate(modules):
            x = inception(to, module, x)
            if at in (1, 6):
                x = pool(to, x)
            if to.training and at in (2, 5):
                outputs.append(auxiliary_head(to, heads[len(outputs)], x))
        return [to.dense(last, to.dropout(jnp.mean(x, (1, 2)), 0.4))] + outputs

    stem = [layer(7, 7, 3, 64), layer(1, 1, 64, 64), layer(3, 3, 64, 192)]
    modules = [[layer(1, 1, i, a), layer(1, 1, i, b), layer(3, 3, b, c),
                layer(1, 1, i, d), layer(5, 5, d, e), layer(1, 1, i, f)]
               for i, a, b, c, d, e, f in INCEPTIONS]
    heads = [[layer(1, 1, channels, 128), layer(2048, 1024), layer(1024, 1000)] for channels in (512, 528)]
    return (stem, modules, heads, layer(1024, 1000)), run


def conv_norm(size, inputs, outputs):
    kept = [make(outputs) for make in (jnp.ones, jnp.zeros, jnp.zeros, jnp.ones)]  # scale, shift, mean, variance
    return [layer(size, size, inputs, outputs)[0], kept]


def resnet(blocks, deep):
    """torchvision's ResNets: blocks of two 3x3 convolutions or, `deep`, of 1x1, 3x3 (which strides) and 1x1."""
    def block(to, weights, x, stride):
        convolutions, shortcut = weights
        y = x
        for at, weight in enumerate(convolutions):
            size = weight[0].shape[0]
            strides = stride if at == (1 if deep else 0) else 1
            y = to.conv_norm(weight, y, strides, size // 2)
            if at + 1 < len(convolutions):
                y = jax.nn.relu(y)
        return jax.nn.relu(y + (x if shortcut is None else to.conv_norm(shortcut, x, stride)))

    def run(to, weights, x):
        stem, stages, last = weights
        x = to.max_pool(jax.nn.relu(to.conv_norm(stem, x, 2, 3)), 3, 2, 1, 1)
        for number, stage in enumerate(stages):
            for at, each in enumerate(stage):
                x = block(to, each, x, 2 if number > 0 and at == 0 else 1)
        return [to.dense(last, jnp.mean(x, (1, 2)))]

    stages, inputs = [], 64
    for number, count in enumerate(blocks):
        width, stage = 64 << number, []
        outputs = width * 4 if deep else width
        for at in range(count):
            sizes = [(1, inputs, width), (3, width, width), (1, width, outputs)] if deep else \
                [(3, inputs, width), (3, width, width)]
            new = at == 0 and (number > 0 or inputs != outputs)
            stage.append(([conv_norm(*size) for size in sizes], conv_norm(1, inputs, outputs) if new else None))
            inputs = outputs
        stages.append(stage)
    return (conv_norm(7, 3, 64), stages, layer(inputs, 1000)), run


def vgg16():
    plan = [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0]  # 0: a pool

    def run(to, weights, x):
        convolutions, dense = iter(weights[0]), weights[1]
        for width in plan:
            x = to.conv_relu(next(convolutions), x, padding=1) if width else to.max_pool(x, 2, 2)
        x = to.flat(x)
        for weight in dense[:2]:
            x = to.dropout(jax.nn.relu(to.dense(weight, x)), 0.5)
        return [to.dense(dense[2], x)]

    widths = [3] + [width for width in plan if width]
    convolutions = [layer(3, 3, a, b) for a, b in zip(widths, widths[1:])]
    return (convolutions, [layer(25088, 4096), layer(4096, 4096), layer(4096, 1000)]), run


NETS = {  # name: (weights and function, shape of an input, classes, steps in one program)
    "mlp-small": (lambda: mlp(196), (784,), 10, 64),
    "mlp-medium": (lambda: mlp(392), (784,), 10, 64),
    "mlp-big": (lambda: mlp(784), (784,), 10, 64),
    "lenet": (lenet, (28, 28, 1), 10, 64),
    "alexnet": (alexnet, (227, 227, 3), 1000, 8),
    "googlenet": (googlenet, (224, 224, 3), 1000, 8),
    "resnet18": (lambda: resnet([2, 2, 2, 2], False), (224, 224, 3), 1000, 8),
    "resnet50": (lambda: resnet([3, 4, 6, 3], True), (224, 224, 3), 1000, 8),
    "vgg16": (vgg16, (224, 224, 3), 1000, 8),
}


def cross_entropy(logits, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), labels[:, None], 1)
    return -jnp.mean(chosen)


class JaxPeer:
    """One net in JAX. A training step is forward, loss, backward and SGD with momentum and weight decay, jitted with
    the weights donated: called step by step, and as a loop of many steps inside one program."""

    def __init__(self, net, batch, phase, precision):
        make, shape, classes, self.loop = NETS[net]
        jax.config.update("jax_default_matmul_precision", PRECISIONS[precision])
        self.precision, self.phase = precision, phase
        weights, self.net = make()
        self.state = (weights, jax.tree.map(jnp.zeros_like, weights))
        random = numpy.random.default_rng(0)
        self.x = jnp.asarray(random.standard_normal((batch, *shape)), jnp.float32)
        self.labels = jnp.asarray(random.integers(0, classes, batch))
        self.last = None

    def loss(self, weights, key):
        outputs = self.net(Forward(self.precision, True, key), weights, self.x)
        losses = [cross_entropy(output, self.labels) for output in outputs]
        return losses[0] + 0.3 * sum(losses[1:]) if len(losses) > 1 else losses[0]

    def step(self, state, key):
        weights, momenta = state
        loss, gradients = jax.value_and_grad(self.loss)(weights, key)
        momenta = jax.tree.map(lambda v, g, p: 0.9 * v + g + 5e-4 * p, momenta, gradients, weights)
        return (jax.tree.map(lambda p, v: p - 1e-3 * v, weights, momenta), momenta), loss

    def many(self, state, key):
        keys = jax.random.split(key, self.loop)
        return lax.scan(self.step, state, keys)

    def variants(self):
        """(name, run, steps in a run) of each variant."""
        if self.phase == "infer":
            forward = jax.jit(lambda weights, x: self.net(Forward(self.precision, False, None), weights, x)[0])

            def infer():
                self.last = forward(self.state[0], self.x)

            yield "jax", infer, 1
            return
        key = jax.random.key(0, impl="rbg")
        for name, function, steps in (("jax", self.step, 1), ("jax loop", self.many, self.loop)):
            jitted = jax.jit(function, donate_argnums=0)

            def train(jitted=jitted):
                self.state, self.last = jitted(self.state, key)

            yield name, train, steps

    def wait(self):
        jax.block_until_ready((self.last, self.state))
