"""Copies beside computation: the pipeline's order and results, and what waits for what on a GPU's streams."""

import contextlib
import itertools
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from torch_hrr.runtime import DeviceError, OptimizedTransfers, device, pipeline, transfers

GPU = torch.device("cuda")
BATCHES = [torch.full((2,), float(i)) for i in range(5)]
DOUBLED = [[2.0 * i] * 2 for i in range(5)]


def test_results_are_those_of_the_loop_in_its_order():
    assert [x.tolist() for x in pipeline(lambda x: 2 * x, BATCHES, "cpu")] == DOUBLED
    assert list(pipeline(torch.sin, [], "cpu")) == []
    structured = pipeline(lambda b: (b["x"] + 1, "kept"), ({"x": np.ones(2), "name": i} for i in range(2)), "cpu")
    assert [(x.tolist(), name) for x, name in structured] == [([2.0, 2.0], "kept")] * 2
    read = []
    results = pipeline(lambda x: x, (read.append(i) or torch.tensor(i) for i in range(5)), "cpu")
    assert read == []
    next(results)
    assert read == [0]


class InOneBuffer:
    """Doubles a batch, always into the same memory."""

    def __init__(self):
        self.buffer = torch.zeros(2)

    def __call__(self, x):
        return {"all": torch.mul(x, 2, out=self.buffer), "part": self.buffer[:1]}


def test_results_and_batches_are_apart_on_the_cpu():
    assert [x.tolist() for x in pipeline(lambda x: x.mul_(2), BATCHES, "cpu")] == DOUBLED
    assert [x.tolist() for x in BATCHES] == [[float(i)] * 2 for i in range(5)]
    results = list(pipeline(InOneBuffer(), BATCHES, "cpu"))
    assert [x["all"].tolist() for x in results] == DOUBLED and results[3]["part"].tolist() == [6.0]
    (same,) = pipeline(lambda x: x, BATCHES[:1], "cpu")
    assert same.data_ptr() != BATCHES[0].data_ptr()
    x = torch.ones(2, device="meta")
    assert transfers._pinned(x) is not x and transfers._pinned(x).is_meta


class Stream:
    """One of CUDA's streams as torch shows them, which writes down what it waits for and what is queued on it."""

    def __init__(self, timeline, name):
        self.log, self.name = timeline.log, name

    def wait_stream(self, other):
        self.log.append((self.name, "waits for", other.name))

    def record_event(self):
        number = sum(entry[1] == "event" for entry in self.log)
        self.log.append((self.name, "event", number))
        return SimpleNamespace(synchronize=lambda: self.log.append(("host", "waits for event", number)))


@pytest.fixture
def timeline(monkeypatch):
    """What is done on pretended streams, in order: the log, and the name of the current one."""
    made, names = SimpleNamespace(log=[], current="compute"), itertools.cycle(("in", "out"))
    compute = Stream(made, "compute")

    @contextlib.contextmanager
    def use(stream):
        before, made.current = made.current, stream.name
        yield
        made.current = before

    def noted(verb):
        return lambda leaf, *_: made.log.append((made.current, verb, leaf.tolist())) or leaf.clone()

    monkeypatch.setattr(torch.cuda, "Stream", lambda device=None: Stream(made, next(names)))
    monkeypatch.setattr(torch.cuda, "stream", use)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: compute)
    monkeypatch.setattr(transfers, "_pinned", lambda leaf: leaf)
    monkeypatch.setattr(transfers._Lanes, "_queued", staticmethod(noted("copies")))
    monkeypatch.setattr(transfers, "_own", noted("keeps"))
    return made


def test_every_stream_waits_for_what_it_reads(timeline):
    def fn(x):
        timeline.log.append((timeline.current, "computes", x.tolist()))
        return 10 * x

    log = timeline.log
    for result in transfers._overlapped(fn, [torch.tensor(i) for i in range(4)], GPU):
        log.append(("host", "has", result.tolist()))
    assert [entry[2] for entry in log if entry[1] == "has"] == [0, 10, 20, 30]
    for i in range(4):
        steps = [
            ("in", "copies", i),
            ("compute", "waits for", "in"),
            ("compute", "computes", i),
            ("compute", "keeps", 10 * i),
            ("out", "waits for", "compute"),
            ("out", "copies", 10 * i),
            ("out", "event", i),
            ("host", "waits for event", i),
            ("host", "has", 10 * i),
        ]
        places = [log.index(step, log.index(("in", "copies", i))) for step in steps]
        assert places == sorted(places), steps
    # Two batches more are queued before the host waits for one.
    waits = [place for place, entry in enumerate(log) if entry[1] == "waits for event"]
    assert log.index(("out", "event", 2)) < waits[0] < log.index(("in", "copies", 3))


