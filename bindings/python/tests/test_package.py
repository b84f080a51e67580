"""What is built: the right files in, nothing but the module out."""

import glob
import importlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import kazahana
import snowflake_id
from kazahana import _core

ROOT = pathlib.Path(os.environ["KZ_ROOT"])
SYSTEM_PYTHON = "/usr/bin/python3"
SUBINTERPRETERS = [name for name in ("_interpreters", "_xxsubinterpreters") if importlib.util.find_spec(name)]


def output(*command, **settings):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **settings).stdout


class Package(unittest.TestCase):
    def test_it_is_the_installed_one_that_is_tested(self):
        self.assertTrue(pathlib.Path(kazahana.__file__).is_relative_to(sys.prefix))
        self.assertEqual(kazahana.version, kazahana.__version__)
        self.assertEqual(snowflake_id.__version__, kazahana.__version__)

    def test_the_version_is_the_librarys(self):
        self.assertIn(f"version: '{kazahana.version}'", (ROOT / "meson.build").read_text(encoding="utf-8"))
        wheel, = glob.glob(os.environ["KZ_DIST"] + "/*.whl")
        self.assertTrue(os.path.basename(wheel).startswith(f"kazahana-{kazahana.version}-cp39-abi3-linux_"), wheel)

    def test_the_program_in_the_readme_runs(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        program = text.split("```python\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            first, last = output(sys.executable, "-c", program, env={**os.environ, "XDG_STATE_HOME": folder}).split()
        self.assertLess(int(first), int(last))

    @unittest.skipUnless(shutil.which("mypy"), "mypy is not installed")
    def test_a_wrong_word_is_found_by_the_types(self):
        good = 'Generator("memory:", fallback="never", backward="wait", clock="coarse", seq_start="zero")'
        with tempfile.TemporaryDirectory() as folder:
            for program, wrong in ((good, ""), ('Generator("memory:", fallback="nevr")', "nevr"),
                                   ('Generator("memory:", backward="waits")', "waits"),
                                   ('to_text(1, "base23")', "base23")):
                path = os.path.join(folder, "program.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"from kazahana import Generator, to_text\n\n{program}\n")
                found = subprocess.run(["mypy", "--strict", "--cache-dir", folder, "--python-executable", sys.executable,
                                        path], check=False, text=True, stdout=subprocess.PIPE, cwd=folder)
                self.assertEqual(found.returncode, 1 if wrong else 0, found.stdout)
                self.assertIn(wrong, found.stdout)

    def test_nothing_but_the_module_is_exported(self):
        symbols = output("nm", "-D", "--defined-only", _core.__file__).split()
        self.assertEqual(symbols[1:], ["T", "PyInit__core"])

    def test_the_wheel_has_both_packages_with_types_and_the_licence(self):
        wheel, = glob.glob(os.environ["KZ_DIST"] + "/*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        for name in ("kazahana/py.typed", "kazahana/_core.pyi", "kazahana/_core.abi3.so", "snowflake_id/__init__.py"):
            self.assertIn(name, names)
        self.assertTrue([name for name in names if name.endswith("LICENSE")])

    def test_the_source_distribution_has_all_of_the_library(self):
        archive, = glob.glob(os.environ["KZ_DIST"] + "/*.tar.gz")
        top = f"kazahana-{kazahana.version}"
        with tarfile.open(archive) as tar:
            names = set(tar.getnames())
        for part in ("core", "host", "lib", "sources"):
            for path in (ROOT / part).glob("*.[ch]"):
                self.assertIn(f"{top}/c/kz_{part}_{path.name}", names)
        for name in ("c/kazahana.h", "c/packages", "c/LICENSE", "src/core.h", "src/core.map", "LICENSE", "setup.py"):
            self.assertIn(f"{top}/{name}", names)

    @unittest.skipUnless("KZ_BUILD" in os.environ, "KZ_BUILD does not name Meson's build directory")
    def test_the_extension_is_made_of_what_meson_makes_the_library_of(self):
        script = "import json, runpy, sys; setup = runpy.run_path('setup.py'); " \
            "library = setup['Library'](setup['flat_core'](sys.argv[1])); " \
            "print(json.dumps([[file.name for file in library.files], library.macros]))"
        with tempfile.TemporaryDirectory() as folder:
            lines = output(SYSTEM_PYTHON, "-c", script, folder, cwd=ROOT / "bindings" / "python").splitlines()
        ours = json.loads(lines[-1])
        targets = json.loads(output("meson", "introspect", "--targets", os.environ["KZ_BUILD"]))
        library, = (target for target in targets
                    if target["name"] == "kazahana" and target["type"] == "static library")
        files = [file for group in library["target_sources"] for file in group["sources"]]
        macros = {word[2:] for group in library["target_sources"] for word in group["parameters"]
                  if word.startswith("-DKZ_HAVE_")}
        flat = ["kz_" + os.path.relpath(file, ROOT).replace("/", "_") for file in files]
        self.assertEqual(sorted(ours[0]), sorted(flat))
        self.assertEqual(set(ours[1]), {*macros, "KZ_OWN_CRYPTO"})

    @unittest.skipUnless(SUBINTERPRETERS, "this Python has no module for sub-interpreters")
    def test_a_sub_interpreter_is_refused_in_words(self):
        module = importlib.import_module(SUBINTERPRETERS[0])
        interpreter = module.create()
        script = """
try:
    import kazahana
except ImportError as error:
    assert "interpreter" in str(error), error
else:
    raise AssertionError("it was let in")
"""
        try:
            self.assertIsNone(module.run_string(interpreter, script))
        finally:
            module.destroy(interpreter)


if __name__ == "__main__":
    unittest.main()
