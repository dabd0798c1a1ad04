"""Makes the mistakes of mutations.toml in a copy of the package, one at a time, and says which of them tests see.

    python tests/mutations.py [--only NAME ...]

The exit status is 1 if one is not seen. test_mutations.py looks that every mistake can still be made.
"""

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What is built is not copied.
LINKED = ("lib", "include", "share")


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Changes the file below the root; ValueError where the text is not there exactly once."""
        path = root / self.file
        text = path.read_text()
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.file} must have {self.old!r} once, got it {found} times")
        path.write_text(text.replace(self.old, self.new))


def read() -> list[Mutation]:
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["mutation"]
    return [Mutation(**one | {"tests": tuple(one["tests"])}) for one in listed]


def copy_package(root: Path) -> None:
    package = ROOT / "torch_hrr"
    shutil.copytree(package, root / "torch_hrr", ignore=shutil.ignore_patterns("__pycache__", *LINKED))
    for name in LINKED:
        if (package / name).exists():
            (root / "torch_hrr" / name).symlink_to((package / name).resolve())


def seen_by(mutation: Mutation) -> str:
    """The first of the test files that fails, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        copy_package(Path(folder))
        mutation.apply(Path(folder))
        # The package of the working directory stays off sys.path, in processes that tests start too.
        environment = {"PYTHONPATH": os.pathsep.join((folder, str(ROOT))), "PYTHONSAFEPATH": "1"}
        for test in mutation.tests:
            run = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", test],
                cwd=ROOT,
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            if run.returncode not in (0, 1, 2):
                raise RuntimeError(f"{mutation.name}: {test} did not run:\n{run.stdout[-2000:]}")
            if run.returncode:
                return test
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", help="names of mutations")
    wanted = parser.parse_args().only
    mutations = [one for one in read() if not wanted or one.name in wanted]
    missed = 0
    for one in mutations:
        start = time.perf_counter()
        test = seen_by(one)
        missed += not test
        print(f"{one.name:42} {test or 'NOT SEEN':44} {time.perf_counter() - start:4.0f} s", flush=True)
    print(f"{len(mutations) - missed} of {len(mutations)} seen")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
