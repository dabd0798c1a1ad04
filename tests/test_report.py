"""The report at the end of a test run: the slowest tests first, and the seconds of each suite."""

from pathlib import Path

from report import report

PYTEST = """<testsuites><testsuite name="pytest">
<testcase classname="tests.test_one" name="test_a[x]" time="2.5"/>
<testcase classname="tests.test_one" name="test_b" time="0.25"><skipped message="no"/></testcase>
</testsuite></testsuites>"""
GOOGLETEST = (
    """<testsuites><testsuite name="Bind"><testcase name="Rows" classname="Bind" time="3"/></testsuite></testsuites>"""
)


def test_tests_are_sorted_and_suites_added_up(tmp_path: Path) -> None:
    (tmp_path / "python.xml").write_text(PYTEST)
    for shard in range(2):
        (tmp_path / f"kernels.avx2.{shard}.xml").write_text(GOOGLETEST)
    lines = [line.split() for line in report(tmp_path).splitlines()]
    assert lines[1] == ["3.00", "s", "kernels.avx2", "Bind.Rows"]
    assert lines[3] == ["2.50", "s", "tests.test_one", "test_a[x]"]
    assert lines[-3:] == [
        ["6.0", "s", "2", "tests", "kernels.avx2"],
        ["2.8", "s", "2", "tests", "tests.test_one"],
        ["8.8", "s", "4", "tests"],
    ]
