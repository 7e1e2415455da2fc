#!/usr/bin/env python3
"""The race of mnist_race.cpp in PyTorch and in JAX: the same LeNet, recipe and counting. On a GPU PyTorch runs a step
as one CUDA graph, JAX an epoch as one program. On processors (--threads N) both run step by step: XLA runs convolutions
that are inside a loop on one thread there. What they record and compile is ready before their clock starts; what Tern
records is inside its own.

usage: mnist_race.py FOLDER [--jax | --compile] [--tf32 | --threads N] [--batch N] [--epochs N] [--learning-rate R]
                     [--warmup E] [--target A] [--seeds N]
       (FOLDER: MNIST's four files, raw or .gz)
"""

import argparse
import gzip
import math
import os
import pathlib
import time

import numpy


def read(folder, name):
    raw = pathlib.Path(folder) / name
    data = raw.read_bytes() if raw.exists() else gzip.decompress(pathlib.Path(f"{raw}.gz").read_bytes())
    dims = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dims)]
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dims).reshape(shape).copy()


def learning_rates(options, steps):
    """One for each step: rising at first, then falling along a cosine to 0."""
    warmup, total = int(steps * options.warmup), steps * options.epochs
    factors = [(at + 1) / (warmup + 1) if at < warmup else
               0.5 * (1 + math.cos(math.pi * (at - warmup) / (total - warmup))) for at in range(total)]
    return options.learning_rate * numpy.array(factors, numpy.float32)


class TorchRacer:
    def __init__(self, train, test, options):
        import torch
        from nets import NETS
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32
        torch.backends.cudnn.benchmark = True
        self.torch, self.make, self.options = torch, NETS["lenet"][0], options
        self.device = "cpu" if options.threads else "cuda"
        if options.threads:
            torch.set_num_threads(options.threads)

        def resident(images, labels):
            return (torch.from_numpy(images).reshape(-1, 1, 28, 28).to(self.device),
                    torch.from_numpy(labels).long().to(self.device))

        self.train, self.test = resident(*train), resident(*test)
        self.images, self.test_images = (self.normalized(images) for images, _ in (self.train, self.test))
        where = f"{options.threads} threads" if options.threads else torch.cuda.get_device_name()
        self.name = f"PyTorch {torch.__version__}, {where}{', compiled' * options.compile}"

    @staticmethod
    def normalized(images):
        return (images.float() / 255 - 0.1307) / 0.3081

    def prepare(self, seed):
        torch, options = self.torch, self.options
        torch.manual_seed(seed)
        self.net = self.make().to(self.device)
        self.learning_rate = torch.tensor(options.learning_rate, device=self.device)
        sgd = torch.optim.SGD(self.net.parameters(), lr=self.learning_rate, momentum=0.9, nesterov=True,
                              weight_decay=5e-4, fused=True)
        loss_of = torch.compile(self.net.loss, dynamic=False) if options.compile else self.net.loss
        self.batch = self.images[:options.batch].clone(), self.train[1][:options.batch].clone()
        start = [p.detach().clone() for p in self.net.parameters()]

        def step():
            self.loss = loss_of(*self.batch)
            sgd.zero_grad(set_to_none=True)
            self.loss.backward()
            sgd.step()

        self.step = step
        if options.threads:
            step()
        else:
            self.record(step)
        with torch.no_grad():
            for parameter, value in zip(self.net.parameters(), start):
                parameter.copy_(value)
            for state in sgd.state.values():
                state["momentum_buffer"].zero_()
        self.accuracy()

    def record(self, step):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        self.step = graph.replay

    def normalize(self):
        self.images, self.test_images = self.normalized(self.train[0]), self.normalized(self.test[0])

    def epoch(self, rates):
        order = self.torch.randperm(len(self.train[0]), device=self.device)[:len(rates) * self.options.batch]
        images, labels = (whole[order].split(self.options.batch) for whole in (self.images, self.train[1]))
        for at, rate in enumerate(rates):
            self.learning_rate.fill_(float(rate))
            self.batch[0].copy_(images[at])
            self.batch[1].copy_(labels[at])
            self.step()
        self.loss.item()

    def accuracy(self):
        with self.torch.no_grad():
            return (self.net(self.test_images).argmax(1) == self.test[1]).float().mean().item()


