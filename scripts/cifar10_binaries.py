#!/usr/bin/env python3
"""CIFAR-10 as JPEGs, in a tar or a folder (train/CLASS/NAME.jpg, test/CLASS/NAME.jpg), becomes the published binaries.

usage: cifar10_binaries.py TAR-OR-FOLDER OUT      (needs NumPy and Pillow; a tar may be packed by gzip, bzip2 or xz)

Classes are numbered in the order of their names, which is that of the published labels. The training images are dealt
to data_batch_1.bin to data_batch_5.bin in turn, so that each has all classes."""

import io
import pathlib
import sys
import tarfile
from collections import defaultdict

import numpy
from PIL import Image

PARTS = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}


def images(source):
    """(part, class, name, bytes) of every image."""
    if source.is_dir():
        for file in source.glob("*/*/*.jpg"):
            yield *file.relative_to(source).parts, file.read_bytes()
        return
    with tarfile.open(source) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(".jpg"):
                yield *pathlib.PurePosixPath(member.name).parts[-3:], archive.extractfile(member).read()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = defaultdict(list)
    for part, label, name, content in images(source):
        found[part].append((name, label, content))
    if set(found) != set(PARTS):
        sys.exit(f"{source}: found the parts {sorted(found)}, expected {sorted(PARTS)}")
    labels = sorted({label for part in found.values() for _, label, _ in part})
    out.mkdir(parents=True, exist_ok=True)
    (out / "batches.meta.txt").write_text("".join(label + "\n" for label in labels))
    for part, files in PARTS.items():
        records = []
        for _, label, content in sorted(found[part], key=lambda image: image[:2]):
            pixels = numpy.asarray(Image.open(io.BytesIO(content)).convert("RGB"), numpy.uint8)
            if pixels.shape != (32, 32, 3):
                sys.exit(f"{source}: an image of {label} has the shape {pixels.shape}, expected (32, 32, 3)")
            records.append(bytes([labels.index(label)]) + pixels.transpose(2, 0, 1).tobytes())
        for i, file in enumerate(files):
            (out / file).write_bytes(b"".join(records[i::len(files)]))
        print(f"{part}: {len(records)} images of {len(labels)} classes", flush=True)


if __name__ == "__main__":
    main()
