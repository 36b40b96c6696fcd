#!/usr/bin/env python3
"""What `cmake --install` puts down works from there, and the recipes for Spack and Apptainer hold.

DYNPIPE_BUILD names the build folder; MPIRUN the launcher, if it is not `mpirun`.
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from small_run import SOURCE, environment, losses, output_of, write_data

try:
    import yaml
except ImportError:
    yaml = None

VERSION = re.search(r"project\(dynpipe VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        installed = cls.folder / "installed"
        output_of(["cmake", "--install", os.environ["DYNPIPE_BUILD"], "--prefix", installed])
        cls.prefix = installed.rename(cls.folder / "moved")  # it must not matter where it lies
        cls.share = cls.prefix / "share/dynpipe"

    def test_the_program_tells_the_version_of_the_project(self):
        self.assertEqual(f"dynpipe {VERSION}\n",
                         output_of([self.prefix / "bin/dynpipe", "--version"]))

    def test_it_trains_an_installed_model(self):
        summary = self.folder / "summary.json"
        data = self.folder / "data"
        data.mkdir()
        output_of([os.environ.get("MPIRUN", "mpirun"), "--oversubscribe", "-n", "2",
                   self.prefix / "bin/dynpipe", "train", "--model",
                   self.share / "models/lenet5.json", "--data", write_data(data), "--batch", "16",
                   "--max-updates", "2", "--summary", summary])
        self.assertEqual(1, len(losses(summary)))

    def test_documents_and_licence_are_there(self):
        for name in ("README.md", "LICENSE", "models/README.md", "data/README.md",
                     "slurm/README.md", "slurm/train-cpu.sbatch"):
            self.assertTrue((self.share / name).is_file(), name)

    @unittest.skipUnless(shutil.which("modulecmd"), "Environment Modules are not installed")
    def test_the_module_sets_the_path(self):
        script = f"""
            eval "$(modulecmd bash use {self.share}/modulefiles)"
            eval "$(modulecmd bash load dynpipe/{VERSION})"
            command -v dynpipe
            echo "$DYNPIPE_SHARE"
        """
        clean = {name: value for name, value in environment().items() if name != "LOADEDMODULES"}
        self.assertEqual([str(self.prefix / "bin/dynpipe"), str(self.share)],
                         output_of(["bash", "-euc", script], env=clean).split())


class RecipesTest(unittest.TestCase):
    @unittest.skipUnless(yaml, "PyYAML is not installed")
    def test_the_spack_environment_is_one(self):
        specs = yaml.safe_load((SOURCE / "scripts/spack.yaml").read_text())["spack"]["specs"]
        self.assertTrue(all(isinstance(spec, str) for spec in specs))
        self.assertTrue(any(spec.startswith("onednn") for spec in specs))

    def test_the_image_takes_files_that_exist(self):
        recipe = (SOURCE / "scripts/apptainer.def").read_text()
        files = re.findall(r"^ +(\S+) /usr/src/dynpipe/(\S+)$", recipe, re.MULTILINE)
        self.assertGreater(len(files), 5)
        for here, there in files:
            self.assertEqual(here, there)
            self.assertTrue((SOURCE / here).exists(), here)


if __name__ == "__main__":
    unittest.main()
