"""Copies beside computation: the pipeline's order and results, and what waits for what on a GPU's streams."""

import contextlib

import numpy as np
import pytest
import torch

from torch_hrr.runtime import DeviceError, OptimizedTransfers, device, pipeline, transfers


def test_results_are_those_of_the_loop_in_its_order():
    batches = [torch.full((2,), float(i)) for i in range(7)]
    assert [x.tolist() for x in pipeline(lambda x: 2 * x, batches, "cpu")] == [(2 * x).tolist() for x in batches]
    assert list(pipeline(torch.sin, [], "cpu")) == []
    structured = pipeline(lambda b: (b["x"] + 1, "kept"), ({"x": np.ones(2), "name": i} for i in range(2)), "cpu")
    assert [(x.tolist(), name) for x, name in structured] == [([2.0, 2.0], "kept")] * 2


class InOneBuffer:
    """Doubles a batch, always into the same memory."""

    def __init__(self):
        self.buffer = torch.zeros(2)

    def __call__(self, x):
        return {"all": torch.mul(x, 2, out=self.buffer), "part": self.buffer[:1]}


def test_results_and_batches_are_apart_on_the_cpu():
    batches = [torch.full((2,), float(i)) for i in range(5)]
    results = list(pipeline(lambda x: x.mul_(2), batches, "cpu"))
    assert [x.tolist() for x in results] == [[2.0 * i] * 2 for i in range(5)]
    assert [x.tolist() for x in batches] == [[float(i)] * 2 for i in range(5)]
    results = list(pipeline(InOneBuffer(), batches, "cpu"))
    assert [x["all"].tolist() for x in results] == [[2.0 * i] * 2 for i in range(5)]
    assert [x["part"].tolist() for x in results] == [[2.0 * i] for i in range(5)]
    (same,) = pipeline(lambda x: x, batches[:1], "cpu")
    assert same.data_ptr() != batches[0].data_ptr()


def test_results_of_one_buffer_are_apart_where_copies_out_are_late(timeline, monkeypatch):
    """A stream for copies out that does nothing before the program waits for it."""
    pending = []

    def queued(leaf, target):
        if timeline.current != "out":
            return leaf.clone()
        far = torch.empty_like(leaf)
        pending.append((far, leaf))
        return far

    def copy_all(event):
        while pending:
            far, leaf = pending.pop()
            far.copy_(leaf)

    monkeypatch.setattr(transfers._Lanes, "_queued", staticmethod(queued))
    monkeypatch.setattr(Event, "synchronize", copy_all)
    batches = [torch.full((2,), float(i)) for i in range(5)]
    results = list(transfers._overlapped(InOneBuffer(), batches, torch.device("cuda")))
    assert [x["all"].tolist() for x in results] == [[2.0 * i] * 2 for i in range(5)]
    assert [x["part"].tolist() for x in results] == [[2.0 * i] for i in range(5)]


def test_batches_that_are_on_the_device_are_copied_there():
    x = torch.ones(2, device="meta")
    assert transfers._pinned(x) is not x and transfers._pinned(x).is_meta


def test_batches_are_read_as_they_are_needed():
    read = []

    def batches():
        for i in range(5):
            read.append(i)
            yield torch.tensor(i)

    results = pipeline(lambda x: x, batches(), "cpu")
    assert read == []
    next(results)
    assert read == [0]


class Timeline:
    """CUDA's streams as torch shows them, which write down what is queued on them and what they wait for."""

    def __init__(self):
        self.log, self.current, self.made = [], "compute", iter(("in", "out"))

    def stream(self, device=None):
        return Stream(self, next(self.made))

    @contextlib.contextmanager
    def use(self, stream):
        before, self.current = self.current, stream.name
        yield
        self.current = before


class Stream:
    def __init__(self, timeline, name):
        self.timeline, self.name = timeline, name

    def wait_stream(self, other):
        self.timeline.log.append((self.name, "waits for", other.name))

    def record_event(self):
        number = sum(entry[1] == "event" for entry in self.timeline.log)
        self.timeline.log.append((self.name, "event", number))
        return Event(self.timeline, number)


class Near:
    """What a copy queued on a stream gives."""

    def __init__(self, timeline):
        self.timeline = timeline

    def record_stream(self, stream):
        self.timeline.log.append(("memory", "is used by", stream.name))


class Event:
    def __init__(self, timeline, number):
        self.timeline, self.number = timeline, number

    def synchronize(self):
        self.timeline.log.append(("host", "waits for event", self.number))


@pytest.fixture
def timeline(monkeypatch):
    made = Timeline()
    compute = Stream(made, "compute")
    monkeypatch.setattr(torch.cuda, "Stream", made.stream)
    monkeypatch.setattr(torch.cuda, "stream", made.use)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: compute)
    monkeypatch.setattr(transfers, "_pinned", lambda leaf: leaf)

    def queued(leaf, device):
        made.log.append((made.current, "copies", leaf.tolist()))
        return leaf.clone()

    def own(leaf):
        made.log.append((made.current, "keeps", leaf.tolist()))
        return leaf.clone()

    monkeypatch.setattr(transfers._Lanes, "_queued", staticmethod(queued))
    monkeypatch.setattr(transfers, "_own", own)
    return made


def test_every_stream_waits_for_what_it_reads(timeline):
    def fn(x):
        timeline.log.append((timeline.current, "computes", x.tolist()))
        return 10 * x

    batches = [torch.tensor(i) for i in range(4)]
    results = []
    for result in transfers._overlapped(fn, batches, torch.device("cuda")):
        timeline.log.append(("host", "has", result.tolist()))
        results.append(result)
    assert results == [0, 10, 20, 30]
    log = timeline.log
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


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
@pytest.mark.parametrize(
    "error",
    [
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"),
    ],
    ids=type,
)
def test_a_device_that_fails_in_the_pipeline_is_named(timeline, monkeypatch, kind, error):
    monkeypatch.setattr(device, "_move", lambda op, tensor, target: tensor)

    def fn(x):
        raise error

    run = transfers._overlapped if kind == "cuda" else transfers._one_by_one
    with pytest.raises(DeviceError, match=rf"^pipeline: device {kind} failed: CUDA error"):
        list(run(fn, [torch.ones(1)], torch.device(kind)))


def test_errors_of_the_function_are_its_own():
    def fn(x):
        raise RuntimeError("fn's own")

    with pytest.raises(RuntimeError, match=r"^fn's own$"):
        list(pipeline(fn, [torch.ones(1)], "cpu"))


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


def test_a_copy_to_a_gpu_waits_and_is_waited_for(timeline):
    moving = OptimizedTransfers("cpu")
    moving.device = torch.device("cuda")

    class Source(torch.Tensor):
        def to(self, device, **options):
            timeline.log.append((timeline.current, "copies", device.type, *options))
            return Near(timeline)

    moving.async_transfer(torch.ones(1).as_subclass(Source))
    assert timeline.log == [
        ("in", "waits for", "compute"),
        ("in", "copies", "cuda", "non_blocking", "copy"),
        ("compute", "waits for", "in"),
        ("memory", "is used by", "compute"),
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
