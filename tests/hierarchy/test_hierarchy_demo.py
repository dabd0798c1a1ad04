"""The demo's hierarchy job: what its filters are, and what the command prints."""

import pytest

from torch_hrr import __main__ as command_line
from torch_hrr.demos import hierarchy as hierarchy_demo


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    pytest.importorskip("sklearn")
    return hierarchy_demo.learn_digits(0, tmp_path_factory.mktemp("demo"), epochs=8)


def test_filters_are_the_principal_components_in_their_order(result):
    assert all(cosine > 0.98 for cosine in result.cosines)


def test_levels_keep_what_digits_are(result):
    raw, components, untrained, learned = result.accuracy.values()
    assert components > raw - 0.02
    assert min(untrained, learned) > raw


def test_the_command_prints_the_table_and_draws(result, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(hierarchy_demo, "learn_digits", lambda seed, output: result)
    assert command_line.main(["demo", "--jobs", "hierarchy", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for text in ("raw pixels", "BCM", "principal components: 0.9", "ticks of learning", "filters:"):
        assert text in printed
    if result.figure is not None:
        assert result.figure.read_bytes().startswith(b"\x89PNG")
