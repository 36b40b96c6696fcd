#!/usr/bin/env python3
"""Holds every #include of lib/ and apps/ to the order of the rooms in lib/floors.txt.

usage: check_floors.py [--root FOLDER]   check a source tree, by default the one this script is in
       check_floors.py --self-test       check this script on seeded violations

Prints "file:line: what is wrong" for each violation and exits with 1 if there is any.
"""

import argparse
import pathlib
import re
import sys
import tempfile
import unittest

SUFFIXES = {".hpp", ".cpp", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Headers of one library each, and the only places of the tree that may see them.
CONFINED = [
    (re.compile(r"mpi(-ext)?\.h"), ("lib/comm/mpi/",)),
    (re.compile(r"(oneapi/)?dnnl.*|cblas.*|lapack.*|openblas.*"), ("lib/ops/onednn/",)),
    (re.compile(r"zlib\.h|zconf\.h"), ("lib/data/",)),
    (re.compile(r"xxhash\.h"), ("lib/io/",)),
    (re.compile(r"png\.h|turbojpeg\.h|jpeglib\.h"), ("lib/data/",)),
    (re.compile(r"hdf5\.h|hdf5_hl\.h|H5[A-Za-z]*public\.h"), ("lib/io/",)),
    (re.compile(r"xgboost/.*"), ("lib/interference/",)),
    (re.compile(r"boost/.*"), ("lib/app/", "apps/")),
]
IMPURE = re.compile(r"filesystem|fstream")


class Floors:
    """The table: what each module may use, with all that those may use, and which are pure."""

    def __init__(self, path):
        self.reach = {}
        self.pure = set()
        self.problems = []
        in_pure = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.startswith("#"):
                in_pure = line.startswith("# Pure")
            elif ":" in line:
                module, uses = line.split(":", 1)
                self.add(module.strip(), uses.split(), in_pure, f"{path.name}:{number}")

    def add(self, module, uses, pure, where):
        self.reach[module] = {module}
        for used in uses:
            if used not in self.reach or used == module:
                self.problems.append(f"lib/{where}: {module} uses {used}, which is not above it")
            elif pure and used not in self.pure:
                self.problems.append(f"lib/{where}: {module} is pure, but {used} is not")
            else:
                self.reach[module] |= self.reach[used]
        if pure:
            self.pure.add(module)


def includes_of(path):
    """Yields (line number, whether in quotes, header) of each #include."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == '"', match.group(2)


def problem_with(place, module, header, quoted, floors):
    """What is wrong with a file at `place`, of `module` (None: an app), including `header`."""
    used = header.split("/")[0] if "/" in header else None
    if quoted and module and used not in floors.reach:
        return f'"{header}": not the path of a header from lib/, by a module of floors.txt'
    if used in floors.reach:
        if module and used not in floors.reach[module]:
            return f'"{header}": {module} may not use {used}'
        return None
    for pattern, allowed in CONFINED:
        if pattern.fullmatch(header) and not place.startswith(allowed):
            return f"<{header}>: only {' and '.join(allowed)} may include it"
    if module in floors.pure and IMPURE.fullmatch(header):
        return f"<{header}>: {module} is pure"
    return None


def check(root):
    """All violations below `root`, as lines of text."""
    floors = Floors(root / "lib/floors.txt")
    found = list(floors.problems)
    for top in ("lib", "apps"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            place = path.relative_to(root).as_posix()
            module = place.split("/")[1] if top == "lib" else None
            if module and module not in floors.reach:
                found.append(f"{place}:1: {module} is not in lib/floors.txt")
                continue
            for number, quoted, header in includes_of(path):
                problem = problem_with(place, module, header, quoted, floors)
                if problem:
                    found.append(f"{place}:{number}: {problem}")
    return found


class SelfTest(unittest.TestCase):
    TABLE = "# Pure: text.\nbase:\nplan: base\n\n# Effects.\ncomm: base\ndata: plan\napp: comm data\n"

    def violations(self, files, table=TABLE):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"lib/floors.txt": table, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check(root)

    def test_clean_tree(self):
        self.assertEqual([], self.violations({
            "lib/base/a.hpp": "#include <vector>\n",
            "lib/plan/a.hpp": '#include "base/a.hpp"\n#include "plan/b.hpp"\n',
            "lib/data/a.cpp": '#include <zlib.h>\n#include <fstream>\n#include "base/a.hpp"\n',
            "lib/comm/mpi/a.cpp": "#include <mpi.h>\n",
            "lib/app/a.cpp": '#include <boost/program_options.hpp>\n#include "base/a.hpp"\n',
            "apps/x/main.cpp": '#include "commands.hpp"\n#include "app/a.hpp"\n',
        }))

    def test_each_violation_is_located(self):
        for place, line, why in [
            ("lib/base/a.hpp", '#include "plan/a.hpp"', "base may not use plan"),
            ("lib/comm/a.cpp", '# include "data/a.hpp"', "comm may not use data"),
            ("lib/comm/a.cpp", "#include <data/a.hpp>", "comm may not use data"),
            ("lib/plan/a.cpp", '#include "nowhere/a.hpp"', "not the path"),
            ("lib/plan/a.cpp", '#include "sibling.hpp"', "not the path"),
            ("lib/plan/a.cpp", '#include "../comm/a.hpp"', "not the path"),
            ("lib/plan/a.cpp", "#include <fstream>", "plan is pure"),
            ("lib/plan/a.cpp", "#include <filesystem>", "plan is pure"),
            ("lib/plan/a.cpp", "#include <mpi.h>", "only lib/comm/mpi/"),
            ("lib/comm/a.cpp", "#include <mpi.h>", "only lib/comm/mpi/"),
            ("lib/app/a.cpp", "#include <mpi.h>", "only lib/comm/mpi/"),
            ("apps/x/main.cpp", "#include <mpi.h>", "only lib/comm/mpi/"),
            ("lib/app/a.cpp", "#include <oneapi/dnnl/dnnl.hpp>", "only lib/ops/onednn/"),
            ("lib/app/a.cpp", "#include <cblas.h>", "only lib/ops/onednn/"),
            ("lib/comm/a.cpp", "#include <zlib.h>", "only lib/data/"),
            ("lib/data/a.cpp", "#include <boost/crc.hpp>", "only lib/app/ and apps/"),
            ("lib/data/a.cpp", "#include <hdf5.h>", "only lib/io/"),
            ("apps/x/main.cpp", "#include <H5Fpublic.h>", "only lib/io/"),
            ("lib/app/a.cpp", "#include <xgboost/c_api.h>", "only lib/interference/"),
            ("lib/app/a.cpp", "#include <png.h>", "only lib/data/"),
        ]:
            with self.subTest(place=place, line=line):
                found = self.violations({place: f"#pragma once\n{line}\n"})
                self.assertEqual(1, len(found), found)
                self.assertTrue(found[0].startswith(f"{place}:2: "), found)
                self.assertIn(why, found[0])

    def test_folder_without_a_row(self):
        found = self.violations({"lib/attic/a.cpp": "\n"})
        self.assertEqual(["lib/attic/a.cpp:1: attic is not in lib/floors.txt"], found)

    def test_table_that_is_no_order(self):
        for table, why in [
            ("base: plan\nplan: base\n", "lib/floors.txt:1: base uses plan, which is not above it"),
            ("base: base\n", "lib/floors.txt:1: base uses base, which is not above it"),
            ("base:\n# Pure\nplan: base\n", "lib/floors.txt:3: plan is pure, but base is not"),
        ]:
            self.assertEqual([why], self.violations({}, table))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        unittest.main(argv=[sys.argv[0]])
    found = check(arguments.root)
    print("\n".join(found) if found else "every #include keeps to lib/floors.txt")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
