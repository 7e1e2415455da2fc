#!/usr/bin/env python3
"""The race of cifar_race.cpp in PyTorch: the same ResNet18, recipe and counting, on a GPU, with the images and their
changes there too. Channels last, fused SGD, and the step as one CUDA graph; the fastest of eager and compiled layers
by --compile.

usage: cifar_race.py FOLDER [--compile] [--precision strict|tf32|bf16] [--epochs N] [--seed N] [--batch N]
(FOLDER: CIFAR-10's binaries, data_batch_1.bin to data_batch_5.bin and test_batch.bin)
"""

import argparse
import math
import pathlib
import statistics
import time

import numpy
import torch
from torch import nn
from torch.nn import functional

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
SHIFT = 4


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = nn.Sequential()
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)), inplace=True)))
        return functional.relu(y + self.downsample(x), inplace=True)


def resnet18(classes=10):
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    channels = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, out, stride), Block(out, out, 1)]
        channels = out
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
    return net


def read(folder, names):
    records = numpy.concatenate([numpy.fromfile(folder / name, numpy.uint8).reshape(-1, 3073) for name in names])
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()).cuda()
    return images, torch.from_numpy(records[:, 0].astype(numpy.int64)).cuda()


class Prepare:
    """Bytes shifted, flipped and normalised, channels last."""

    def __init__(self):
        self.mean = 255 * torch.tensor(MEAN, device="cuda").view(1, 3, 1, 1)
        self.deviation = 255 * torch.tensor(DEVIATION, device="cuda").view(1, 3, 1, 1)
        self.across = torch.arange(32, device="cuda")

    def __call__(self, images, rows=None, down=None, right=None, mirrored=None):
        if rows is not None:
            def reflected(position):
                return 31 - (31 - position.abs()).abs()
            y = reflected(self.across[None] + down[:, None])
            x = torch.where(mirrored[:, None], 31 - self.across[None], self.across[None])
            x = reflected(x + right[:, None])
            images = images[rows[:, None, None], :, y[:, :, None], x[:, None, :]]  # [n, height, width, channels]
            images = images.permute(0, 3, 1, 2)
        x = (images.float() - self.mean) / self.deviation
        return x.contiguous(memory_format=torch.channels_last)


def one_cycle(position, total, rise=0.25, start=25.0, end=1e4):
    top = rise * total - 1

    def between(a, b, share):
        return b + (a - b) / 2 * (1 + math.cos(math.pi * share))
    if position <= top:
        return between(1 / start, 1, position / top)
    return between(1, 1 / (start * end), (position - top) / (total - 1 - top))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", choices=("strict", "tf32", "bf16"), default="tf32")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.2)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision != "strict"
    torch.backends.cudnn.benchmark = True

    train_images, train_labels = read(options.folder, [f"data_batch_{i}.bin" for i in range(1, 6)])
    test_images, test_labels = read(options.folder, ["test_batch.bin"])
    prepare = Prepare()
    net = resnet18().cuda().to(memory_format=torch.channels_last)
    rate = torch.tensor(options.learning_rate, device="cuda")
    sgd = torch.optim.SGD(
        net.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=5e-4, fused=True)
    batch, count = options.batch, len(train_images)
    half = torch.autocast("cuda", torch.bfloat16, enabled=options.precision == "bf16", cache_enabled=False)

    def loss_of(rows, down, right, mirrored):
        x = prepare(train_images, rows, down, right, mirrored)
        with half:
            logits = net(x)
        return functional.cross_entropy(logits.float(), train_labels[rows], label_smoothing=0.1)

    compiled = torch.compile(loss_of, mode="max-autotune-no-cudagraphs") if options.compile else loss_of
    inputs = [torch.zeros(batch, dtype=torch.int64, device="cuda") for _ in range(3)]
    inputs.append(torch.zeros(batch, dtype=torch.bool, device="cuda"))

    def step():
        sgd.zero_grad(set_to_none=True)
        loss = compiled(*inputs)
        loss.backward()
        sgd.step()
        return loss.detach()

    # Warm-up, compilation and recording come before the clock starts; what they trained is undone.
    start = {name: value.clone() for name, value in net.state_dict().items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for name, value in net.state_dict().items():
            value.copy_(start[name])
        for state in sgd.state.values():
            state["momentum_buffer"].zero_()
    torch.cuda.synchronize()

    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {options.precision}"
          f"{', compiled' if options.compile else ''}, batch {batch}, seed {options.seed}\n")
    print("| epoch | loss | test accuracy | images/s | seconds |\n|---|---|---|---|---|")
    steps, position, all_seconds = count // batch, 0, []
    for epoch in range(1, options.epochs + 1):
        net.train()
        begin = time.perf_counter()
        order = torch.randperm(count, device="cuda")
        down, right = (torch.randint(-SHIFT, SHIFT + 1, (count,), device="cuda") for _ in range(2))
        mirrored = torch.rand(count, device="cuda") < 0.5
        total = torch.zeros((), device="cuda")
        for at in range(0, steps * batch, batch):
            rate.fill_(options.learning_rate * one_cycle(position, steps * options.epochs))
            rows = order[at:at + batch]
            for mine, value in zip(inputs, (rows, down[rows], right[rows], mirrored[rows])):
                mine.copy_(value)
            graph.replay()
            total += loss
            position += 1
        mean = total.item() / steps
        seconds = time.perf_counter() - begin
        all_seconds.append(seconds)
        net.eval()
        correct = 0
        with torch.no_grad(), half:
            for at in range(0, len(test_images), 1000):
                guessed = net(prepare(test_images[at:at + 1000])).argmax(1)
                correct += (guessed == test_labels[at:at + 1000]).sum().item()
        print(f"| {epoch} | {mean:.4f} | {100 * correct / len(test_images):.2f} % | {steps * batch / seconds:.0f} "
              f"| {seconds:.3f} |", flush=True)
    print(f"\nmedian {steps * batch / statistics.median(all_seconds):.0f} images/s")


if __name__ == "__main__":
    main()
