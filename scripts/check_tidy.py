#!/usr/bin/env python3
"""Runs clang-tidy over the sources of lib and apps that a build folder compiles.

usage: check_tidy.py BUILD_FOLDER   check the sources that it compiles
       check_tidy.py --self-test     check this script on seeded mistakes

Most of clang-tidy's time goes into headers that all sources share, so it reads several sources of a
library at once, as one that includes them. What it then says may come from reading them together:
where it says anything, it reads each of them alone, and only that counts. A source that was clean
is not read again until it, a header or .clang-tidy changes. Exits with 77 (skipped) without
clang-tidy 14: other versions know other checks.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
AT_ONCE = 12  # sources
HEADERS_AND_SOURCES = r"/(lib|apps)/[^.]*\.[ch]pp$"

# What a source defines or names at the left margin, and may not be there twice.
LOCAL_NAME = re.compile(
    r"""^(?=\w)(?:(?:struct|class|enum\ class|enum)\ (\w+)\ *[{:]
          |(?:using|namespace)\ (\w+)\ =
          |(?!namespace|using)(?:[\w:<>,&*\ ]+[&*\ ])?(\w+)\(
          |(?!namespace|using)[\w:<>,&*\ ]+\ (\w+)(?:\[\w*\])?\ *[={;])""", re.M | re.X)
USING_NAME = re.compile(r"^ *using (?:\w+::)+(\w+);", re.M)


def sources_of(build, root):
    """Every source of lib and apps with the command that compiles it: [(path, words)]."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        words = shlex.split(entry["command"])
        words = [w for i, w in enumerate(words)
                 if w not in ("-c", "-o", entry["file"]) and words[i - 1] != "-o"]
        if words[0].endswith("ccache"):
            del words[0]
        if path.is_relative_to(root / "lib") or path.is_relative_to(root / "apps"):
            found.setdefault(path, words)
    return sorted(found.items())


def has_unused_using(text):
    """Whether a name is taken from a namespace for nothing, which only a source alone shows."""
    return any(len(re.findall(rf"(?<!struct )(?<!class )\b{name}\b", text)) == 1
               for name in USING_NAME.findall(text))


def batches_of(sources):
    """Sources with the same command and without common local names, together."""
    batches = []
    for path, words in sources:
        text = path.read_text()
        names = {name for names in LOCAL_NAME.findall(text) for name in names if name}
        alone = has_unused_using(text)
        for batch in batches:
            if (not alone and not batch["alone"] and batch["words"] == words and
                    len(batch["paths"]) < AT_ONCE and not names & batch["names"]):
                break
        else:
            batch = {"words": words, "paths": [], "names": set(), "alone": alone}
            batches.append(batch)
        batch["paths"].append(path)
        batch["names"] |= names
    return [(batch["words"], batch["paths"]) for batch in batches]


class Checker:
    def __init__(self, tidy, build, root=ROOT):
        self.tidy = tidy
        self.build = build
        self.root = root
        self.folder = build / "tidy"
        self.folder.mkdir(exist_ok=True)
        self.headers_changed = max(
            path.stat().st_mtime
            for path in [root / ".clang-tidy", *(root / "lib").rglob("*.hpp"),
                         *(root / "apps").rglob("*.hpp")])

    def stamp(self, source):
        return self.folder / "stamps" / source.relative_to(self.root)

    def needs_check(self, source):
        try:
            checked = self.stamp(source).stat().st_mtime
        except FileNotFoundError:
            return True
        return checked <= max(source.stat().st_mtime, self.headers_changed)

    def run(self, source, words, *options):
        """What clang-tidy says of a source, and whether it is content with it."""
        done = subprocess.run(
            [self.tidy, "--quiet", *options, str(source), "--", *words[1:]], cwd=self.build,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        said = re.sub(r"^\d+ warnings?( and \d+ errors?)? generated\.\n", "", done.stdout,
                      flags=re.M)
        return said, done.returncode == 0

    def together(self, number, words, paths):
        unit = self.folder / f"together_{number}.cpp"
        unit.write_text("".join(f'#include "{path}"\n' for path in paths))
        return self.run(unit, words, "--config-file", str(self.root / ".clang-tidy"),
                        "--checks=-bugprone-suspicious-include",  # which this unit is made of
                        f"--header-filter={HEADERS_AND_SOURCES}")[1]

    def check(self, number, words, paths):
        """What clang-tidy says of those of these sources that are not clean, if any."""
        begun = {}
        for path in paths:  # an edit during the check must not count as checked
            stamp = self.stamp(path)
            stamp.parent.mkdir(parents=True, exist_ok=True)
            begun[path] = stamp.with_suffix(".begun")
            begun[path].touch()
        clean = len(paths) > 1 and self.together(number, words, paths)
        complaints = ""
        for path in paths:
            said, good = ("", True) if clean else self.run(path, words)
            if good:
                begun[path].replace(self.stamp(path))
            else:
                complaints += said or f"{path}: clang-tidy fails and says nothing\n"
        return complaints

    def check_all(self):
        sources = [s for s in sources_of(self.build, self.root) if self.needs_check(s[0])]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            jobs = [pool.submit(self.check, number, *batch)
                    for number, batch in enumerate(batches_of(sources))]
            return "".join(job.result() for job in jobs)


class SelfTest(unittest.TestCase):
    """Sources with nothing to include, read together, each with another mistake."""

    MISTAKES = {
        "naming": ("void wrongName() {}", "readability-identifier-naming"),
        "loop": ("int sum() {\n  int a[3] = {1, 2, 3}, s = 0;\n"
                 "  for (int i = 0; i < 3; ++i) s += a[i];\n  return s;\n}",
                 "modernize-loop-convert"),
        "unused": ("namespace other {\nstruct Thing {};\n}\nusing other::Thing;",
                   "misc-unused-using-decls"),
        "broken": ("int nothing() { return undeclared; }", "clang-diagnostic-error"),
    }

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "lib").mkdir()
        (self.root / "build").mkdir()
        (self.root / ".clang-tidy").write_text((ROOT / ".clang-tidy").read_text())

    def said_of(self, sources):
        for name, text in sources.items():
            (self.root / "lib" / name).write_text(text + "\n")
        entries = [{"directory": str(self.root), "file": str(path), "command": f"c++ -c {path}"}
                   for path in self.root.glob("lib/*.cpp")]
        (self.root / "build/compile_commands.json").write_text(json.dumps(entries))
        return Checker(find_tidy(), self.root / "build", self.root).check_all()

    def test_every_mistake_is_named_with_its_source(self):
        sources = {f"{name}.cpp": text for name, (text, _) in self.MISTAKES.items()}
        said = self.said_of({**sources, "sound.cpp": "int seven() { return 7; }"})
        for name, (_, check) in self.MISTAKES.items():
            self.assertRegex(said, rf"lib/{name}\.cpp:.*\[{check}")
        self.assertNotIn("sound.cpp", said)

    def test_each_mistake_is_found_beside_sound_sources(self):
        for name, (text, check) in self.MISTAKES.items():
            with self.subTest(name):
                self.setUp()
                said = self.said_of({"mistake.cpp": text, "sound.cpp": "int seven() { return 7; }"})
                self.assertRegex(said, rf"lib/mistake\.cpp:.*\[{check}")

    def test_a_mistake_in_a_header_is_found(self):
        self.assertRegex(
            self.said_of({"wrong.hpp": "struct wrong_name {};", "a.cpp": '#include "wrong.hpp"',
                          "b.cpp": "int seven() { return 7; }"}),
            r"lib/wrong\.hpp:.*\[readability-identifier-naming")

    def test_sound_sources_with_the_same_local_names_pass(self):
        local = "namespace {\nint seven() { return 7; }\n}  // namespace\n"
        self.assertEqual("", self.said_of({f"{n}.cpp": f"{local}int {n}() {{ return seven(); }}"
                                           for n in ("one", "two", "three")}))


def find_tidy():
    """clang-tidy 14; None if there is none."""
    tidy = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tidy is None:
        return None
    version = subprocess.run([tidy, "--version"], stdout=subprocess.PIPE, text=True).stdout
    return tidy if "version 14." in version else None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tidy = find_tidy()
    if tidy is None:
        print("check_tidy.py: skipped, there is no clang-tidy 14")
        sys.exit(77)
    if sys.argv[1] == "--self-test":
        unittest.main(argv=sys.argv[:1])
    complaints = Checker(tidy, pathlib.Path(sys.argv[1]).resolve()).check_all()
    print(complaints, end="")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
