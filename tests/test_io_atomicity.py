"""Saves that happen whole or not at all, whatever fails on the way."""

import errno
import os
import stat

import pytest
import torch
from cases.storage import assert_same, small

from torch_hrr.io import IntegrityError, load, save, save_in_pieces, write_atomically

FORMAT = "torch_hrr.test"
KIND = {"format": FORMAT, "version": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def watch(monkeypatch, fail=None, nth=1, error=None):
    """The calls by which a file becomes whole, in order; the nth of `fail` raises."""
    order = []

    def watched(name, real):
        def function(*given, **options):
            order.append(name)
            if name == fail and order.count(name) == nth:
                raise error
            return real(*given, **options)

        monkeypatch.setattr(os, name, function)

    for name in ("open", "chmod", "fsync", "replace"):
        watched(name, getattr(os, name))
    return order


@pytest.mark.parametrize(("name", "nth"), [("open", 1), ("chmod", 1), ("chmod", 2), ("fsync", 1), ("replace", 1)])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "injected"), KeyboardInterrupt()])
def test_a_failed_save_leaves_the_old_file_or_none(path, monkeypatch, name, nth, error):
    for before in (None, small()):
        if before:
            save(path, before, {}, **KIND)
        with monkeypatch.context() as patch, pytest.raises(type(error)):
            watch(patch, name, nth, error)
            save(path, {"w": torch.zeros(100)}, {}, **KIND)
        assert os.listdir(path.parent) == ([path.name] if before else [])
    assert_same(load(path, format=FORMAT)[0], small())


def test_a_disk_that_is_full_is_an_os_error(path):
    resource = pytest.importorskip("resource")
    save(path, small(), {}, **KIND)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        for write in (save, save_in_pieces):
            with pytest.raises(OSError, match=r"File too large: '\S+/state\.safetensors'$") as caught:
                write(path, {"w": torch.zeros(9999)}, {}, **KIND)
            assert caught.value.errno == errno.EFBIG
        with pytest.raises(OSError, match="File too large"):
            write_atomically(str(path), [bytes(9999)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(path.parent) == [path.name]
    assert_same(load(path, format=FORMAT)[0], small())


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL])
def test_a_directory_that_fails_to_sync_is_reported_with_the_new_file_in_place(path, monkeypatch, number):
    order = watch(monkeypatch, "fsync", 2, OSError(number, "injected"))
    if number == errno.EINVAL:
        # Of a file system on which directories cannot be synced.
        save(path, small(), {}, **KIND)
    else:
        with pytest.raises(OSError, match="injected"):
            save(path, small(), {}, **KIND)
    # The whole file has its mode and its bytes before its name, and the name lasts.
    assert order[-4:] == ["chmod", "fsync", "replace", "fsync"]
    assert_same(load(path, format=FORMAT)[0], small())
    assert os.listdir(path.parent) == [path.name]


def test_what_is_synced_is_the_file_that_gets_the_name(path, monkeypatch):
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_ino, real(handle))[0]))
    save(path, small(), {}, **KIND)
    assert synced == [path.stat().st_ino, path.parent.stat().st_ino]


def test_no_descriptor_is_left_open(path, monkeypatch):
    descriptors = "/proc/self/fd"
    if not os.path.isdir(descriptors):
        pytest.skip("needs /proc")
    save(path, small(), {}, **KIND)
    before = len(os.listdir(descriptors))
    save(path, small(), {}, **KIND)
    load(path, format=FORMAT)
    with pytest.raises(IntegrityError):
        load(path, format="other")
    watch(monkeypatch, "replace", 1, OSError("injected"))
    with pytest.raises(OSError, match="injected"):
        save(path, small(), {}, **KIND)
    assert len(os.listdir(descriptors)) == before


def test_modes_and_links(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path.name)
    previous = os.umask(0o027)
    try:
        for write in (lambda: save(link, small(), {}, **KIND), lambda: write_atomically(str(path), [b"x"])):
            path.unlink(missing_ok=True)
            write()
            assert stat.S_IMODE(path.stat().st_mode) == 0o640
            for mode in (0o600, 0o664, 0o444):
                path.chmod(mode)
                write()
                assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(previous)

    def chunks():
        # Nobody else reads along.
        yield b"x"
        yield str([stat.S_IMODE(each.stat().st_mode) for each in tmp_path.glob(".torch_hrr-*")]).encode()

    write_atomically(str(path), chunks())
    assert path.read_text() == f"x[{0o600}]"
    save(link, small(), {}, **KIND)
    assert link.is_symlink()
    assert_same(load(path, format=FORMAT)[0], small())


def test_only_regular_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ValueError, match=r"^save: path must name a regular file, got "):
            save(path, small(), {}, **KIND)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing", format=FORMAT)
    with pytest.raises(FileNotFoundError, match=r"save: folder of path must exist: '.*below'$"):
        save(tmp_path / "missing" / "below", {}, {}, **KIND)
    save(tmp_path / "file", small(), {}, **KIND)
    with pytest.raises(NotADirectoryError, match=r"save: folder of path must exist: '.*below'$"):
        save(tmp_path / "file" / "below", {}, {}, **KIND)


def test_relative_paths_and_strings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("here", small(), {}, **KIND)
    assert_same(load("here", format=FORMAT)[0], small())
    assert_same(load(b"here", format=FORMAT)[0], small())
