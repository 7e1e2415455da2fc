#!/usr/bin/env python3
"""Training steps of the networks that the library ships, on the processor: Tern's beside PyTorch's, in turns.

A step is forward, mean cross-entropy, backward and SGD with momentum. PyTorch runs eagerly in both layouts, with its
fused optimiser, and with --compile also through torch.compile; the best of them counts. The least of the calls' times,
of the clock and of the processor; above 1, Tern is faster.

usage: train_cpu.py PATH/TO/infer --threads 2 --rounds 3 --seconds 1 --batches 1,8
"""

import argparse

import nets
import torch
import torchvision

from infer import Peer, Tern

IMAGE = (3, 224, 224)
NETS = {
    "mlp": nets.NETS["mlp-big"], "lenet": nets.NETS["lenet"], "alexnet": nets.NETS["alexnet"],
    "googlenet": nets.NETS["googlenet"],
    **{name: (lambda make=make: nets.Classifier(make()), IMAGE, 1000) for name, make in {
        "resnet18": torchvision.models.resnet18, "resnet50": torchvision.models.resnet50,
        "mobilenet_v2": torchvision.models.mobilenet_v2, "vgg16": torchvision.models.vgg16,
        "vit_b_16": torchvision.models.vit_b_16}.items()},
    "unet": (nets.UNet, (3, 128, 128), 2),
}


def pytorch(name, batch, layout, compiled):
    torch.manual_seed(1)
    make, shape, classes = NETS[name]
    net = make().train()
    x = torch.randn(batch, *shape)
    if x.dim() == 4:
        net, x = net.to(memory_format=layout), x.to(memory_format=layout)
    labels = torch.randint(classes, (batch, *shape[1:]) if name == "unet" else (batch,))
    sgd = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, fused=True)
    loss_of = torch.compile(net.loss) if compiled else net.loss

    def step():
        loss = loss_of(x, labels)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        return loss.item()

    return Peer(step)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("infer")
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ways = [("first", torch.contiguous_format, False), ("last", torch.channels_last, False)]
    if options.compile:
        ways += [("first, compiled", torch.contiguous_format, True), ("last, compiled", torch.channels_last, True)]
    print(f"PyTorch {torch.__version__}, {options.threads} threads; ms of the clock / of the processor\n")
    print("| network | images | Tern | PyTorch, channels " + " | ".join(way[0] for way in ways) + " | best / Tern |")
    print("|---|---|---|" + "---|" * len(ways) + "---|")
    for name in options.nets.split(","):
        for batch in map(int, options.batches.split(",")):
            sides = [Tern(options.infer, name, batch, options.threads, "train")]
            sides += [pytorch(name, batch, layout, compiled) for _, layout, compiled in ways]
            best = [(float("inf"), float("inf"))] * len(sides)
            for _ in range(options.rounds):
                for i, side in enumerate(sides):
                    best[i] = tuple(map(min, best[i], side(options.seconds)))
            sides[0].close()
            ratio = [min(b[k] for b in best[1:]) / best[0][k] for k in (0, 1)]
            print(f"| {name} | {batch} | " + " | ".join(f"{b[0]:.2f} / {b[1]:.2f}" for b in best) +
                  f" | {ratio[0]:.2f} / {ratio[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
