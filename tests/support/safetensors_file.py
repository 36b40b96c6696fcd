"""Safetensors files as numpy arrays, for tests: a second, independent reading of the format."""

import json
import struct

import numpy

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}
NAMES = {numpy.dtype(dtype): name for name, dtype in DTYPES.items()}


def read(path):
    """Arrays by name, and the metadata."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    data = content[8 + length:]
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        arrays[name] = numpy.frombuffer(data[first:last], DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
    return arrays, metadata


def write(path, arrays, metadata=None):
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, array in arrays.items():
        header[name] = {"dtype": NAMES[array.dtype], "shape": array.shape,
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(numpy.ascontiguousarray(array).tobytes())
