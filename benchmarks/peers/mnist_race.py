#!/usr/bin/env python3
"""The race of mnist_race.cpp in PyTorch: the same LeNet, recipe and counting, on a GPU with the step as one CUDA graph.

usage: mnist_race.py FOLDER [--compile] [--tf32] [--seeds N]     (FOLDER: MNIST's four files, raw or .gz)
"""

import argparse
import gzip
import math
import pathlib
import time

import numpy
import torch

from nets import NETS


def read(folder, name):
    raw = pathlib.Path(folder) / name
    data = raw.read_bytes() if raw.exists() else gzip.decompress(pathlib.Path(f"{raw}.gz").read_bytes())
    dims = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dims)]
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dims).reshape(shape).copy())


def normalized(images):
    return (images.float() / 255 - 0.1307) / 0.3081


def race(train, test, options, seed, batch=128, epochs=2, rate=0.06, target=0.99):
    torch.manual_seed(seed)
    images, labels = train
    net = NETS["lenet"][0]().cuda()
    learning_rate = torch.tensor(rate, device="cuda")
    sgd = torch.optim.SGD(
        net.parameters(), lr=learning_rate, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=True)
    loss_of = torch.compile(net.loss, dynamic=False) if options.compile else net.loss
    rows = torch.zeros(batch, dtype=torch.int64, device="cuda")
    start = [p.detach().clone() for p in net.parameters()]

    def step():
        loss = loss_of(normalized(images[rows]), labels[rows])
        sgd.zero_grad(set_to_none=True)
        loss.backward()
        sgd.step()
        return loss

    # PyTorch wants its warm-up and its compiler before the clock starts; Tern's recording is inside of it.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), start):
            parameter.copy_(value)
        for state in sgd.state.values():
            state["momentum_buffer"].zero_()
    torch.cuda.synchronize()

    steps, done, reached, fastest = len(images) // batch, 0, None, math.inf
    warmup, total = steps // 4, steps * epochs
    begin = time.perf_counter()
    for epoch in range(1, epochs + 1):
        first = time.perf_counter()
        order = torch.randperm(len(images), device="cuda")
        for at in range(steps):
            position = done + at
            factor = ((position + 1) / (warmup + 1) if position < warmup else
                      0.5 * (1 + math.cos(math.pi * (position - warmup) / (total - warmup))))
            learning_rate.fill_(rate * factor)
            rows.copy_(order[at * batch:(at + 1) * batch])
            graph.replay()
        done += steps
        loss.item()
        fastest = min(fastest, time.perf_counter() - first)
        with torch.no_grad():
            accuracy = (net(normalized(test[0])).argmax(1) == test[1]).float().mean().item()
        if accuracy >= target and reached is None:
            reached = time.perf_counter() - begin
    return reached, accuracy, fastest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.tf32
    torch.backends.cudnn.benchmark = True

    def resident(name):
        images = read(options.folder, f"{name}-images-idx3-ubyte")
        labels = read(options.folder, f"{name}-labels-idx1-ubyte")
        return images.reshape(-1, 1, 28, 28).cuda(), labels.long().cuda()

    train, test = resident("train"), resident("t10k")
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {'tf32' if options.tf32 else 'strict'}"
          f"{', compiled' if options.compile else ''}\n")
    print("| seed | until 99.0 % | at the end | an epoch |\n|---|---|---|---|")
    for seed in range(1, options.seeds + 1):
        reached, accuracy, fastest = race(train, test, options, seed)
        until = "never" if reached is None else f"{reached * 1e3:.0f} ms"
        print(f"| {seed} | {until} | {accuracy * 100:.2f} % | {fastest * 1e3:.1f} ms |", flush=True)


if __name__ == "__main__":
    main()
