"""Tern's tensors as NumPy's and PyTorch's, and the other way round, in one process, without a copy on the way out.

Usage: dlpack_numpy.py LIBRARY [numpy|torch]. Without a part, both run, each in a process of its own, so that a crash
names its part and the line. A peer that is missing, too old, or that cannot even be imported is skipped with a
sentence. Exits with 77 where there is no NumPy that knows DLPack.
"""

import ctypes
import os
import subprocess
import sys

SYSTEM = "/usr/bin/python3"  # where the system's package of NumPy is
SKIPPED = 77


def run(*arguments):
    return subprocess.run([sys.executable, "-X", "faulthandler", *arguments], text=True, stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE, check=False)


def imports(name, needs):
    """Whether the peer can be imported and has what it needs, found in a process of its own."""
    found = run("-c", f"import {name}; print({name}.__version__); assert {needs}")
    if found.returncode == 0:
        return True
    lines = found.stdout.strip().splitlines() or ["no output"]
    print(f"{name} is left out: importing it ends with {found.returncode} ({lines[-1]})")
    return False


def run_parts(library):
    if not imports("numpy", "hasattr(numpy, 'from_dlpack')"):
        if sys.prefix != "/usr" and os.path.exists(SYSTEM) and sys.executable != SYSTEM:
            os.execv(SYSTEM, [SYSTEM, __file__, library])
        return SKIPPED
    parts = ["numpy"] + (["torch"] if imports("torch", "torch.utils.dlpack") else [])
    for part in parts:
        result = run(__file__, library, part)
        print(result.stdout, end="")
        if result.returncode != 0:
            print(f"the part {part} ended with {result.returncode}; below 0: by that signal")
            return 1
    return 0


if len(sys.argv) == 2:
    sys.exit(run_parts(sys.argv[1]))
PART = sys.argv[2]

# The peer first: a library that it brings must not find Tern's in its place.
import numpy

if PART == "torch":
    import torch

library = ctypes.CDLL(sys.argv[1])
library.lend.restype = ctypes.c_void_p
library.lent_is_gone.restype = ctypes.c_bool
library.take.restype = ctypes.c_bool
library.take.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]

api = ctypes.PyDLL(None)  # not ctypes.pythonapi, whose signatures a peer may have set differently
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

FRESH, USED = b"dltensor", b"used_dltensor"


class Lent:
    """The methods that numpy.from_dlpack and torch.from_dlpack call."""

    def __init__(self, managed):
        self.managed = managed

    def __dlpack__(self, stream=None):
        return api.PyCapsule_New(self.managed, FRESH, None)

    def __dlpack_device__(self):
        return (1, 0)


def taken(capsule):
    """Imports another library's tensor into Tern, which deletes it; returns the error if it refuses."""
    text = ctypes.create_string_buffer(1 << 16)
    good = library.take(api.PyCapsule_GetPointer(capsule, FRESH), text, len(text))
    if good:
        api.PyCapsule_SetName(capsule, USED)  # the capsule has nothing to delete any more
    return good, text.value.decode()


expected = numpy.arange(24).reshape(2, 3, 4).transpose(0, 2, 1)[:, :, ::2]


def test_numpy():
    # Tern's numbers of its dtypes, in the order of core/dtype.hpp.
    for number, name in enumerate(["float32", "float64", None, "float16", "int32", "int64", "uint8"]):
        if name is None:
            continue
        array = numpy.from_dlpack(Lent(library.lend(number)))
        wanted = expected.astype(name)
        assert array.dtype == name, (array.dtype, name)
        assert (array == wanted).all(), name
        size = array.itemsize
        assert array.strides == (12 * size, size, 8 * size), array.strides
        part = array[1]
        del array
        assert not library.lent_is_gone(), "a view is alive"
        del part
        assert library.lent_is_gone(), name

    for name in ["float32", "float64", "float16", "int32", "int64", "uint8"]:
        source = numpy.arange(24).astype(name).reshape(2, 3, 4)
        views = [source, source.transpose(2, 0, 1), source[:, ::2, 1:], source[::-1], source[:0], source[0, 0, 0:1]]
        for array in views:
            holders = sys.getrefcount(array)
            capsule = array.__dlpack__()
            assert sys.getrefcount(array) > holders
            good, text = taken(capsule)
            assert good, text
            assert sys.getrefcount(array) == holders, "the deleter ran once"
            del capsule
            assert sys.getrefcount(array) == holders, "and no second time"
            values = "".join(f" {value:g}" for value in array.ravel().tolist())
            shape = "[" + ",".join(str(size) for size in array.shape) + "]"
            assert text == f"{name} {shape}{values}", (text, values)

    refused = numpy.zeros(3, dtype="complex64")
    holders = sys.getrefcount(refused)
    capsule = refused.__dlpack__()
    good, text = taken(capsule)
    assert not good and "64 bits" in text, text
    del capsule  # still NumPy's, which deletes it
    assert sys.getrefcount(refused) == holders
    print("NumPy", numpy.__version__, "and Tern read each other's tensors")


def test_torch():
    tensor = torch.from_dlpack(Lent(library.lend(0)))
    assert tensor.stride() == (12, 1, 8) and (tensor.numpy() == expected).all()
    del tensor
    assert library.lent_is_gone()
    try:
        capsule = torch.utils.dlpack.to_dlpack(torch.tensor([[True, False]]))
    except RuntimeError as error:  # its bools are newer than its DLPack
        print(f"PyTorch {torch.__version__} lends no bools ({error}): that part is left out")
    else:
        good, text = taken(capsule)
        assert good and text == "bool [1,2] 1 0", text
    print("PyTorch", torch.__version__, "and Tern read each other's tensors")


# Functions, so that capsules go while the names that they point to are still there.
{"numpy": test_numpy, "torch": test_torch}[PART]()
