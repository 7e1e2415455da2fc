#!/usr/bin/env python3
"""Golden data: what PyTorch computes with the image networks.

  make_golden.py                                   the narrow networks of golden_test.cpp, into data/ beside this script
  make_golden.py --full alexnet --out FILE         a whole network, for golden_check
  make_golden.py --full alexnet --float64 --out FILE
                                                   computed in float64; says how far PyTorch's own float32 is from it

A file has the state of a network (state.*), pixels (an image is (pixels - 128) / 64) and labels, the logits in
evaluation, the losses of ten steps of SGD in training (three of the deep networks), the gradients of the first
(gradient.*) and the state after the last (after.*). A file of a deep network was computed in float64 and has what the
steps change (change.*) in place of after.*, since float32 would keep a few digits of it. Dropout is left out. The
parameters have torchvision's names: vit is torchvision's own module. Needs PyTorch and, for vit, torchvision."""

import argparse
import json
import pathlib
import struct

import torch
from torch import nn
from torch.nn import functional as F

from networks import NETS, Widths

WHOLE_SIZE = {"alexnet": 227, "googlenet": 224, "vgg16": 224, "resnet18": 224, "resnet50": 224, "mobilenetv2": 224,
              "vit": 224, "unet": 64}
NARROW = {  # image size, divisor of the widths, learning rate, and a seed with which no relu is dead from the start
    "alexnet": (67, 32, 0.005, 11), "googlenet": (80, 16, 0.002, 52), "vgg16": (32, 32, 0.005, 4),
    "resnet18": (64, 32, 0.005, 2),
    "vit": (32, 16, 0.005, 1), "unet": (32, 32, 0.005, 1)}
# Deep chains of batch normalisation magnify a difference a hundred thousand times in ten steps, and a relu within
# rounding of its kink moves single tensors: the first gradient of PyTorch's float32 is, tensor by tensor, 1e-4 to 9e-2
# from that of its own float64, and biases before a batch normalisation have none at all but rounding. These are
# computed in float64, compared by the norm over all tensors, and trained for three steps, in which float32 can follow.
DEEP = {"resnet50": (64, 32, 5e-7, 8), "mobilenetv2": (64, 16, 1e-5, 6)}


