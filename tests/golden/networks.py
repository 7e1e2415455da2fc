"""The image networks of the golden data, in PyTorch, with torchvision's names of parameters."""

from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F


class Widths:
    """Published widths, divided: multiples of `groups`, and at least that."""

    def __init__(self, divisor):
        self.divisor = divisor

    def __call__(self, published, groups=1):
        return groups * max(1, published // (self.divisor * groups))


def norm():
    return nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)


class Classifier(nn.Module):
    def loss(self, images, labels):
        return F.cross_entropy(self(images), labels)


class AlexNet(Classifier):  # bvlc_alexnet
    def __init__(self, classes, image_size, width):
        super().__init__()
        a, b, c, d, e, hidden = width(96, 2), width(256, 2), width(384, 2), width(384, 2), width(256, 2), width(4096)
        layers = [
            ("0", nn.Conv2d(3, a, 11, 4)), ("1", nn.ReLU()), ("norm1", norm()), ("2", nn.MaxPool2d(3, 2)),
            ("3", nn.Conv2d(a, b, 5, padding=2, groups=2)), ("4", nn.ReLU()), ("norm2", norm()),
            ("5", nn.MaxPool2d(3, 2)),
            ("6", nn.Conv2d(b, c, 3, padding=1)), ("7", nn.ReLU()),
            ("8", nn.Conv2d(c, d, 3, padding=1, groups=2)), ("9", nn.ReLU()),
            ("10", nn.Conv2d(d, e, 3, padding=1, groups=2)), ("11", nn.ReLU()), ("12", nn.MaxPool2d(3, 2))]
        self.features = nn.Sequential(OrderedDict(layers))
        inputs = self.features(torch.zeros(1, 3, image_size, image_size)).numel()
        self.classifier = nn.Sequential(OrderedDict([
            ("1", nn.Linear(inputs, hidden)), ("2", nn.ReLU()), ("4", nn.Linear(hidden, hidden)), ("5", nn.ReLU()),
            ("6", nn.Linear(hidden, classes))]))

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


class ConvRelu(nn.Module):
    def __init__(self, *arguments, **options):
        super().__init__()
        self.conv = nn.Conv2d(*arguments, **options)

    def forward(self, x):
        return F.relu(self.conv(x))


class Inception(nn.Module):
    def __init__(self, inputs, one, reduce_three, three, reduce_five, five, pool):
        super().__init__()
        self.branch1 = ConvRelu(inputs, one, 1)
        self.branch2 = nn.Sequential(ConvRelu(inputs, reduce_three, 1), ConvRelu(reduce_three, three, 3, padding=1))
        self.branch3 = nn.Sequential(ConvRelu(inputs, reduce_five, 1), ConvRelu(reduce_five, five, 5, padding=2))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), ConvRelu(inputs, pool, 1))

    def forward(self, x):
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class AuxiliaryHead(nn.Module):
    def __init__(self, inputs, side, classes, width):
        super().__init__()
        self.conv = ConvRelu(inputs, width(128), 1)
        pooled = -(-(side - 5) // 3) + 1
        self.fc1 = nn.Linear(width(128) * pooled * pooled, width(1024))
        self.fc2 = nn.Linear(width(1024), classes)

    def forward(self, x):
        x = self.conv(F.avg_pool2d(x, 5, 3, ceil_mode=True))
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class GoogLeNet(Classifier):  # bvlc_googlenet
    def __init__(self, classes, image_size, width):
        super().__init__()
        channels = width(192)

        def inception(*published):
            nonlocal channels
            sizes = [width(size) for size in published]
            module = Inception(channels, *sizes)
            channels = sizes[0] + sizes[2] + sizes[4] + sizes[5]
            return module

        self.conv1 = ConvRelu(3, width(64), 7, stride=2, padding=3)
        self.conv2 = ConvRelu(width(64), width(64), 1)
        self.conv3 = ConvRelu(width(64), width(192), 3, padding=1)
        self.norm = norm()
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.inception3a = inception(64, 96, 128, 16, 32, 32)
        self.inception3b = inception(128, 128, 192, 32, 96, 64)
        self.inception4a = inception(192, 96, 208, 16, 48, 64)
        first = channels
        self.inception4b = inception(160, 112, 224, 24, 64, 64)
        self.inception4c = inception(128, 128, 256, 24, 64, 64)
        self.inception4d = inception(112, 144, 288, 32, 64, 64)
        second = channels
        self.inception4e = inception(256, 160, 320, 32, 128, 128)
        self.inception5a = inception(256, 160, 320, 32, 128, 128)
        self.inception5b = inception(384, 192, 384, 48, 128, 128)
        self.fc = nn.Linear(channels, classes)
        side = (image_size + 1) // 2 // 8
        self.aux1 = AuxiliaryHead(first, side, classes, width)
        self.aux2 = AuxiliaryHead(second, side, classes, width)

    def to_first_head(self, x):
        x = self.conv2(self.norm(self.pool(self.conv1(x))))
        x = self.pool(self.norm(self.conv3(x)))
        return self.inception4a(self.pool(self.inception3b(self.inception3a(x))))

    def to_second_head(self, x):
        return self.inception4d(self.inception4c(self.inception4b(x)))

    def to_logits(self, x):
        x = self.inception5b(self.inception5a(self.pool(self.inception4e(x))))
        return self.fc(x.mean((2, 3)))

    def forward(self, images):
        return self.to_logits(self.to_second_head(self.to_first_head(images)))

    def loss(self, images, labels):
        first = self.to_first_head(images)
        second = self.to_second_head(first)
        return (F.cross_entropy(self.to_logits(second), labels) + 0.3 * F.cross_entropy(self.aux1(first), labels)
                + 0.3 * F.cross_entropy(self.aux2(second), labels))


class Vgg16(Classifier):
    def __init__(self, classes, image_size, width):
        super().__init__()
        layers, channels, side = [], 3, image_size
        for published, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(convolutions):
                layers += [nn.Conv2d(channels, width(published), 3, padding=1), nn.ReLU()]
                channels = width(published)
            layers.append(nn.MaxPool2d(2))
            side //= 2
        hidden = width(4096)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(OrderedDict([
            ("0", nn.Linear(channels * side * side, hidden)), ("1", nn.ReLU()), ("3", nn.Linear(hidden, hidden)),
            ("4", nn.ReLU()), ("6", nn.Linear(hidden, classes))]))

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(Classifier):
    def __init__(self, classes, image_size, width):
        super().__init__()
        channels = width(64)
        self.conv1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        for i in range(1, 5):
            outputs = width(32 << i)
            first = ResidualBlock(channels, outputs, 1 if i == 1 else 2)
            blocks = nn.Sequential(first, ResidualBlock(outputs, outputs, 1))
            self.add_module(f"layer{i}", blocks)
            channels = outputs
        self.fc = nn.Linear(channels, classes)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, inputs, inner, stride):
        super().__init__()
        outputs = 4 * inner
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)))


