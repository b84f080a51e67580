"""Builds kazahana._core: the binding in src/ and the C library in one extension, for every Python from 3.9 on.

The library comes as the flat copy that scripts/flat-core makes. A kind of source whose packages are missing is left
out, as Meson does it. In a source distribution the copy is in c/.
"""

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
PACKED = HERE / "c"  # the copy, in a source distribution
ROOT = HERE.parents[1]


def flat_core(directory):
    """Where the library's files are: as they were packed, or copied into `directory` now."""
    if PACKED.is_dir():
        return PACKED
    subprocess.run([sys.executable, ROOT / "scripts" / "flat-core", directory], check=True)
    return pathlib.Path(directory)


def pkg_config(option, packages):
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), option, *packages]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        sys.exit(f"kazahana: {command[0]} is not installed; it is what finds the libraries that are needed")
    except subprocess.CalledProcessError as error:
        if option == "--exists":
            return None
        sys.exit(f"kazahana: {shlex.join(command)}: {error.stderr.strip()}")


class Library:
    """What the C library consists of here: `files`, `headers`, `macros`, `packages`."""

    def __init__(self, directory):
        self.files, self.headers = sorted(directory.glob("*.c")), list(directory.glob("*.h"))
        self.macros, self.packages = ["KZ_OWN_CRYPTO"], []
        for line in (directory / "packages").read_text(encoding="utf-8").splitlines():
            macro, *packages = line.split()
            if pkg_config("--exists", packages) is None:
                print(f"kazahana: without {macro}: pkg-config does not find all of {', '.join(packages)}")
                continue
            self.macros.append(macro)
            self.packages += packages


def version():
    header = PACKED / "kazahana.h" if PACKED.is_dir() else ROOT / "include" / "kazahana.h"
    return re.search(r'^#define KZ_VERSION +"([0-9.]+)"$', header.read_text(encoding="utf-8"), re.MULTILINE)[1]


class BuildExt(build_ext):
    """Compiles the library's files along with the extension's: several at once, and only what has changed."""

    def build_extension(self, ext):
        directory = flat_core(pathlib.Path(self.build_temp, "flat"))
        library = Library(directory)
        macros = [("_GNU_SOURCE", "1"), *((name, "1") for name in library.macros), *ext.define_macros]
        command = [*self.compiler.compiler_so, *(f"-D{name}={value}" for name, value in macros),
                   *ext.extra_compile_args, *self.flags("--cflags", library)]
        includes = [f"-I{path}" for path in (directory, *self.compiler.include_dirs)]
        # Objects that were made in another way are not these.
        objects_in = pathlib.Path(self.build_temp, hashlib.sha256(shlex.join(command).encode()).hexdigest()[:8])
        headers = [*library.headers, *(HERE / "src").glob("*.h"), HERE / "setup.py"]
        newest_header = max(path.stat().st_mtime for path in headers)

        def compile_one(source):
            target = objects_in / source.parent.name / (source.stem + ".o")
            if not target.exists() or target.stat().st_mtime <= max(source.stat().st_mtime, newest_header):
                target.parent.mkdir(parents=True, exist_ok=True)
                self.compiler.spawn([*command, *includes, "-c", str(source), "-o", str(target)])
            return str(target)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, [*(HERE / source for source in ext.sources), *library.files]))
        self.compiler.link_shared_object(objects, self.get_ext_fullpath(ext.name), build_temp=self.build_temp,
                                         extra_postargs=ext.extra_link_args + self.flags("--libs", library))

    @staticmethod
    def flags(option, library):
        return shlex.split(pkg_config(option, library.packages)) if library.packages else []


class Sdist(sdist):
    """A source distribution has the library with it, in c/."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        packed = pathlib.Path(base_dir, PACKED.name)
        if flat_core(packed) == PACKED:
            shutil.copytree(PACKED, packed, dirs_exist_ok=True)


core = Extension(
    "kazahana._core",
    sources=sorted(str(path.relative_to(HERE)) for path in (HERE / "src").glob("*.c")),
    define_macros=[("Py_LIMITED_API", "0x03090000")],
    # Assertions stay on in releases; distutils would switch them off.
    extra_compile_args=["-std=gnu11", "-O2", "-UNDEBUG", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra",
                        "-Wno-unused-parameter", "-Wno-missing-field-initializers", "-Wno-format-truncation"],
    # Two copies of the library in one process must not see each other: nothing but the module is exported.
    extra_link_args=["-pthread", f"-Wl,--version-script={HERE / 'src' / 'core.map'}"],
    py_limited_api=True,
)

if __name__ == "__main__":
    setup(
        version=version(),
        ext_modules=[core],
        cmdclass={"build_ext": BuildExt, "sdist": Sdist},
        options={"bdist_wheel": {"py_limited_api": "cp39"}},
    )
