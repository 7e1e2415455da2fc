"""The models of benchmarks/modes in PyTorch: the same layers, the same work."""

from torch import nn


def mlp(hidden):
    return nn.Sequential(
        nn.Linear(784, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, 10),
    )


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2, 2),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )


NETS = {
    "mlp-small": (lambda: mlp(196), (784,)),
    "mlp-medium": (lambda: mlp(392), (784,)),
    "mlp-big": (lambda: mlp(784), (784,)),
    "lenet": (lenet, (1, 28, 28)),
}