class JaxRacer:
    def __init__(self, train, test, options):
        if options.threads:
            os.environ["JAX_PLATFORMS"] = "cpu"
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])
        import jax_peer
        import jax
        from jax import numpy as jnp
        precision = "tf32" if options.tf32 else "strict"
        jax.config.update("jax_default_matmul_precision", jax_peer.PRECISIONS[precision])
        self.jax = jax
        self.weights, net = jax_peer.lenet()

        def resident(images, labels):
            return jnp.asarray(images.reshape(-1, 28, 28, 1)), jnp.asarray(labels.astype(numpy.int32))

        self.train, self.test = resident(*train), resident(*test)
        self.name = f"JAX {jax.__version__}, {jax.devices()[0].device_kind}"

        self.normalized = jax.jit(lambda images: (images.astype(jnp.float32) / 255 - 0.1307) / 0.3081)

        def logits(weights, images):
            return net(jax_peer.Forward(precision, True, None), weights, images)[0]

        def step(state, batch):
            images, labels, rate = batch
            weights, momenta = state
            loss, gradients = jax.value_and_grad(
                lambda weights: jax_peer.cross_entropy(logits(weights, images), labels))(weights)
            gradients = jax.tree.map(lambda g, p: g + 5e-4 * p, gradients, weights)
            momenta = jax.tree.map(lambda v, g: 0.9 * v + g, momenta, gradients)
            weights = jax.tree.map(lambda p, g, v: p - rate * (g + 0.9 * v), weights, gradients, momenta)
            return (weights, momenta), loss

        def shuffled(key, count, *whole):
            order = jax.random.permutation(key, len(whole[0]))[:count * options.batch]
            return [part[order].reshape(count, options.batch, *part.shape[1:]) for part in whole]

        def epoch(state, key, rates, images, labels):
            return jax.lax.scan(step, state, (*shuffled(key, len(rates), images, labels), rates))

        def accuracy(weights, images, labels):
            return jnp.mean(jnp.argmax(logits(weights, images), 1) == labels)

        one_step = jax.jit(step, donate_argnums=0)

        def step_by_step(state, key, rates, images, labels):
            for batch in zip(*shuffled(key, len(rates), images, labels), rates):
                state, loss = one_step(state, batch)
            return state, [loss]

        self.run_epoch = step_by_step if options.threads else jax.jit(epoch, donate_argnums=0)
        self.read = jax.jit(accuracy)
        self.prepare(0)
        self.normalize()
        self.epoch(numpy.zeros(len(self.train[0]) // options.batch, numpy.float32))
        self.accuracy()

    def prepare(self, seed):
        random = numpy.random.default_rng(seed)

        def drawn(pair):  # uniform as PyTorch's are
            bound = 1 / math.sqrt(math.prod(pair[0].shape[:-1]))
            return [self.jax.numpy.asarray(random.uniform(-bound, bound, part.shape), numpy.float32) for part in pair]

        weights = [drawn(pair) for pair in self.weights]
        self.key = self.jax.random.key(seed, impl="rbg")
        self.state = self.jax.block_until_ready((weights, self.jax.tree.map(self.jax.numpy.zeros_like, weights)))

    def normalize(self):
        self.images, self.test_images = self.normalized(self.train[0]), self.normalized(self.test[0])

    def epoch(self, rates):
        self.key, own = self.jax.random.split(self.key)
        self.state, losses = self.run_epoch(self.state, own, rates, self.images, self.train[1])
        losses[-1].item()

    def accuracy(self):
        return self.read(self.state[0], self.test_images, self.test[1]).item()


def race(racer, options, seed):
    """(seconds until the target or None, accuracy at the end, seconds of the fastest epoch) of one training."""
    racer.prepare(seed)
    steps = len(racer.train[0]) // options.batch
    rates = learning_rates(options, steps)
    reached, fastest = None, math.inf
    begin = time.perf_counter()
    racer.normalize()
    for at in range(0, len(rates), steps):
        first = time.perf_counter()
        racer.epoch(rates[at:at + steps])
        fastest = min(fastest, time.perf_counter() - first)
        accuracy = racer.accuracy()
        if accuracy >= options.target and reached is None:
            reached = time.perf_counter() - begin
    return reached, accuracy, fastest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--jax", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--warmup", type=float, default=0.5, help="epochs in which the rate rises")
    parser.add_argument("--target", type=float, default=0.99)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    train, test = ([read(options.folder, f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1")]
                   for part in ("train", "t10k"))
    racer = (JaxRacer if options.jax else TorchRacer)(train, test, options)
    print(f"LeNet in {racer.name}, {'tf32' if options.tf32 else 'strict'}, batch {options.batch}, {options.epochs} "
          f"epochs, learning rate {options.learning_rate:g}\n")
    print(f"| seed | until {100 * options.target:.1f} % | at the end | an epoch |\n|---|---|---|---|")
    for seed in range(1, options.seeds + 1):
        reached, accuracy, fastest = race(racer, options, seed)
        until = "never" if reached is None else f"{reached * 1e3:.0f} ms"
        print(f"| {seed} | {until} | {accuracy * 100:.2f} % | {fastest * 1e3:.1f} ms |", flush=True)


if __name__ == "__main__":
    main()
