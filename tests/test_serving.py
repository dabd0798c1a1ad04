"""The example service: answers, bad input, load, metrics, and what is left of a process that is killed."""

import concurrent.futures
import contextlib
import functools
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

import torch_hrr
from torch_hrr import hrr

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "serving"
KEY = b"a secret"
DIM = 96

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")


@pytest.fixture(scope="module")
def example():
    sys.path.insert(0, str(EXAMPLE))
    try:
        import cleanup_model
        import service

        yield cleanup_model, service
    finally:
        sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def made(example, tmp_path_factory):
    """A file of a small model, and the vocabulary that it was made of; exporting takes seconds."""
    words = hrr.Vocabulary(DIM, seed=1, device="cpu")
    words.populate("COLOR; SHAPE; BLUE; RED; CIRCLE; SCENE = COLOR * BLUE + SHAPE * CIRCLE")
    folder = tmp_path_factory.mktemp("made")
    words.save(folder / "words.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(example[0].KEY, KEY.hex())
        example[0].main([str(folder / "model.safetensors"), "--words", str(folder / "words.safetensors")])
    return folder / "model.safetensors", words


@pytest.fixture
def path(made, tmp_path):
    """A copy that a test may change."""
    copy = tmp_path / "model.safetensors"
    copy.write_bytes(made[0].read_bytes())
    return copy


@contextlib.contextmanager
def served(example, path):
    """Calls of a server in this process: method, path and body give status and the answer's text."""
    server = uvicorn.Server(
        uvicorn.Config(example[1].create_app(path, KEY, "cpu"), port=0, http="h11", ws="none", log_level="error")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield functools.partial(call, server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


def call(port, method, path, body=None):
    """Bytes and iterators of bytes, which are sent in chunks of unknown number, are sent as they are."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        content = json.dumps(body).encode() if isinstance(body, dict | list) else body
        connection.request(method, path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def question(vectors, **options):
    return {"records": vectors.tolist(), **options}


def test_answers_are_those_of_the_library_and_are_counted(example, made):
    path, words = made
    scene, records = words["SCENE"].as_subclass(torch.Tensor), torch.stack([words["SCENE"], words["RED"]])
    memory = hrr.ItemMemory(words.vectors, words.names)
    with served(example, path) as ask:
        assert json.loads(ask("GET", "/health")[1]) == {"status": "ok", "items": 6, "dim": DIM, "device": "cpu"}
        assert json.loads(ask("GET", "/items")[1]) == list(words.names)
        for role, noisy in (("COLOR", hrr.unbind(records, words["COLOR"])), (None, records)):
            status, text = ask("POST", "/cleanup", question(records, role=role, top_k=3))
            found, expected = json.loads(text), memory.cleanup(noisy, top_k=3)
            assert status == 200 and found["names"] == expected.names
            torch.testing.assert_close(torch.tensor(found["cosines"]), expected.values, atol=2e-6, rtol=0)
        assert json.loads(ask("POST", "/cleanup", question(scene[None], role="COLOR"))[1])["names"] == [["BLUE"]]
        # More are asked for than there are; a vector of zeros is near to none.
        found = json.loads(ask("POST", "/cleanup", question(torch.zeros(1, DIM), top_k=100))[1])
        assert len(found["names"][0]) == 6 and found["cosines"] == [[0.0] * 6]
        ask("POST", "/cleanup", {})
        ask("GET", "/nowhere/else")
        ask("BREW", "/nowhere/else")
        metrics = ask("GET", "/metrics")[1].splitlines()
    for line in (
        'torch_hrr_serving_requests_total{method="POST",path="/cleanup",status="200"} 4.0',
        'torch_hrr_serving_requests_total{method="POST",path="/cleanup",status="422"} 1.0',
        'torch_hrr_serving_requests_total{method="GET",path="other",status="404"} 1.0',
        'torch_hrr_serving_requests_total{method="other",path="other",status="404"} 1.0',
        'torch_hrr_serving_request_seconds_count{path="/cleanup"} 5.0',
        "torch_hrr_serving_items 6.0",
        'torch_hrr_monitor_running{device="cpu"} 1.0',
    ):
        assert line in metrics


def test_bad_input_is_refused_and_changes_nothing(example, path):
    before, good = path.read_bytes(), [[0.5] * DIM]
    bad = {
        # Thousands of mistakes are one error: to collect them all would stop the service for seconds.
        "body.records.0.0": [
            {"records": [[""] * 2500] * 23},
            {"records": [["1.5"] * DIM]},
            {"records": [[True] * DIM]},
            {"records": [[1e7] * DIM]},
        ],
        "body.records.0": [{"records": [1.0, 2.0]}, {"records": [[]]}, {"records": ["x"]}],
        "body.records": [{}, {"records": []}, {"records": good * 65}, {"records": None}],
        "body.top_k": [{"records": good, "top_k": value} for value in (0, 101, 1.5, "2", True)],
        "body.role": [{"records": good, "role": value} for value in ("", 3, "x" * 201)],
        "body.depth": [{"records": good, "depth": 1}],
        "body." + "x" * 100: [{"records": good, "x" * 3000: 1}],
        "body": [b"", [good], {"records": good} | {str(index): 1 for index in range(10_000)}],
        "body.1": [b"{", b"{records}"],
        "each record must have 96 elements, got 95": [
            {"records": [[0.5] * 95]},
            {"records": [[0.5] * DIM, [0.5] * 95]},
        ],
        'role must be the name of an item, got "Gr\\u00fcn"': [{"records": good, "role": "Grün"}],
    }
    with served(example, path) as ask:
        for place, bodies in bad.items():
            for body in bodies:
                status, text = ask("POST", "/cleanup", body)
                detail = json.loads(text)["detail"]
                where = detail if isinstance(detail, str) else ".".join(map(str, detail[0]["loc"]))
                assert (status, where) == (422, place), (body, text)
                assert isinstance(detail, str) or len(detail) == 1, text
                assert len(text) < 2000
        for unreadable in (b"\xff", b"[" * 200_000, b'{"a":' * 50_000):
            assert ask("POST", "/cleanup", unreadable)[0] in (400, 422)
        for word in (b"NaN", b"Infinity", b"1e999"):
            row = b"[" + b",".join([word] * DIM) + b"]"
            assert ask("POST", "/cleanup", b'{"records": [' + row + b"]}")[0] == 422
            assert ask("PUT", "/items/new", b'{"vector": ' + row + b"}")[0] == 422
        assert ask("PUT", "/items/new", {"vector": [0.5] * (DIM + 1)})[0] == 422
        assert ask("PUT", "/items/" + "x" * 201, {"vector": good[0]})[0] == 422
        # Bodies that are too long, told beforehand or not.
        most = 64 * 32 * DIM + 2**16
        assert ask("POST", "/cleanup", b" " * (most + 1)) == (
            413,
            f'{{"detail":"the body must have at most {most} bytes"}}',
        )
        assert ask("POST", "/cleanup", iter([b" " * 2**14] * (most // 2**14 + 1)))[0] == 413
        longest = {"records": [[-0.12345678901234567e-20] * DIM] * 64}
        assert ask("POST", "/cleanup", json.dumps(longest, indent=2).encode())[0] == 200
        assert ask("GET", "/cleanup")[0] == 405
        assert json.loads(ask("GET", "/health")[1])["items"] == 6
    assert path.read_bytes() == before


def test_requests_at_once_have_the_bits_of_single_ones(example, path):
    generator = torch.Generator().manual_seed(0)
    bodies = [question(torch.randn(1 + index % 7, DIM, generator=generator), top_k=6) for index in range(24)]
    for index, body in enumerate(bodies):
        body["role"] = [None, "COLOR", "SHAPE"][index % 3]
    with served(example, path) as ask:
        single = [ask("POST", "/cleanup", body) for body in bodies]
        assert {status for status, _ in single} == {200} and len({text for _, text in single}) == len(bodies)
        with concurrent.futures.ThreadPoolExecutor(12) as threads:
            for _ in range(3):
                assert list(threads.map(lambda body: ask("POST", "/cleanup", body), bodies)) == single
            # Items that are written meanwhile are lost by none, and no answer is of half a memory.
            added = {f"new {index}": torch.randn(DIM, generator=generator).tolist() for index in range(8)}
            writes = [
                threads.submit(ask, "PUT", f"/items/new%20{index}", {"vector": added[f"new {index}"]})
                for index in range(8)
            ]
            reads = list(threads.map(lambda body: ask("POST", "/cleanup", body), bodies))
            assert [each.result()[0] for each in writes] == [204] * 8 and {status for status, _ in reads} == {200}
        for name, vector in added.items():
            found = json.loads(ask("POST", "/cleanup", {"records": [vector]})[1])
            assert found["names"] == [[name]] and abs(found["cosines"][0][0] - 1) < 1e-5


def test_a_write_that_fails_changes_nothing(example, path, monkeypatch):
    before = path.read_bytes()
    with served(example, path) as ask:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            status, text = ask("PUT", "/items/BLUE", {"vector": [0.5] * DIM})
            assert status == 503 and "nothing changed: [Errno 28]" in text
        assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
        found = json.loads(ask("POST", "/cleanup", {"records": [[0.5] * DIM]})[1])
        assert found["cosines"][0][0] < 0.9
        assert ask("PUT", "/items/BLUE", {"vector": [0.5] * DIM})[0] == 204
        assert json.loads(ask("POST", "/cleanup", {"records": [[0.5] * DIM]})[1])["names"] == [["BLUE"]]


def test_arguments_that_cannot_be_are_one_line(example, made, tmp_path, capsys):
    cleanup_model, service = example
    calls = (
        (cleanup_model.main, [str(tmp_path / "model"), "--words", str(tmp_path / "none")], "No such file"),
        (cleanup_model.main, [str(tmp_path / "model"), "--words", str(tmp_path)], "must name a regular file"),
        (service.main, [str(made[0]), "--port", "99999"], "invalid port value: '99999'"),
    )
    for main, arguments, said in calls:
        with pytest.raises(SystemExit):
            main(arguments)
        assert said in capsys.readouterr().err.splitlines()[-1]


def test_a_killed_process_starts_again_with_all_that_was_acknowledged(example, path):
    program = [sys.executable, str(EXAMPLE / "service.py"), str(path), "--device", "cpu", "--port", "0"]
    environment = os.environ | {example[0].KEY: KEY.hex(), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        line = next(line for line in server.stderr if "running on http" in line)
        port = int(line.split("127.0.0.1:")[1].split()[0])
        generator, acknowledged = torch.Generator().manual_seed(0), []
        killer = threading.Timer(1, server.send_signal, (signal.SIGKILL,))
        with contextlib.suppress(OSError, http.client.HTTPException):
            for index in range(100_000):
                vector = torch.randn(DIM, generator=generator)
                assert call(port, "PUT", f"/items/item{index}", {"vector": vector.tolist()})[0] == 204
                acknowledged.append(vector)
                if index == 5:
                    killer.start()
        assert server.wait(timeout=60) == -signal.SIGKILL and len(acknowledged) > 5
    finally:
        server.kill()
        server.stderr.close()
        server.wait()
    # What a write that was killed leaves beside the file is not looked at.
    (path.parent / ".torch_hrr-killed.tmp").write_bytes(path.read_bytes()[:1000])
    with served(example, path) as ask:
        names = json.loads(ask("GET", "/items")[1])[6:]
        # The write that the kill met may have reached the file.
        assert names == [f"item{index}" for index in range(len(names))]
        assert len(acknowledged) <= len(names) <= len(acknowledged) + 1
        for begin in range(0, len(acknowledged), 64):
            rows = torch.stack(acknowledged[begin : begin + 64])
            found = json.loads(ask("POST", "/cleanup", question(rows))[1])
            assert found["names"] == [[name] for name in names[begin : begin + len(rows)]]


def test_a_file_that_is_damaged_or_forged_is_never_unpickled(example, path, monkeypatch):
    model = example[0].CleanupModel
    monkeypatch.setattr(torch.export, "load", lambda *arguments: pytest.fail("looked at"))
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    (path.parent / "damaged").write_bytes(content)
    torch_hrr.io.save(path.parent / "half", {}, {}, format=example[0].FORMAT, version=example[0].VERSION, key=b"other")
    for name, key in (("damaged", KEY), ("half", KEY), (path.name, None), (path.name, b"other")):
        with pytest.raises(torch_hrr.IntegrityError):
            model.load(path.parent / name, key, "cpu")
    # A variable that is set but empty must not switch the key off.
    for digits, text in (("not digits", ": "), ("", ", got nothing"), ("  ", ", got nothing")):
        monkeypatch.setenv(example[0].KEY, digits)
        with pytest.raises(SystemExit, match=f"^TORCH_HRR_SERVING_KEY must be hexadecimal digits{text}"):
            example[0].key_of_environment()
    monkeypatch.delenv(example[0].KEY)
    assert example[0].key_of_environment() is None
    with pytest.raises(FileNotFoundError):
        model.load(path.parent / "missing", KEY, "cpu")


def test_a_file_that_cannot_be_served_is_said_in_a_line(example, path, monkeypatch, capsys):
    monkeypatch.setattr(uvicorn, "run", lambda *args, **options: pytest.fail("started"))
    monkeypatch.setenv(example[0].KEY, KEY.hex())
    (path.parent / "text").write_text("no model")
    for name, said in (("missing", "No such file"), ("text", "")):
        with pytest.raises(SystemExit, match="1"):
            example[1].main([str(path.parent / name), "--device", "cpu"])
        line = capsys.readouterr().err
        reason = line.partition(f"{path.parent / name} cannot be served: ")[2]
        assert reason.strip() and said in reason and line.count("\n") == 1
    monkeypatch.delenv(example[0].KEY)
    with pytest.raises(SystemExit, match="1"):
        example[1].main([str(path), "--device", "cpu"])
    assert "key" in capsys.readouterr().err


def test_a_model_is_made_of_vectors_with_names_alone(example, tmp_path, capsys):
    hrr.ItemMemory(torch.randn(3, 8)).save(tmp_path / "memory")
    with pytest.raises(SystemExit):
        example[0].main([str(tmp_path / "model"), "--words", str(tmp_path / "memory")])
    assert "must hold vectors with names, got ItemMemory" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
