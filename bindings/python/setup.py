"""Builds kazahana._core: the binding in src/ and the C library in one extension, for every Python from 3.9 on.

What belongs to the library is read from its own meson.build files: the source files, and for each kind of source that
needs another library, the macro and the pkg-config packages. A kind whose packages are missing is left out, as Meson
does it. The library is two directories above, or in c/ in a source distribution.
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
LIBRARY = HERE / "c" if (HERE / "c").is_dir() else HERE.parents[1]
PARTS = ("core", "lib", "sources")
ALWAYS = ""  # the condition of what stands outside of every `if`


def read_meson(path):
    """(condition, line) for each line of a meson.build, for the plain `if ... endif` that these files use."""
    condition = ALWAYS
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"if (.+)", line):
            condition = match[1].strip()
        elif line.startswith("endif"):
            condition = ALWAYS
        else:
            yield condition, line


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
    """What the C library consists of here: `files`, `macros`, `packages`."""

    def __init__(self):
        wanted, macros, files = {}, {}, {}
        for condition, line in read_meson(LIBRARY / "meson.build"):
            if re.search(r"private_packages \+?= ", line):
                wanted.setdefault(condition, []).extend(re.findall(r"'([\w.+-]+)'", line))
            if macro := re.search(r"'-D(KZ_HAVE_\w+)'", line):
                macros[condition] = macro[1]
        for part in PARTS:
            for condition, line in read_meson(LIBRARY / part / "meson.build"):
                found = re.findall(r"'([\w]+\.c)'", line)
                files.setdefault(condition, []).extend(LIBRARY / part / name for name in found)

        self.files, self.macros, self.packages = [], [], []
        for condition, packages in wanted.items():
            if condition != ALWAYS and pkg_config("--exists", packages) is None:
                print(f"kazahana: without {macros[condition]}: pkg-config does not find all of {', '.join(packages)}")
                continue
            self.files += files.get(condition, [])
            self.packages += packages
            if condition in macros:
                self.macros.append(macros[condition])
        if files.keys() - wanted.keys():
            unknown = ", ".join(files.keys() - wanted.keys())
            sys.exit(f"kazahana: some sources want `{unknown}`, of which meson.build says no private_packages")

    @staticmethod
    def headers():
        return [path for part in (*PARTS, "include") for path in (LIBRARY / part).glob("*.h")]


def embed_scripts(target):
    """sources/redis_lua.h, which Meson makes too: Redis' scripts as C. A source distribution has it ready-made."""
    if (LIBRARY / "scripts" / "embed").exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        inputs = [*(LIBRARY / "sources" / "lua").glob("*.lua"), *Library.headers()]
        subprocess.run([sys.executable, LIBRARY / "scripts" / "embed", "--lua", target, *inputs], check=True)


def version():
    text = (LIBRARY / "meson.build").read_text(encoding="utf-8")
    return re.search(r"^ *version: '([0-9.]+)',$", text, re.MULTILINE)[1]


class BuildExt(build_ext):
    """Compiles the library's files along with the extension's: several at once, and only what has changed."""

    def build_extension(self, ext):
        library = Library()
        macros = [("_GNU_SOURCE", "1"), *((name, "1") for name in library.macros), *ext.define_macros]
        command = [*self.compiler.compiler_so, *(f"-D{name}={value}" for name, value in macros),
                   *ext.extra_compile_args, *shlex.split(pkg_config("--cflags", library.packages))]
        # Objects that were made in another way are not these.
        objects_in = pathlib.Path(self.build_temp, hashlib.sha256(shlex.join(command).encode()).hexdigest()[:8])
        embed_scripts(objects_in / "sources" / "redis_lua.h")
        include_dirs = (objects_in, LIBRARY, LIBRARY / "include", *self.compiler.include_dirs)
        includes = [f"-I{path}" for path in include_dirs]
        headers = [*library.headers(), *(LIBRARY / "sources").glob("lua/*.lua"), *(HERE / "src").glob("*.h"),
                   HERE / "setup.py"]
        newest_header = max(path.stat().st_mtime for path in headers)

        def compile_one(source):
            target = objects_in / source.parent.name / (source.stem + ".o")
            if not target.exists() or target.stat().st_mtime <= max(source.stat().st_mtime, newest_header):
                target.parent.mkdir(parents=True, exist_ok=True)
                self.compiler.spawn([*command, *includes, "-c", str(source), "-o", str(target)])
            return str(target)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, [*(HERE / source for source in ext.sources), *library.files]))
        libraries = shlex.split(pkg_config("--libs", library.packages))
        self.compiler.link_shared_object(objects, self.get_ext_fullpath(ext.name), build_temp=self.build_temp,
                                         extra_postargs=ext.extra_link_args + libraries)


class Sdist(sdist):
    """A source distribution has the library with it, in c/."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        paths = [LIBRARY / "meson.build", LIBRARY / "LICENSE", LIBRARY / "include" / "kazahana.h"]
        for part in PARTS:
            paths += [path for path in (LIBRARY / part).iterdir() if path.suffix in (".c", ".h", ".build")]
        for path in paths:
            target = pathlib.Path(base_dir) / "c" / path.relative_to(LIBRARY)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        embed_scripts(pathlib.Path(base_dir) / "c" / "sources" / "redis_lua.h")


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