class ResNet50(ResNet18):
    def __init__(self, classes, image_size, width):
        Classifier.__init__(self)
        channels = width(64)
        self.conv1 = nn.Conv2d(3, channels, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        for i, count in enumerate((3, 4, 6, 3), 1):
            blocks, inner = [], width(32 << i)
            for block in range(count):
                blocks.append(Bottleneck(channels, inner, 2 if block == 0 and i > 1 else 1))
                channels = 4 * inner
            self.add_module(f"layer{i}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion):
        super().__init__()
        wide = inputs * expansion
        layers = [] if expansion == 1 else [activated(inputs, wide, 1)]
        layers += [activated(wide, wide, 3, stride, wide), nn.Conv2d(wide, outputs, 1, bias=False),
                   nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


def activated(inputs, outputs, kernel, stride=1, groups=1):
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU6())


class MobileNetV2(Classifier):
    def __init__(self, classes, image_size, width):
        super().__init__()
        channels = width(32)
        layers = [activated(3, channels, 3, 2)]
        for expansion, published, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                                     (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for block in range(blocks):
                outputs = width(published)
                layers.append(InvertedResidual(channels, outputs, stride if block == 0 else 1, expansion))
                channels = outputs
        layers.append(activated(channels, width(1280), 1))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(OrderedDict([("1", nn.Linear(width(1280), classes))]))

    def forward(self, images):
        return self.classifier(self.features(images).mean((2, 3)))


def vit(classes, image_size, width):
    from torchvision.models import VisionTransformer
    narrow = width.divisor > 1
    return VisionTransformer(image_size, 8 if narrow else 16, 2 if narrow else 12, 6, width(384), width(1536),
                             num_classes=classes)


class UNet(nn.Module):
    """A network in which every pixel has a label."""
    dense = True

    def __init__(self, classes, image_size, width):
        super().__init__()

        def twice(inputs, outputs):
            layers = []
            for channels in (inputs, outputs):
                layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
            return nn.Sequential(*layers)

        channels = 3
        for level in range(5):
            self.add_module(f"down{level}", twice(channels, width(64 << level, 2)))
            channels = width(64 << level, 2)
        for level in reversed(range(4)):
            outputs = width(64 << level, 2)
            self.add_module(f"raise{level}", nn.ConvTranspose2d(channels, outputs, 2, 2))
            self.add_module(f"join{level}", twice(2 * outputs, outputs))
            channels = outputs
        self.out = nn.Sequential(nn.Conv2d(channels, classes, 1))

    def forward(self, images):
        seen = [self.down0(images)]
        for level in range(1, 5):
            seen.append(getattr(self, f"down{level}")(F.max_pool2d(seen[-1], 2)))
        x = seen.pop()
        for level in reversed(range(4)):
            x = getattr(self, f"join{level}")(torch.cat([seen.pop(), getattr(self, f"raise{level}")(x)], 1))
        return self.out(x)


NETS = {"alexnet": AlexNet, "googlenet": GoogLeNet, "vgg16": Vgg16, "resnet18": ResNet18, "resnet50": ResNet50,
        "mobilenetv2": MobileNetV2, "vit": vit, "unet": UNet}
