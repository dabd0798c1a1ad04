"""Saves that happen whole or not at all, whatever fails on the way."""

import errno
import os
import stat

import pytest
import torch
from cases.storage import assert_same, small

from torch_hrr.io import IntegrityError, load, save

FORMAT = "torch_hrr.test"
METADATA = {"dim": 3}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def test_a_missing_file_stays_a_missing_file(path):
    with pytest.raises(FileNotFoundError):
        load(path, format=FORMAT)
    with pytest.raises(FileNotFoundError):
        save(path / "below", small(), {}, format=FORMAT, version=1)


def fails(monkeypatch, name, nth, error):
    """Makes the nth call of os.<name> raise."""
    real, calls = getattr(os, name), []

    def function(*arguments, **options):
        calls.append(arguments)
        if len(calls) == nth:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(os, name, function)
    return calls


@pytest.mark.parametrize("name", ["fsync", "replace", "chmod", "open"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "injected"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file(path, monkeypatch, name, error):
    save(path, small(), METADATA, format=FORMAT, version=1)
    before = path.read_bytes()
    calls = fails(monkeypatch, name, 1, error)
    with pytest.raises(type(error)):
        save(path, {"w": torch.zeros(100)}, {}, format=FORMAT, version=1)
    assert len(calls) == 1
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_failed_first_save_leaves_nothing(path, monkeypatch, name):
    fails(monkeypatch, name, 1, OSError(errno.ENOSPC, "injected"))
    with pytest.raises(OSError, match="injected"):
        save(path, small(), {}, format=FORMAT, version=1)
    assert os.listdir(path.parent) == []


def test_a_directory_that_fails_to_sync_is_reported_with_the_new_file_in_place(path, monkeypatch):
    calls = fails(monkeypatch, "fsync", 2, OSError(errno.EIO, "injected"))
    with pytest.raises(OSError, match="injected"):
        save(path, small(), {}, format=FORMAT, version=1)
    assert len(calls) == 2
    assert_same(load(path, format=FORMAT)[0], small())
    assert os.listdir(path.parent) == [path.name]


def test_a_directory_that_cannot_be_synced_is_no_error(path, monkeypatch):
    fails(monkeypatch, "fsync", 2, OSError(errno.EINVAL, "injected"))
    save(path, small(), {}, format=FORMAT, version=1)
    assert_same(load(path, format=FORMAT)[0], small())


def test_file_then_name_then_directory_are_synced(path, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: order.append(name) or real(*a))
    save(path, small(), {}, format=FORMAT, version=1)
    assert order == ["fsync", "replace", "fsync"]


def test_no_descriptor_is_left_open(path, monkeypatch):
    descriptors = "/proc/self/fd"
    if not os.path.isdir(descriptors):
        pytest.skip("needs /proc")
    save(path, small(), {}, format=FORMAT, version=1)
    before = len(os.listdir(descriptors))
    save(path, small(), {}, format=FORMAT, version=1)
    load(path, format=FORMAT)
    with pytest.raises(IntegrityError):
        load(path, format="other")
    fails(monkeypatch, "replace", 1, OSError("injected"))
    with pytest.raises(OSError, match="injected"):
        save(path, small(), {}, format=FORMAT, version=1)
    assert len(os.listdir(descriptors)) == before


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    previous = os.umask(0o027)
    yield
    os.umask(previous)


def test_modes(path, umask):
    save(path, small(), {}, format=FORMAT, version=1)
    assert mode(path) == 0o640
    for kept in (0o600, 0o664):
        path.chmod(kept)
        save(path, small(), METADATA, format=FORMAT, version=1)
        assert mode(path) == kept


def test_a_link_keeps_pointing_at_its_file(path, tmp_path):
    save(path, {}, {}, format=FORMAT, version=1)
    link = tmp_path / "link"
    link.symlink_to(path.name)
    save(link, small(), {}, format=FORMAT, version=1)
    assert link.is_symlink()
    assert_same(load(path, format=FORMAT)[0], small())


def test_only_regular_files_are_replaced(tmp_path):
    with pytest.raises(ValueError, match=r"^save: path must name a regular file, got "):
        save(tmp_path, small(), {}, format=FORMAT, version=1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"^save: path must name a regular file, got "):
        save(pipe, small(), {}, format=FORMAT, version=1)


def test_relative_paths_and_strings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("here", small(), {}, format=FORMAT, version=1)
    assert_same(load("here", format=FORMAT)[0], small())
