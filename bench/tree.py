"""Which commit is measured."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What the report itself writes is no change of what is measured.
WRITTEN = ("docs/bench.md", "docs/bench.svg")


def git(*words):
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def commit():
    """As git describes it, with -dirty if the tree has changes that no commit has; None outside of git."""
    name = git("describe", "--always", "--tags")
    if not name:
        return None
    changes = git("status", "--porcelain", "--", ".", *(f":(exclude){path}" for path in WRITTEN))
    return name + ("-dirty" if changes else "")
