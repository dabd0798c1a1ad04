"""Pattern libraries: cosine, blends, the oldest replaced, files; and pools of tensors."""

import copy
import pickle

import numpy
import pytest
import torch
import torch.nn.functional as F

import torch_hrr
from torch_hrr.field import PatternLibrary
from torch_hrr.runtime import TensorPool


def filled(count, capacity=8, dim=5, pattern_dim=3):
    library = PatternLibrary(capacity, dim, pattern_dim, device="cpu")
    contexts, patterns = torch.randn(count, dim), torch.randn(count, pattern_dim)
    for context, pattern in zip(contexts, patterns, strict=True):
        library.store(context, pattern)
    return library, contexts, patterns


def test_an_empty_library_gives_zeros():
    pattern, similarity = PatternLibrary(4, 3, device="cpu").find_best_pattern(torch.ones(3))
    assert not pattern.any() and similarity == 0 and pattern.shape == (3,)


@pytest.mark.parametrize("count", (1, 2, 3, 8))
def test_the_three_best_are_blended(count):
    library, contexts, patterns = filled(count)
    asked = torch.randn(5)
    cosines = F.cosine_similarity(asked.unsqueeze(0), contexts)
    best, rows = cosines.topk(min(3, count))
    pattern, similarity = library.find_best_pattern(asked)
    torch.testing.assert_close(pattern, (10 * best).softmax(0) @ patterns[rows])
    torch.testing.assert_close(similarity, best[0])


def test_a_state_of_the_field_takes_part():
    library, contexts, patterns = filled(8)
    asked, state = torch.randn(5), patterns[6]
    scores = F.cosine_similarity(asked.unsqueeze(0), contexts) + F.cosine_similarity(state.unsqueeze(0), patterns)
    _, similarity = library.find_best_pattern(asked, state)
    torch.testing.assert_close(similarity, scores.max() / 2)


def test_the_oldest_makes_room():
    library, contexts, patterns = filled(11)
    assert len(library) == 8
    torch.testing.assert_close(library.contexts, F.normalize(torch.cat((contexts[8:], contexts[3:8]))))
    assert torch.equal(library.patterns, torch.cat((patterns[8:], patterns[3:8])))


@pytest.mark.parametrize("capacity", (1, 2))
def test_small_libraries(capacity):
    library, contexts, patterns = filled(3, capacity)
    pattern, similarity = library.find_best_pattern(contexts[2])
    assert similarity == pytest.approx(1, rel=1e-5)
    assert capacity > 1 or torch.equal(pattern, patterns[2])


def test_the_device_decides_whether_to_store():
    library, _, _ = filled(2)
    before = library.state_dict()
    before = {name: tensor.clone() for name, tensor in before.items()}
    library.store(torch.ones(5), torch.ones(3), torch.tensor([False]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in library.state_dict().items())
    library.store(torch.ones(5), torch.ones(3), torch.tensor(True))
    assert len(library) == 3 and torch.equal(library.patterns[2], torch.ones(3))


def test_a_context_of_zeros():
    library, _, _ = filled(2)
    pattern, similarity = library.find_best_pattern(torch.zeros(5))
    assert similarity == 0 and pattern.isfinite().all()
    library.store(torch.zeros(5), torch.ones(3))
    assert library.find_best_pattern(torch.ones(5))[0].isfinite().all()


def test_files(tmp_path):
    library, contexts, _ = filled(11)
    library.save(tmp_path / "library", key=b"secret")
    again = PatternLibrary.load(tmp_path / "library", key=b"secret", device="cpu")
    assert repr(again) == repr(library)
    assert torch.equal(again.find_best_pattern(contexts[9])[0], library.find_best_pattern(contexts[9])[0])
    for name, tensors in {
        "shape": {"contexts": torch.ones(2, 2), "patterns": torch.ones(3, 2), "stored": torch.zeros(1).long()},
        "count": {"contexts": torch.ones(2, 2), "patterns": torch.ones(2, 2), "stored": -torch.ones(1).long()},
    }.items():
        torch_hrr.io.files.save(tmp_path / name, tensors, {}, format="torch_hrr.pattern_library", version=1)
        with pytest.raises(torch_hrr.IntegrityError, match="must describe a PatternLibrary"):
            PatternLibrary.load(tmp_path / name)
    library.clear()
    assert len(library) == 0


ONES = torch.ones(5), torch.ones(3)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([1.0], ONES[1]), TypeError, "context must be a torch.Tensor or a NumPy array, got list"),
        ((ONES[0][1:], ONES[1]), ValueError, r"context must have shape \[5\], got \[4\]"),
        ((ONES[0].to("meta"), ONES[1]), ValueError, "context must be on cpu, got meta"),
        ((ONES[0], ONES[1].to("meta")), ValueError, "pattern must be on cpu, got meta"),
        ((ONES[0].int(), ONES[1]), TypeError, "context must be float32, float64, float16 or bfloat16, got torch.int32"),
        ((ONES[0], ONES[1] + 1j), TypeError, "pattern must be float32, .*, got torch.complex64"),
        ((*ONES, True), TypeError, "when must be a torch.Tensor or a NumPy array, got bool"),
        ((*ONES, torch.ones(1)), TypeError, "when must be bool, got torch.float32"),
        ((*ONES, torch.ones(2).bool()), ValueError, r"when must have one element, got a shape of \[2\]"),
        ((*ONES, torch.ones(1, device="meta").bool()), ValueError, "when must be on cpu, got meta"),
    ],
    ids=range(10),
)
def test_what_cannot_be_stored_leaves_the_library_as_it_is(arguments, error, text):
    library, _, _ = filled(3)
    before = {name: tensor.clone() for name, tensor in library.state_dict().items()}
    with pytest.raises(error, match=f"^store: {text}"):
        library.store(*arguments)
    assert all(torch.equal(tensor, before[name]) for name, tensor in library.state_dict().items())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((ONES[0].to("meta"),), ValueError, "context must be on cpu, got meta"),
        ((ONES[0] + 1j,), TypeError, "context must be float32, .*, got torch.complex64"),
        ((ONES[0][None],), ValueError, r"context must have shape \[5\], got \[1, 5\]"),
        ((ONES[0], ONES[1].to("meta")), ValueError, "field_state must be on cpu, got meta"),
        ((ONES[0], ONES[1].long()), TypeError, "field_state must be float32, .*, got torch.int64"),
    ],
    ids=range(5),
)
def test_what_cannot_be_looked_for(arguments, error, text):
    with pytest.raises(error, match=f"^find_best_pattern: {text}"):
        filled(3)[0].find_best_pattern(*arguments)


