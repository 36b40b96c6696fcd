#!/usr/bin/env python3
"""On a terminal training shows live lines, also through mpirun; in a file, plain lines.

DYNPIPE names the program; MPIRUN the launcher, if it is not `mpirun`.
"""

import os
import pathlib
import pty
import shlex
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment, write_data

DEADLINE_S = 60
LIVE = "\x1b[K"
LOG = "epoch 1/1  update "


class TerminalTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        words = [os.environ["DYNPIPE"], "train", "--model", SOURCE / "models/lenet5.json",
                 "--data", write_data(self.folder), "--batch", "16", "--epochs", "1",
                 "--log-every", "1", "--algorithm", "flops"]
        self.dynpipe = shlex.join(str(word) for word in words)
        self.mpirun = f"{os.environ.get('MPIRUN', 'mpirun')} --oversubscribe -n 2"

    def on_terminal(self, command, **more):
        """What a terminal shows of a shell command that must succeed."""
        process, terminal = pty.fork()
        if process == 0:
            os.execvpe("sh", ["sh", "-c", command], environment(**{"TERM": "xterm", **more}))
        deadline = threading.Timer(DEADLINE_S, os.kill, (process, 9))
        deadline.start()
        shown = b""
        try:
            while part := os.read(terminal, 4096):
                shown += part
        except OSError:  # the last process that had the terminal open has ended
            pass
        status = os.waitpid(process, 0)[1]
        deadline.cancel()
        os.close(terminal)
        text = shown.decode(errors="replace")
        self.assertEqual(0, os.waitstatus_to_exitcode(status), text)
        return text

    def in_file(self, command):
        """What goes into a file, by a command that has a terminal."""
        log = self.folder / "log"
        self.on_terminal(f"{command} > {log}")
        return log.read_text()

    def test_a_terminal_shows_a_live_line(self):
        for command in (self.dynpipe, f"{self.mpirun} {self.dynpipe}"):
            shown = self.on_terminal(command)
            self.assertIn(LIVE, shown, command)
            self.assertNotIn(LOG, shown, command)

    def test_a_terminal_without_cursor_movement_gets_plain_lines(self):
        shown = self.on_terminal(f"{self.mpirun} {self.dynpipe}", TERM="dumb")
        self.assertIn(LOG, shown)
        self.assertNotIn(LIVE, shown)

    def test_block_characters_are_for_utf8_alone(self):
        for locale, blocks in (("C", False), ("C.UTF-8", True)):
            shown = self.on_terminal(f"{self.mpirun} {self.dynpipe}", LC_ALL=locale)
            self.assertEqual(blocks, "\u2588" in shown, shown)

    def test_a_run_that_fails_leaves_its_message_a_line_of_its_own(self):
        shown = self.on_terminal(
            f"{self.mpirun} {self.dynpipe} --lr 1e30 --lr-schedule constant || true")
        complaint = shown[:shown.index("dynpipe: rank")]
        self.assertTrue(complaint.endswith("\n"), shown)

    def test_a_file_gets_plain_lines(self):
        script = self.folder / "wrapper"  # between mpirun and the program, as on clusters
        script.write_text(f"#!/bin/sh\n{self.dynpipe}\nexit $?\n")
        script.chmod(0o755)
        for command in (self.dynpipe, f"{self.mpirun} {self.dynpipe}", f"{self.mpirun} {script}"):
            text = self.in_file(command)
            self.assertIn(LOG, text, command)
            self.assertNotIn(LIVE, text, command)


if __name__ == "__main__":
    unittest.main()