def start(net):
    """Weights for relu, and nothing at its usual value of 0 or 1, so that a forgotten bias or statistic shows."""
    for path, module in net.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, nn.ConvTranspose2d)):
            last = path in ("classifier.6", "classifier.1", "fc", "aux1.fc2", "aux2.fc2", "heads.head", "out.0")
            nn.init.kaiming_uniform_(module.weight, a=5**0.5 if last else 0)
            if module.bias is not None:
                nn.init.uniform_(module.bias, 0, 0.2)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
        if isinstance(module, nn.LayerNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
        if isinstance(module, nn.MultiheadAttention):
            nn.init.uniform_(module.in_proj_bias, -0.5, 0.5)
        if hasattr(module, "class_token"):
            nn.init.normal_(module.class_token)


def state(net, prefix):
    return {prefix + name: tensor.detach().clone() for name, tensor in net.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def compute(name, image_size, divisor, classes, batch, rate, steps, seed, dtype=torch.float32):
    torch.manual_seed(seed)
    net = NETS[name](classes, image_size, Widths(divisor))
    start(net)
    pixels = (128 + 64 * torch.randn(batch, 3, image_size, image_size)).clamp(0, 255).to(torch.uint8)
    images = ((pixels.float() - 128) / 64).to(dtype)
    dense = getattr(net, "dense", False)
    labels = torch.randint(0, classes, (batch, image_size, image_size) if dense else (batch,))
    tensors = state(net, "state.")
    tensors |= {"pixels": pixels, "labels": labels}
    net.to(dtype).eval()
    with torch.no_grad():
        tensors["logits"] = net(images)
    net.train()
    sgd = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    losses = []
    for step in range(steps):
        loss = net.loss(images, labels) if hasattr(net, "loss") else F.cross_entropy(net(images), labels)
        sgd.zero_grad()
        loss.backward()
        if step == 0:
            tensors |= {"gradient." + path: parameter.grad.clone() for path, parameter in net.named_parameters()}
        sgd.step()
        losses.append(loss.item())
    tensors["losses"] = torch.tensor(losses, dtype=dtype)
    tensors |= state(net, "after.")
    metadata = {"net": name, "image_size": image_size, "width_divisor": divisor, "classes": classes,
                "learning_rate": rate, "momentum": 0.9, "weight_decay": 5e-4, "torch": torch.__version__}
    dead = [path for path, _ in net.named_parameters() if not tensors["gradient." + path].any()]
    if dead:
        raise SystemExit(f"{name}: seed {seed} leaves {', '.join(dead)} without a gradient; take another")
    print(f"{name}: {sum(p.numel() for p in net.parameters())} parameters, losses", *(f"{x:.4f}" for x in losses))
    return tensors, {key: str(value) for key, value in metadata.items()}


def difference(golden, other, prefix, change=False):
    """The largest of max |other - golden| / max |golden| over the tensors whose names begin with `prefix`; their
    `change` counts from the state."""
    found = (0, "")
    for name, tensor in golden.items():
        if name.startswith(prefix):
            a, b = tensor.double(), other[name].double()
            if change:
                begin = golden["state." + name[len(prefix):]].double()
                a, b = a - begin, b - begin
            found = max(found, (float((b - a).abs().max() / a.abs().max()), name))
    return found


def save(file, tensors, metadata):
    """Writes a safetensors file: the length of the header, the header in JSON, the bytes."""
    names = {torch.float32: "F32", torch.int64: "I64", torch.uint8: "U8"}
    header, parts, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in sorted(tensors.items()):
        if tensor.dtype == torch.float64:
            tensor = tensor.float()
        data = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(data)]}
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file = pathlib.Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "wb") as stream:
        stream.write(struct.pack("<Q", len(text)))
        stream.write(text)
        for data in parts:
            stream.write(data)
    print(f"{file}: {file.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", choices=NETS, help="a whole network with 1,000 classes")
    parser.add_argument("--out", help="the file of a whole network, or the folder of the narrow ones")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.001, help="learning rate of a whole network")
    parser.add_argument("--float64", action="store_true",
                        help="compute a whole network in float64; the file is float32")
    parser.add_argument("--seed", type=int, default=1, help="of a whole network")
    parser.add_argument("--only", nargs="+", choices=[*NARROW, *DEEP], help="of the narrow networks")
    options = parser.parse_args()
    if options.full:
        if not options.out:
            parser.error("--full needs --out FILE")
        run = (options.full, WHOLE_SIZE[options.full], 1, 1000, options.batch, options.rate, options.steps,
               options.seed)
        tensors, metadata = compute(*run)
        if options.float64:
            golden, metadata = compute(*run, dtype=torch.float64)
            compared = [(prefix, False) for prefix in ("logits", "losses", "gradient.", "after.")] + [("after.", True)]
            for prefix, change in compared:
                largest, where = difference(golden, tensors, prefix, change)
                print(f"float32 against float64: {'change, ' if change else ''}{where} {largest:.1e}")
            tensors = golden
        save(options.out, tensors, metadata)
        return
    folder = pathlib.Path(options.out) if options.out else pathlib.Path(__file__).parent / "data"
    for name in options.only or [*NARROW, *DEEP]:
        size, divisor, rate, seed = (NARROW | DEEP)[name]
        run = (name, size, divisor, 5, options.batch, rate, 3 if name in DEEP else options.steps, seed)
        save(folder / f"{name}.safetensors", *(compute_deep(*run) if name in DEEP else compute(*run)))


def compute_deep(*run):
    tensors, metadata = compute(*run, dtype=torch.float64)
    single, _ = compute(*run)
    kinds = [torch.cat([found[name].double().flatten() for name in sorted(found) if name.startswith("gradient.")])
             for found in (tensors, single)]
    print(f"float32 against float64: gradient {float((kinds[1] - kinds[0]).norm() / kinds[0].norm()):.1e} of its norm")
    for name in [name for name in tensors if name.startswith("after.")]:
        path = name.removeprefix("after.")
        tensors["change." + path] = tensors.pop(name) - tensors["state." + path].double()
    return tensors, metadata | {"dtype": "float64"}


if __name__ == "__main__":
    main()
