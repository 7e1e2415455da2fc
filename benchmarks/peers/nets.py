"""The models of benchmarks/modes in PyTorch: the same layers, the same work."""

import torch
from torch import nn
from torch.nn import functional


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


class Classifier(nn.Module):
    """A net with one output, trained with the mean cross-entropy."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return self.body(x)

    def loss(self, x, labels):
        return functional.cross_entropy(self(x), labels)


def response_norm():
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)


def conv_relu(channels, out, kernel, **options):
    return [nn.Conv2d(channels, out, kernel, **options), nn.ReLU(inplace=True)]


def alexnet():
    return nn.Sequential(
        *conv_relu(3, 96, 11, stride=4), response_norm(), nn.MaxPool2d(3, 2),
        *conv_relu(96, 256, 5, padding=2, groups=2), response_norm(), nn.MaxPool2d(3, 2),
        *conv_relu(256, 384, 3, padding=1),
        *conv_relu(384, 384, 3, padding=1, groups=2),
        *conv_relu(384, 256, 3, padding=1, groups=2), nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
        nn.Linear(4096, 1000),
    )


class Inception(nn.Module):
    def __init__(self, channels, one, reduce_three, three, reduce_five, five, pool):
        super().__init__()
        self.branches = nn.ModuleList([
            nn.Sequential(*conv_relu(channels, one, 1)),
            nn.Sequential(*conv_relu(channels, reduce_three, 1), *conv_relu(reduce_three, three, 3, padding=1)),
            nn.Sequential(*conv_relu(channels, reduce_five, 1), *conv_relu(reduce_five, five, 5, padding=2)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1), *conv_relu(channels, pool, 1)),
        ])

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def auxiliary_head(channels):
    return nn.Sequential(
        nn.AvgPool2d(5, 3, ceil_mode=True), *conv_relu(channels, 128, 1), nn.Flatten(),
        nn.Linear(2048, 1024), nn.ReLU(inplace=True), nn.Dropout(0.7), nn.Linear(1024, 1000),
    )


class GoogLeNet(nn.Module):
    def __init__(self):
        super().__init__()

        def pool():
            return nn.MaxPool2d(3, 2, ceil_mode=True)

        self.to_first = nn.Sequential(
            *conv_relu(3, 64, 7, stride=2, padding=3), pool(), response_norm(),
            *conv_relu(64, 64, 1), *conv_relu(64, 192, 3, padding=1), response_norm(), pool(),
            Inception(192, 64, 96, 128, 16, 32, 32), Inception(256, 128, 128, 192, 32, 96, 64), pool(),
            Inception(480, 192, 96, 208, 16, 48, 64),
        )
        self.to_second = nn.Sequential(
            Inception(512, 160, 112, 224, 24, 64, 64), Inception(512, 128, 128, 256, 24, 64, 64),
            Inception(512, 112, 144, 288, 32, 64, 64),
        )
        self.to_end = nn.Sequential(
            Inception(528, 256, 160, 320, 32, 128, 128), pool(),
            Inception(832, 256, 160, 320, 32, 128, 128), Inception(832, 384, 192, 384, 48, 128, 128),
            nn.AvgPool2d(7), nn.Flatten(), nn.Dropout(0.4), nn.Linear(1024, 1000),
        )
        self.first_head = auxiliary_head(512)
        self.second_head = auxiliary_head(528)

    def forward(self, x):
        return self.to_end(self.to_second(self.to_first(x)))

    def loss(self, x, labels):
        first = self.to_first(x)
        second = self.to_second(first)
        heads = functional.cross_entropy(self.first_head(first), labels)
        heads = heads + functional.cross_entropy(self.second_head(second), labels)
        return functional.cross_entropy(self.to_end(second), labels) + 0.3 * heads


def twice(channels, out):
    return nn.Sequential(*[layer for c in (channels, out) for layer in (
        nn.Conv2d(c, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True))])


class UNet(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        widths = [64 << level for level in range(5)]
        self.down = nn.ModuleList(twice(c, o) for c, o in zip([3] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * o, o, 2, stride=2) for o in widths[-2::-1])
        self.join = nn.ModuleList(twice(2 * o, o) for o in widths[-2::-1])
        self.out = nn.Conv2d(64, classes, 1)

    def forward(self, x):
        seen = [self.down[0](x)]
        for level in self.down[1:]:
            seen.append(level(functional.max_pool2d(seen[-1], 2)))
        x = seen.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([seen.pop(), up(x)], 1))
        return self.out(x)

    def loss(self, x, labels):
        return functional.cross_entropy(self(x), labels)


# name: (module with forward and loss, shape of an input, classes)
NETS = {
    "mlp-small": (lambda: Classifier(mlp(196)), (784,), 10),
    "mlp-medium": (lambda: Classifier(mlp(392)), (784,), 10),
    "mlp-big": (lambda: Classifier(mlp(784)), (784,), 10),
    "lenet": (lambda: Classifier(lenet()), (1, 28, 28), 10),
    "alexnet": (lambda: Classifier(alexnet()), (3, 227, 227), 1000),
    "googlenet": (GoogLeNet, (3, 224, 224), 1000),
}
