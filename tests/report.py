"""Where a test run's time went: the slowest tests and the seconds of each suite, from JUnit files.

python tests/report.py DIRECTORY
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

SLOWEST = 30


def read(path: Path) -> list[tuple[float, str, str]]:
    """Seconds, suite and name of every test of a file by pytest or GoogleTest, the latter named <suite>.<shard>.xml."""
    tests = []
    for case in ElementTree.parse(path).iter("testcase"):
        owner, name = case.get("classname", ""), case.get("name", "")
        if owner.startswith("tests."):
            suite = owner
        else:
            suite, name = path.stem.rpartition(".")[0] or path.stem, f"{owner}.{name}"
        tests.append((float(case.get("time", 0)), suite, name))
    return tests


def report(directory: Path) -> str:
    tests = [test for path in sorted(directory.glob("*.xml")) for test in read(path)]
    seconds: Counter[str] = Counter()
    for time, suite, _ in tests:
        seconds[suite] += time
    counts = Counter(suite for _, suite, _ in tests)
    lines = [f"The slowest {min(SLOWEST, len(tests))} of {len(tests)} tests:"]
    lines += [f"{time:8.2f} s  {suite}  {name}" for time, suite, name in sorted(tests, reverse=True)[:SLOWEST]]
    lines += ["Seconds by suite, of all processes together:"]
    lines += [f"{time:8.1f} s  {counts[suite]:6d} tests  {suite}" for suite, time in seconds.most_common()]
    return "\n".join([*lines, f"{sum(seconds.values()):8.1f} s  {len(tests):6d} tests"])


if __name__ == "__main__":
    print(report(Path(sys.argv[1])))