def test_results_of_one_buffer_are_apart_where_copies_out_are_late(timeline, monkeypatch):
    """A stream for copies out that does nothing before the program waits for it."""
    pending = []

    def queued(leaf, target):
        if timeline.current != "out":
            return leaf.clone()
        pending.append((torch.empty_like(leaf), leaf))
        return pending[-1][0]

    def copy_all():
        while pending:
            far, leaf = pending.pop()
            far.copy_(leaf)

    monkeypatch.setattr(transfers._Lanes, "_queued", staticmethod(queued))
    monkeypatch.setattr(Stream, "record_event", lambda stream: SimpleNamespace(synchronize=copy_all))
    results = list(transfers._overlapped(InOneBuffer(), BATCHES, GPU))
    assert [x["all"].tolist() for x in results] == DOUBLED and results[3]["part"].tolist() == [6.0]


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_a_device_that_fails_in_the_pipeline_is_named(timeline, monkeypatch, kind):
    monkeypatch.setattr(device, "_move", lambda op, tensor, target: tensor)
    run = transfers._overlapped if kind == "cuda" else transfers._one_by_one
    told = r"^pipeline: device \w+ failed: CUDA error"
    for error, kind_of, text in (
        (torch.AcceleratorError("CUDA error: illegal"), DeviceError, told),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"), DeviceError, told),
        (RuntimeError("fn's own"), RuntimeError, r"^fn's own$"),
    ):
        with pytest.raises(kind_of, match=text):
            list(run(Mock(side_effect=error), BATCHES, torch.device(kind)))


def test_transfers_on_the_cpu_are_copies():
    moving = OptimizedTransfers("cpu")
    buffer = moving.create_pinned_memory((2, 3))
    assert (buffer.shape, buffer.dtype, buffer.device) == ((2, 3), torch.float32, torch.device("cpu"))
    assert moving.create_pinned_memory([2], torch.float64).dtype == torch.float64
    near = moving.async_transfer(buffer.fill_(1))
    buffer.fill_(2)
    assert near.tolist() == [[1] * 3] * 2
    array = np.arange(3.0)
    near = moving.async_transfer(array)
    array[:] = 0
    assert torch.equal(near, torch.arange(3.0, dtype=torch.float64))
    moving.synchronize()
    moving.release(buffer)


def test_a_copy_to_a_gpu_waits_and_is_waited_for(timeline, monkeypatch):
    moving = OptimizedTransfers("cpu")
    moving.device = GPU

    class Source(torch.Tensor):
        def to(self, device, **options):
            timeline.log.append((timeline.current, "copies", device.type, *options))
            used = lambda stream: timeline.log.append(("memory", "is used by", stream.name))  # noqa: E731
            return SimpleNamespace(record_stream=used)

    source = torch.ones(1).as_subclass(Source)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    moving.async_transfer(source, Stream(timeline, "given"))
    moving._stream = Stream(timeline, "own")
    moving.async_transfer(source)
    assert timeline.log == [
        entry
        for name in ("given", "own")
        for entry in (
            (name, "waits for", "compute"),
            (name, "copies", "cuda", "non_blocking", "copy"),
            ("compute", "waits for", name),
            ("memory", "is used by", "compute"),
        )
    ]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda t: t.create_pinned_memory((2, -1)), ValueError, "create_pinned_memory: shape must be at least 0"),
        (lambda t: t.create_pinned_memory((2**62, 4)), ValueError, "create_pinned_memory: the buffer must have fewer"),
        (lambda t: t.create_pinned_memory({2, 3}), TypeError, "create_pinned_memory: shape must be a sequence of ints"),
        (lambda t: t.async_transfer(torch.ones(1, device="meta")), ValueError, "async_transfer: a tensor must hold"),
        (lambda t: t.async_transfer(torch.ones(1), 3), TypeError, "async_transfer: stream must be a torch.cuda.Stream"),
        (lambda t: t.release(3), TypeError, "release: buffer must be a torch.Tensor"),
        (lambda t: pipeline(3, [], "cpu"), TypeError, "pipeline: fn must be callable, got int"),
        (lambda t: pipeline(torch.sin, 3, "cpu"), TypeError, "pipeline: batches must be an iterable, got int"),
        (lambda t: pipeline(torch.sin, torch.tensor(3), "cpu"), TypeError, "pipeline: batches must be an iterable, g"),
        (lambda t: pipeline(torch.sin, [], "meta"), ValueError, "pipeline: device must hold data, got meta"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call(OptimizedTransfers("cpu"))