def test_copies_and_dtypes():
    library, contexts, _ = filled(3)
    expected = library.find_best_pattern(contexts[1])
    for again in (copy.deepcopy(library), pickle.loads(pickle.dumps(library))):
        assert all(torch.equal(*each) for each in zip(again.find_best_pattern(contexts[1]), expected, strict=True))
        again.clear()
    assert len(library) == 3
    for changed in (library.double(), library.half(), library.bfloat16()):
        pattern, similarity = changed.find_best_pattern(contexts[1])
        assert pattern.dtype == similarity.dtype == changed.contexts.dtype and float(similarity) == pytest.approx(
            1, abs=0.02
        )
    assert library.to("meta").find_best_pattern(contexts[1].to("meta"))[0].is_meta


def test_a_pattern_library_under_another_default_device(tmp_path):
    library, contexts, _ = filled(3)
    with torch.device("meta"):
        library.store(contexts[0], ONES[1])
        library.save(tmp_path / "library")
        again = PatternLibrary.load(tmp_path / "library", device="cpu")
    assert len(again) == 4 and torch.equal(again.patterns[3], ONES[1])


def test_a_pool_keeps_its_memory():
    pool = TensorPool({"field": (2, 3), "counts": ((4,), torch.int64)}, "cpu")
    assert list(pool) == ["field", "counts"] and len(pool) == 2 and pool.nbytes == 24 + 32
    assert pool["counts"].dtype == torch.int64 and not pool["field"].any()
    address = pool["field"].data_ptr()
    pool["field"].fill_(3)
    pool.clear()
    assert pool["field"].data_ptr() == address and not pool["field"].any()
    assert pool.to("cpu") is pool and pool.to("meta")["field"].is_meta
    with pytest.raises(ValueError, match=r"^to: 'field' must hold data, got a meta tensor$"):
        pool.to("meta").to("cpu")
    with torch.inference_mode():
        made = TensorPool({"field": (2, 3)}, "cpu")
    made.clear()
    for shapes, error in (
        ({1: (2,)}, TypeError),
        ({"a": (-1,)}, ValueError),
        ({"a": ((1,), torch.complex64)}, TypeError),
    ):
        with pytest.raises(error):
            TensorPool(shapes, "cpu")


@pytest.mark.parametrize(
    ("shapes", "dtype", "error", "text"),
    [
        ([("a", (2,))], torch.float32, TypeError, "shapes must be a mapping, got list"),
        ({"a": 5}, torch.float32, TypeError, "shape of 'a' must be a sequence of ints, got int"),
        ({"a": (5, torch.int64)}, torch.float32, TypeError, "shape of 'a' must be a sequence of ints, got int"),
        ({"a": (2.0,)}, torch.float32, TypeError, "shape of 'a' must be an int, got float"),
        ({"a": (True,)}, torch.float32, TypeError, "shape of 'a' must be an int, got bool"),
        ({"a": (2**70,)}, torch.float32, ValueError, r"shape of 'a' must be below 2\^63"),
        ({"a": (2,)}, "float32", TypeError, "dtype of 'a' must be floating, bool, int32 or int64, got 'float32'"),
        ({"a": (2,)}, numpy.zeros(2), TypeError, "dtype of 'a' must be floating"),
        ({"a": b"ab"}, torch.float32, TypeError, "shape of 'a' must be a sequence of ints, got bytes"),
        ({"a": {2, 3}}, torch.float32, TypeError, "shape of 'a' must be a sequence of ints, got set"),
    ],
    ids=range(10),
)
def test_a_pool_names_what_is_wrong(shapes, dtype, error, text):
    with pytest.raises(error, match=f"^TensorPool: {text}"):
        TensorPool(shapes, "cpu", dtype)


def test_a_library_that_cannot_be_is_refused():
    for sizes in ((2**58, 2), (2**57, 1, 4)):
        with pytest.raises(ValueError, match=r"^PatternLibrary: the patterns must have fewer than 2\^59 elements"):
            PatternLibrary(*sizes)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("scale", (1.0, 1e20, 1e36, 1e-25, 1e-36))
def test_the_size_of_a_context_does_not_count(scale, dtype):
    library = PatternLibrary(2, 3, device="cpu", dtype=dtype)
    context = scale * torch.tensor([0.1, 0.2, 0.3])
    library.store(context, context)
    library.store(torch.tensor([-3.0, 1.0, 0.0]), -torch.ones(3))
    for state in (None, context):
        assert 0.99 < library.find_best_pattern(context, state)[1] <= 1
