"""Calls of every operator by bytes, valid and changed; `make reliability` goes on under sanitizers."""

import collections
import os
import pathlib
import subprocess

import pytest
from fuzz import corpus

PROGRAM = pathlib.Path(os.environ.get("TORCH_HRR_BUILD_DIR", ""), "tests/cpp/fuzz_operators")


@pytest.mark.skipif(not PROGRAM.is_file(), reason="make test builds the program")
@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_every_operator_bears_any_bytes(tmp_path):
    calls = corpus.write(tmp_path)
    done = subprocess.run([PROGRAM, tmp_path, "3"], capture_output=True, text=True, errors="replace", timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    returned = collections.Counter()
    for line in done.stdout.splitlines():
        times, _, raised, _, *name = line.split()
        returned["".join(name)] = int(times)
        calls -= int(times) + int(raised)
    assert calls <= 0
    names = {name + (f".{overload}" if overload else "") for name, overload in corpus.names()}
    # Each returned at least once.
    assert {name for name in names if returned[name] == 0} == set()
