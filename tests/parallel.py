"""Instead of unittest.main: the classes of the main module side by side, each in a process of its own. Most of what they
do is waiting, for leases to end and for processes to start.

    if __name__ == "__main__":
        parallel.main()

Arguments name classes or tests, as for unittest.main, and are run one after another.
"""

import concurrent.futures
import subprocess
import sys
import unittest

AT_ONCE = 5


def run(name):
    return subprocess.run([sys.executable, sys.argv[0], name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


def main():
    if len(sys.argv) > 1:
        unittest.main(verbosity=2)
    suites = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    names = [type(next(iter(suite))).__name__ for suite in suites if suite.countTestCases()]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        failed = []
        for name, done in zip(names, pool.map(run, names)):
            print(f"== {name}\n{done.stdout}", flush=True)
            if done.returncode:
                failed.append(name)
    print("failed: " + ", ".join(failed) if failed else f"all of {len(names)} classes passed")
    sys.exit(bool(failed))
