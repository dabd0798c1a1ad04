"""Every mistake of mutations.toml can still be made."""

import mutations
import pytest


def test_every_text_to_be_changed_is_there_once(tmp_path):
    listed = mutations.read()
    assert len({one.name for one in listed}) == len(listed) >= 36
    mutations.copy_package(tmp_path)
    for one in listed:
        path = tmp_path / one.file
        before = path.read_text()
        one.apply(tmp_path)
        assert path.read_text() != before
        compile(path.read_text(), one.file, "exec")
        path.write_text(before)
        for test in one.tests:
            assert (mutations.ROOT / test).is_file(), f"{one.name}: {test}"


def test_a_text_that_is_gone_is_an_error(tmp_path):
    mutations.copy_package(tmp_path)
    one = mutations.read()[0]
    one.apply(tmp_path)
    with pytest.raises(ValueError, match=r"must have .* once, got it 0 times"):
        one.apply(tmp_path)
