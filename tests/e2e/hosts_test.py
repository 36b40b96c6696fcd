#!/usr/bin/env python3
"""Ranks on two hosts train to the same bits as on one.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`. Skipped where no network
namespaces can be made.
"""

import json
import os
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from hosts import Hosts, ip, why_not
from small_run import SOURCE, losses, output_of, skip, write_data


class HostsTest(unittest.TestCase):
    hosts = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_data(self.folder)

    def trained(self, mpirun, name):
        summary = self.folder / f"{name}.json"
        output_of([*mpirun, os.environ["DYNPIPE"], "train", "--model",
                   SOURCE / "models/lenet5.json", "--data", self.folder, "--batch", "16",
                   "--epochs", "2", "--deadline", "30", "--algorithm", "flops", "--summary",
                   summary])
        return losses(summary), [rank["host"] for rank in json.loads(summary.read_text())["ranks"]]

    def test_same_bits_on_one_host_and_on_two(self):
        one, _ = self.trained([os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", "2"],
                              "one")
        two, names = self.trained(self.hosts.mpirun(), "two")
        self.assertEqual(["h1", "h2"], names)
        self.assertEqual(one, two)


if __name__ == "__main__":
    if reason := why_not():
        skip(reason)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the hosts are taken down
    with Hosts(2) as HostsTest.hosts:
        successful = unittest.main(exit=False).result.wasSuccessful()
        prefix = HostsTest.hosts.prefix
    left = [line for line in ip("netns", "list").splitlines() if line.startswith(f"{prefix}-")]
    if left:
        print(f"namespaces are left: {left}", file=sys.stderr)
    sys.exit(0 if successful and not left else 1)
