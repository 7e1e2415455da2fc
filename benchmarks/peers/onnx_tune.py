#!/usr/bin/env python3
"""An imported ResNet18 fine-tuned on pictures of CIFAR-10, and the same in PyTorch from the same weights.

PyTorch trains torchvision's ResNet18 on pictures of the classes 0 to 4 first (--first), and exports it with a new last
layer. Both programs then fine-tune all of it on pictures of ten classes (--tune), with batch normalisation in
evaluation, and are tested on others (--test). Each seed draws the order of the pictures.

usage: onnx_tune.py PROGRAM PICTURES FOLDER [--first N] [--tune N] [--test N] [--epochs E] [--seeds S] [--threads T]
"""

import argparse
import pathlib
import statistics
import subprocess

import numpy as np
import torch
import torchvision
from PIL import Image
from torch import nn


def pictures(folder, each, begin=0, classes=10):
    """Of each class: [N, 3, 32, 32] and [N]."""
    images, labels = [], []
    for label, name in enumerate(sorted(path.name for path in folder.iterdir())[:classes]):
        for file in sorted((folder / name).iterdir())[begin:begin + each]:
            images.append(np.asarray(Image.open(file).convert("RGB"), np.float32) / 255)
            labels.append(label)
    x = (np.stack(images) - [0.4914, 0.4822, 0.4465]) / [0.247, 0.2435, 0.2616]
    return torch.tensor(x.transpose(0, 3, 1, 2), dtype=torch.float32).contiguous(), torch.tensor(labels)


def train(net, x, y, epochs, batch, rate, seed):
    generator = torch.Generator().manual_seed(seed)
    sgd = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    for _ in range(epochs):
        order = torch.randperm(len(y), generator=generator)
        for rows in order.split(batch):
            if len(rows) < batch:
                break
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            sgd.zero_grad()
            loss.backward()
            sgd.step()


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    return (torch.cat([net(part).argmax(1) for part in x.split(100)]) == y).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("pictures", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--tune", type=int, default=2000)
    parser.add_argument("--test", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.005)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    options.folder.mkdir(parents=True, exist_ok=True)
    net = torchvision.models.resnet18(num_classes=5)
    x, y = pictures(options.pictures / "train", options.first // 5, classes=5)
    train(net, x, y, 3, 50, 0.02, 0)
    net.fc = nn.Linear(512, 10)
    net.eval()
    weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    model, data = options.folder / "resnet18.onnx", options.folder / "pictures.npz"
    torch.onnx.export(net, x[:1], str(model), dynamo=False, opset_version=17, input_names=["x"],
                      do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE,
                      dynamic_axes={"x": {0: "batch"}})
    x, y = pictures(options.pictures / "train", options.tune // 10, begin=4000)
    test_x, test_y = pictures(options.pictures / "test", options.test // 10)
    np.savez(data, **{"train.x": x.numpy(), "train.y": y.numpy(), "test.x": test_x.numpy(), "test.y": test_y.numpy()})
    theirs = []
    for seed in range(options.seeds):
        net.load_state_dict(weights)
        net.eval()
        train(net, x, y, options.epochs, options.batch, options.rate, seed)
        theirs.append(accuracy(net, test_x, test_y))
    words = [options.program, model, data, options.threads, options.epochs, options.batch, options.rate]
    ran = subprocess.run([str(word) for word in words + list(range(options.seeds))], capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(ran.stderr)
    lines = ran.stdout.split("\n")
    ours = [float(line) for line in lines[1:] if line]
    net.load_state_dict(weights)
    print(f"before: PyTorch {accuracy(net, test_x, test_y):.4f}, Tern {lines[0].split()[1]}")
    for name, each in (("PyTorch", theirs), ("Tern", ours)):
        print(f"{name}: mean {statistics.mean(each):.4f}, deviation {statistics.stdev(each):.4f}, "
              + " ".join(f"{one:.4f}" for one in each))


if __name__ == "__main__":
    main()
