"""The shell blocks in README and docs, run as a reader would run them. KAZAHANA names the program.

A block of shell is indented by four. The blocks of a page run in one shell, in a folder of their own, with a Redis and
free ports instead of the usual ones. A command that ends with `# refused...` must fail, all others must not. What
cannot be run here stands in NOT_RUN with the reason, and has to be in the page still."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import parallel  # noqa: E402
from services import Redis, free_port  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("KAZAHANA", "build/kazahana"))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PATIENCE_S = 240
BUILDS = "builds, tests or measures everything"
INSTALLS = "builds and installs: the tests of that package do so"

# By the page and the beginning of the block.
NOT_RUN = {
    ("README.md", "make run"): BUILDS,
    ("docs/databases.md", "make sqlite"): "builds, and is typed at SQLite's own prompt",
    ("docs/evidence.md", "scripts/evidence"): "make test is in it; scripts/evidence is run by test_cli.py",
    ("docs/evidence.md", "make sim"): BUILDS,
    ("docs/evidence.md", "model/run"): BUILDS,
    ("docs/evidence.md", "meson test"): BUILDS,
    ("docs/evidence.md", "make fuzz"): BUILDS,
    ("docs/evidence.md", "kazahana bench --quick\nmake bench"): BUILDS,
    ("docs/external.md", "2 speck"): "a key file",
    ("docs/leases.md", "appendonly yes"): "settings of Redis",
    ("docs/node.md", "make node"): INSTALLS,
    ("docs/operations.md", "kazahana serve --config /etc"): "names a file that an administrator writes",
    ("docs/operations.md", "nodes needed ="): "a formula",
    ("docs/page.md", "kazahana serve --store"): "for a person at a browser: it goes on for minutes",
    ("docs/python.md", "pip install"): INSTALLS,
    ("docs/python.md", "SNOWFLAKE_SOURCE="): "a Django project: run by the tests of the Python package",
    ("docs/redis.md", "ACL SETUSER"): "typed at Redis' own prompt",
}

# Programs that other tests run, by the page and the language of the block.
PROGRAMS = {
    ("README.md", "c"): "tests/test_install.sh",
    ("README.md", "python"): "bindings/python/tests/test_package.py",
    ("docs/node.md", "typescript"): "parts of programs; bindings/node/test/samples has whole ones",
    ("docs/seeds.md", "typescript"): "part of a program; bindings/node/test/samples has whole ones",
    ("docs/python.md", "python"): "parts of settings; bindings/python/tests and examples/django-onde-jogar have whole ones",
}


def pages():
    folder = os.path.join(ROOT, "docs")
    return ["README.md", *sorted("docs/" + name for name in os.listdir(folder) if name.endswith(".md"))]


def blocks(page):
    """Each block as its first line's number, its language ("" for an indented one) and its text."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        lines = file.read().split("\n")
    found, at = [], 0
    while at < len(lines):
        start, fence = at, re.match(r"```(\w*)", lines[at])
        at += 1
        if fence:
            while not lines[at].startswith("```"):
                at += 1
            at += 1
            found.append((start + 1, fence.group(1) or "text", "\n".join(lines[start + 1:at - 1])))
        elif lines[start].startswith("    ") and not lines[start - 1].strip():
            while at < len(lines) and (lines[at].startswith("    ") or (
                    not lines[at] and lines[at + 1:at + 2] and lines[at + 1].startswith("    "))):
                at += 1
            found.append((start + 1, "", "\n".join(line[4:] for line in lines[start:at])))
    return found


