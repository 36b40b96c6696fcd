"""What the tests that start the program share: a small data set, and commands that end."""

import json
import os
import pathlib
import signal
import struct
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # exit code that CTest knows
SIDE, CLASSES = 28, 10  # of the images that lenet5 takes


def skip(why):
    """Ends this test program as skipped."""
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def write_data(folder, train=65, test=33):
    """An IDX data set of so many images. With 65, a batch of 16 leaves one sample for the last."""
    for split, count in (("train", train), ("t10k", test)):
        pixels = bytes((i * i // 7 + 13 * i) % 256 for i in range(count * SIDE * SIDE))
        labels = bytes(i % CLASSES for i in range(count))
        (folder / f"{split}-images-idx3-ubyte").write_bytes(
            struct.pack(">4I", 0x803, count, SIDE, SIDE) + pixels)
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(
            struct.pack(">2I", 0x801, count) + labels)
    return folder


def environment(**more):
    """This process's, with what mpirun asks of root."""
    result = {**os.environ, "OMP_NUM_THREADS": "1", **more}
    if os.geteuid() == 0:
        result |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return result


def output_of(command, deadline_s=60, env=None, cwd=None):
    """Standard output of a command that must succeed; past the deadline all it started is killed."""
    words = [str(word) for word in command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=env or environment(), cwd=cwd, start_new_session=True)
    try:
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{words}: still running after {deadline_s} s\n{out}\n{err}") from None
    if process.returncode != 0:
        raise AssertionError(f"{words}: exit code {process.returncode}\n{out}\n{err}")
    return out


def tensors_in(file):
    """Every tensor of an HDF5 file of weights, as bytes, by name."""
    import h5py
    found = {}
    with h5py.File(file) as h5:
        h5.visititems(lambda name, item: found.update({name: item[()].tobytes()})
                      if isinstance(item, h5py.Dataset) else None)
    return found


def losses(summary):
    """Losses of a summary that says that the run was completed, by epoch."""
    results = json.loads(pathlib.Path(summary).read_text())
    if results["status"] != "completed":
        raise AssertionError(f"{summary}: {results['status']}")
    return [(epoch["train_loss"], epoch["test_loss"]) for epoch in results["epochs"]]
