"""Tern's tensors as NumPy's arrays and the other way round, in one process, without a copy on the way out.
Usage: dlpack_numpy.py LIBRARY. Exits with 77 where there is no NumPy that knows DLPack; PyTorch's part runs where it
is."""

import ctypes
import os
import sys

SYSTEM = "/usr/bin/python3"  # where the system's package of NumPy is

try:
    import numpy
except ImportError:
    if sys.prefix == "/usr" or not os.path.exists(SYSTEM):
        sys.exit(77)
    os.execv(SYSTEM, [SYSTEM, *sys.argv])
if not hasattr(numpy, "from_dlpack"):
    sys.exit(77)

library = ctypes.CDLL(sys.argv[1])
library.lend.restype = ctypes.c_void_p
library.lent_is_gone.restype = ctypes.c_bool
library.take.restype = ctypes.c_bool
library.take.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]

api = ctypes.pythonapi
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
    for array in [source, source.transpose(2, 0, 1), source[:, ::2, 1:], source[::-1], source[:0], source[0, 0, 0:1]]:
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

try:
    import torch
except ImportError:
    print("no PyTorch here: its part is left out")
else:
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
print("NumPy", numpy.__version__, "and Tern read each other's tensors")