class Docs(unittest.TestCase):
    def script(self, page, runnable, port):
        """The page's shell, with what a test has in place of the usual addresses."""
        said = ["set -eE -o pipefail", "trap 'for job in $(jobs -p); do kill $job 2>/dev/null || true; done' EXIT"]
        if "127.0.0.1:7070" in "".join(text for _, text in runnable) and page == "docs/http.md":
            said += self.server(f"kazahana serve --listen 127.0.0.1:{port}", port)
        for number, text in runnable:
            said.append(f"echo '== {page}:{number}' >&2")
            for line in text.split("\n"):
                line = re.sub(r"(localhost|127\.0\.0\.1):7070", f"127.0.0.1:{port}", line)
                if re.match(r"(\w+=\S+ )?kazahana serve( |$)", line):
                    said += self.server(f"{line.split('  #')[0]} --listen 127.0.0.1:{port}", port)
                elif re.search(r"  # refused", line):
                    said.append(f"if {line.split('  #')[0]}; then echo 'not refused' >&2; exit 1; fi")
                else:
                    said.append(line)
        return "\n".join(said)

    def server(self, command, port):
        return [f"{command} 2>server.log &", f"until curl -s -o /dev/null http://127.0.0.1:{port}/health/live; do kill -0 $!; "
                "sleep 0.05; done"]

    def run_page(self, page):
        runnable = []
        for number, language, text in blocks(page):
            if not language and not any(page == where and text.startswith(start) for where, start in NOT_RUN):
                runnable.append((number, text))
        if not runnable:
            return
        text = "".join(text for _, text in runnable)
        folder = tempfile.mkdtemp(prefix="kazahana-docs-")
        self.addCleanup(shutil.rmtree, folder, True)
        os.mkdir(os.path.join(folder, "bin"))
        os.symlink(PROGRAM, os.path.join(folder, "bin", "kazahana"))
        script = self.script(page, runnable, free_port())
        if "redis" in text:
            if Redis.missing():
                self.skipTest(Redis.missing())
            server = Redis(tempfile.mkdtemp(dir=folder))
            self.addCleanup(server.kill)
            server.start()
            script = script.replace("redis://localhost/0", server.url).replace("redis-cli ", f"redis-cli -p {server.port} ")
        environment = {**os.environ, "PATH": os.path.join(folder, "bin") + ":" + os.environ["PATH"],
                       "XDG_STATE_HOME": os.path.join(folder, "state"), "HOME": folder}
        environment.pop("KAZAHANA_LOCK", None)  # the pages speak of the lock that a user has
        done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, text=True, timeout=PATIENCE_S, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return folder

    def test_what_is_not_run_is_still_there(self):
        for page, start in NOT_RUN:
            self.assertTrue(any(not language and text.startswith(start) for _, language, text in blocks(page)),
                            f"{page}: {start}")

    def test_every_program_in_them_is_run_by_somebody(self):
        for page in pages():
            for number, language, _ in blocks(page):
                if language in ("c", "python", "typescript", "javascript", "go", "java", "sh", "bash"):
                    self.assertIn((page, language), PROGRAMS, f"{page}:{number}")

    def test_the_two_terminals_of_the_readme(self):
        shown = next(text for _, language, text in blocks("README.md") if language == "console")
        command, said = shown.split("\n\n$ ")[1].split("\n", 1)
        done = subprocess.run([PROGRAM, *command.split()[1:]], text=True, stdout=subprocess.PIPE, check=True).stdout
        age = r"\(\d+ \w+ ago\)"
        self.assertEqual(re.sub(age, "", done).split("\n")[:len(said.split("\n"))], re.sub(age, "", said).split("\n"))
        ids = re.findall(r"\b\d{18}\b", shown.split("\n\n")[0])
        self.assertEqual((len(ids), len(set(ids))), (6, 6))

    def test_a_duplicate_is_not_found_where_a_process_was_stopped(self):
        folder = self.run_page("docs/incidents.md")
        ids = []
        for name in ("a", "b"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                ids += file.read().split()
        self.assertEqual((len(ids), len(set(ids))), (800, 800))


    def test_make_run_takes_the_id_apart_that_it_showed(self):
        folder = tempfile.mkdtemp(prefix="kazahana-docs-")
        self.addCleanup(shutil.rmtree, folder, True)
        with subprocess.Popen([os.path.join(ROOT, "scripts", "demo"), PROGRAM], text=True, stdout=subprocess.PIPE,
                              env={**os.environ, "XDG_STATE_HOME": folder}) as demo:
            shown = ""
            for line in demo.stdout:
                shown += line
                if "In another terminal" in line:
                    break
            demo.terminate()
            demo.stdout.read()
            self.assertEqual(demo.wait(timeout=PATIENCE_S), 0, shown)
        minted, decoded = re.findall(r'"id_str":"(\d+)"', shown)
        self.assertEqual(minted, decoded)
        self.assertIn(f"/decode/{minted}", shown)


def add_page(page):
    def test(self):
        self.run_page(page)
    setattr(Docs, "test_" + re.sub(r"\W", "_", page), test)


for name in pages():
    if name != "docs/incidents.md":
        add_page(name)

if __name__ == "__main__":
    parallel.main()
