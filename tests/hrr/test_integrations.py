"""What other libraries hold becomes vectors of this one that bind, and are read, as they were.

Each bridge reads what tests/data/peers/recipe.py stored of the real package, by objects that only look like its own,
and, where the package is installed, the objects themselves.
"""

import functools
import importlib
import pathlib
import runpy
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from torch_hrr import hrr, runtime

PEERS = pathlib.Path(__file__).parents[1] / "data" / "peers"
RECIPES = runpy.run_path(str(PEERS / "recipe.py"), run_name="recipe")
bridges = hrr.integrations


def of(kind, **attributes):
    """An object of a class of this name."""
    return type(kind, (types.SimpleNamespace,), {})(**attributes)


class Words(dict):
    """Names, with the attributes of a vocabulary."""


def stand_in_vocabulary(said):
    words = Words.fromkeys("ABCDE")
    algebra = of("HrrAlgebra")
    words.__dict__.update(
        vectors=said["vectors"].numpy(), dimensions=32, strict=True, max_similarity=0.4, algebra=algebra
    )
    return {"vocabulary": words}


class Steps:
    """A sequence: its vector and its length."""

    def __init__(self, value, length):
        self.value, self.length = value, length

    def __len__(self):
        return self.length


def encoder(said, name):
    model = type("FHRRTensor" if name == "fhrr" else "HRRTensor", (), {})
    return types.SimpleNamespace(weight=said[f"{name}_weight"], bandwidth=0.7, vsa_tensor=model)


STAND_INS = {
    "torchhd": lambda said: {
        "items": said["items"],
        "sequence": Steps(said["sequence"], 5),
        "phasors": torch.view_as_complex(said["phasors"]),
        **{name: encoder(said, name) for name in ("even", "odd", "fhrr")},
    },
    "nengo_spa": stand_in_vocabulary,
    "pyhdc": lambda said: {
        "columns": types.SimpleNamespace(data=said["columns"].numpy(), encoding=of("HRR")),
        "phases": types.SimpleNamespace(data=said["phases"], encoding=of("FHRR")),
    },
    "holovec": lambda said: {
        "codebook": dict(zip("xyz", said["items"].numpy(), strict=True)),
        "sequence": said["sequence"].numpy(),
        "phasors": torch.view_as_complex(said["phasors"]).numpy(),
    },
    "memory_etch": lambda said: {"blobs": [each.numpy().tobytes() for each in said["blobs"]]},
}


def imported(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, exc_type=ImportError)


def case(name, kind):
    """Objects of a library, or what looks like them, and what it says of them."""
    stored = load_file(PEERS / f"{name}.safetensors")
    if kind == "stored":
        return STAND_INS[name](stored), stored
    imported(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        objects, said = RECIPES[name]()
    said = RECIPES["as_tensors"](said)
    # The files hold what the recipe makes.
    assert said.keys() == stored.keys()
    for key, value in said.items():
        torch.testing.assert_close(value, stored[key], rtol=1e-5, atol=1e-6)
    return objects, said


def close(found, expected, tolerance=1e-13):
    assert type(found) is torch.Tensor and found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


both = pytest.mark.parametrize("kind", ("stored", "real"))


@both
def test_vectors_of_torchhd(kind):
    objects, said = case("torchhd", kind)
    items = bridges.torchhd.vectors(objects["items"])
    close(items, said["items"], 0)
    close(hrr.bind(items[0], items[1]), said["bound"])
    close(hrr.involution(items[0]), said["inverse"], 0)
    close(hrr.inverse(items[0]), said["exact_inverse"], 1e-12)
    phasors = bridges.torchhd.vectors(objects["phasors"])
    close(hrr.bind(phasors[0], phasors[1]), bridges.torchhd.vectors(torch.view_as_complex(said["phasors_bound"])))
    bundled = torch.view_as_complex(said["phasors_bundled"])
    close(hrr.to_phases(phasors[0] + phasors[1]), bundled.angle(), 1e-12)
    close(hrr.to_phases(bridges.torchhd.vectors(bundled)), bundled.angle(), 1e-12)


@both
def test_sequences_of_torchhd(kind):
    objects, said = case("torchhd", kind)
    items, sequence = said["items"], objects["sequence"]
    for index in range(5):
        # The item, and all others moved by as many places as they are away.
        expected = sum(torch.roll(item, index - place, -1) for place, item in enumerate(items))
        close(bridges.torchhd.at(sequence, index), expected)
        close(bridges.torchhd.at(sequence.value, index, 5), expected)
    for index in (-1, 5):
        with pytest.raises(IndexError, match=rf"^at: index must be in \[0, 5\), got {index}$"):
            bridges.torchhd.at(sequence, index)
    with pytest.raises(TypeError, match=r"^at: length must be an int, got NoneType$"):
        bridges.torchhd.at(said["sequence"], 0)


@both
@pytest.mark.parametrize("name", ("even", "odd", "fhrr"))
def test_fractional_powers_of_torchhd(kind, name):
    objects, said = case("torchhd", kind)
    axes, factor = bridges.torchhd.fractional_power(objects[name])
    assert float(said[f"{name}_weight"].abs().max()) > 4 or name == "odd"
    code = said[f"{name}_code"]
    expected = bridges.torchhd.vectors(torch.view_as_complex(code)) if name == "fhrr" else code
    close(hrr.fractional_power_encoding(axes, factor * said["values"]), expected, 1e-12)


def test_weights_of_no_real_vector_are_refused():
    _, said = case("torchhd", "stored")
    said["even_weight"][3, 1] += 0.1
    with pytest.raises(ValueError, match=r"^fractional_power: weight must be odd in the frequency"):
        bridges.torchhd.fractional_power(encoder(said, "even"))


class HRRTensor(torch.Tensor):
    """What looks like torchhd's class."""

    def bind(self, other):
        return torch.fft.ifft(torch.fft.fft(self) * torch.fft.fft(other)).real

    def multibind(self):
        return torch.fft.ifft(torch.fft.fft(self).real.prod(-2)).real

    def exact_inverse(self):
        return torch.fft.ifft(torch.fft.fft(self).reciprocal()).real.nan_to_num()


def rows(seed, *shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def methods(kind):
    return [vars(kind)[name] for name in ("bind", "multibind", "exact_inverse")]


def test_torchhd_is_enabled_and_disabled(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchhd", of("module", HRRTensor=HRRTensor))
    own, torchhd = methods(HRRTensor), bridges.torchhd
    a, b = rows(1, 2, 3, 64).as_subclass(HRRTensor)
    with torchhd.enable():
        assert all(one is not two for one, two in zip(own, methods(HRRTensor), strict=True))
        with torchhd.enable():
            pass
        for found, expected in (
            (a.bind(b), hrr.bind(a, b)),
            (a.multibind(), hrr.multibind(a)),
            (a.exact_inverse(), hrr.inverse(a)),
        ):
            assert type(found) is HRRTensor and torch.equal(found.as_subclass(torch.Tensor), expected)
        assert a.half().bind(b.half()).dtype == torch.float16
        # What the operators do not take goes its own way.
        assert a.int().bind(b.int()).dtype == torch.float32 and a.bind(b[..., :1]).shape == a.shape
        learned = a.detach().clone().requires_grad_()
        learned.bind(b).sum().backward()
        assert learned.grad.norm() > 0
    assert methods(HRRTensor) == own
    with pytest.raises(ZeroDivisionError), torchhd.enable():
        raise ZeroDivisionError
    assert methods(HRRTensor) == own
    torchhd.enable()
    assert methods(HRRTensor) != own
    torchhd.disable()
    torchhd.disable()
    assert methods(HRRTensor) == own


def test_torchhd_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchhd", None)
    with pytest.raises(ImportError, match=r'^enable: torchhd must be installed \("pip install torch-hd"\), got '):
        bridges.torchhd.enable()


def test_operators_of_torchhd_and_its_gradients():
    """1,008 comparisons with torchhd's own values and derivatives, or, of multibind, with its fold."""
    peer, count = imported("torchhd"), 0
    shapes = ((), ()), ((3,), (3,)), ((3,), ()), ((), (4,)), ((2, 1), (1, 3)), ((5, 4), (4,))

    def called(function, *given):
        given = [each.detach().clone().as_subclass(peer.HRRTensor).requires_grad_() for each in given]
        result = function(*given)
        weights = rows(9, *result.shape, dtype=result.dtype)
        (result.as_subclass(torch.Tensor) * weights).sum().backward()
        return [result, *(each.grad for each in given)]

    def compared(function, own, *given, scale=1.0):
        with bridges.torchhd.enable():
            found = called(function, *given)
        for one, two in zip(found, called(own, *given), strict=True):
            assert type(one) is type(two) and one.dtype == two.dtype and one.shape == two.shape
            error, size = float((one - two).detach().norm()), float(two.detach().norm())
            assert error <= size * scale * (2e-6 if one.dtype == torch.float32 else 1e-13)
        return len(found)

    for dim in (1, 2, 3, 16, 31, 64, 100, 127, 128, 255, 256, 500, 512, 1000, 1023, 1024, 2048, 4099):
        for dtype in (torch.float32, torch.float64):
            for first, second in shapes:
                a, b = rows(dim, *first, dim, dtype=dtype), rows(dim + 1, *second, dim, dtype=dtype)
                count += compared(peer.bind, peer.bind, a, b)
            for terms in (1, 2, 3):
                items = rows(dim, 2, terms, dim, dtype=dtype)
                fold = lambda given: functools.reduce(peer.bind, given.unbind(1))  # noqa: E731
                count += compared(peer.multibind, fold, items, scale=4.0)
            unit = hrr.random(3, dim, torch.Generator().manual_seed(dim), True, dtype=dtype)
            count += compared(lambda v: v.exact_inverse(), lambda v: v.exact_inverse(), unit, scale=8.0)
            count += compared(peer.inverse, peer.inverse, unit)
    assert count == 1008


@both
def test_a_vocabulary_of_nengo_spa(kind):
    objects, said = case("nengo_spa", kind)
    words = bridges.nengo_spa.vocabulary(objects["vocabulary"], device="cpu", dtype=torch.float64)
    assert words.names == tuple("ABCDE") and torch.equal(words.vectors, said["vectors"])
    parsed = words.parse("D * ~B + 0.5 * E").as_subclass(torch.Tensor)
    close(parsed, said["parsed"])
    close(words.parse("A ** 3").as_subclass(torch.Tensor), said["power"])
    close(words.parse("~A").as_subclass(torch.Tensor), said["minus"])
    assert "max_similarity=0.4" in repr(words) and "strict" not in repr(words)
    with runtime.GPUContext("cpu"):
        assert bridges.nengo_spa.vocabulary(objects["vocabulary"]).dtype == torch.get_default_dtype()


def test_other_algebras_and_settings_of_nengo_spa():
    (words,) = STAND_INS["nengo_spa"](load_file(PEERS / "nengo_spa.safetensors")).values()
    words.strict, words.max_similarity = False, 2.0
    made = bridges.nengo_spa.vocabulary(words, seed=3, device="cpu")
    assert made["NEW"].shape == (32,) and "max_similarity" not in repr(made) and "seed=3" in repr(made)
    words.algebra = of("VtbAlgebra")
    with pytest.raises(ValueError, match=r"^vocabulary: vocabulary must be of the HRR algebra, got VtbAlgebra$"):
        bridges.nengo_spa.vocabulary(words)


@both
def test_columns_of_pyhdc(kind):
    objects, said = case("pyhdc", kind)
    rows = bridges.pyhdc.vectors(objects["columns"])
    assert torch.equal(rows, said["columns"].mT) and rows.shape == (5, 32)
    close(hrr.bind(rows[0], rows[1]), said["bound"].to(rows.dtype), 1e-6)
    close(hrr.unbind(rows[0], rows[1]), said["unbound"].to(rows.dtype), 1e-6)
    phasors = bridges.pyhdc.vectors(objects["phases"])
    close(hrr.bind(phasors[0], phasors[1]), hrr.from_phases(said["phases_bound"]).to(phasors.dtype), 1e-6)
    assert bridges.pyhdc.vectors(of("Hypervector", data=torch.ones(8), encoding=of("HRR_NoNorm"))).shape == (8,)
    with pytest.raises(TypeError, match=r"^vectors: hypervectors must be those of HRR or FHRR, got MAP_C$"):
        bridges.pyhdc.vectors(of("Hypervector", data=torch.ones(8, 2), encoding=of("MAP_C")))


@both
def test_codebooks_and_sequences_of_holovec(kind):
    objects, said = case("holovec", kind)
    memory, items = bridges.holovec.item_memory(objects["codebook"]), said["items"]
    assert memory.names == ("x", "y", "z") and torch.equal(memory.vectors, items)
    close(hrr.bind(items[0], items[1]), said["bound"].to(items.dtype), 1e-6)
    unbound = hrr.unbind(items[0], items[1])
    # Theirs is divided by its norm.
    close(unbound / unbound.norm(), said["unbound"].to(items.dtype), 1e-6)
    for index in range(3):
        expected = sum(torch.roll(item, place - index, -1) for place, item in enumerate(items))
        close(bridges.holovec.at(objects["sequence"], index), expected, 1e-6)
    phasors = bridges.holovec.vectors(objects["phasors"])
    close(hrr.bind(phasors[0], phasors[1]), bridges.holovec.vectors(torch.view_as_complex(said["phasors_bound"])), 1e-6)
    with pytest.raises(IndexError, match=r"^at: index must be in"):
        bridges.holovec.at(objects["sequence"], -1)
    with pytest.raises(TypeError, match=r"^vectors: hypervectors must be those of HRR or FHRR, got 1 and -1 alone"):
        bridges.holovec.vectors(np.ones((2, 3), np.float32) - [[0, 0, 2]])
    with pytest.raises(
        ValueError, match=r"^item_memory: codebook must hold vectors of one length, got \[\[3\], \[4\]\]$"
    ):
        bridges.holovec.item_memory({"a": torch.rand(4), "b": torch.rand(3)})
    with pytest.raises(ValueError, match=r"^ItemMemory: names must be different, got '1' twice$"):
        bridges.holovec.item_memory({1: torch.rand(4), "1": torch.rand(4)})
    with pytest.raises(ValueError, match=r"^item_memory: codebook must hold at least one vector, got none$"):
        bridges.holovec.item_memory({})
    with pytest.raises(TypeError, match=r"^vectors: hypervectors must be float32, float64, float16 or bfloat16"):
        bridges.holovec.vectors(np.ones((2, 8), dtype=np.int8))


@both
def test_blobs_of_agents_memories(kind):
    objects, said = case("memory_etch", kind)
    found, angles = bridges.phases.vectors(objects["blobs"]), said["blobs"]
    close(found, hrr.from_phases(angles), 0)
    close(bridges.phases.vectors(objects["blobs"][1]), found[1], 0)
    close(bridges.phases.atom("ada", 24), hrr.from_phases(said["atom"]), 0)
    role = bridges.phases.atom("__hrr_role_entity__", 24)
    close(hrr.unbind(found[0], role), hrr.from_phases(said["answer"]), 1e-15)
    cosine = torch.cosine_similarity(found[0], found[1], 0)
    close(cosine[None], (24 * said["similarity"] + 1) / 25)
    close(hrr.unitary(found[0] + found[1]), hrr.from_phases(said["bundled"]))


def test_wrong_blobs_are_named():
    good = np.ones(3).tobytes()
    for blobs, error, text in (
        (3, TypeError, "blobs must be bytes, or a sequence of them, got int"),
        ([good, "x"], TypeError, "blobs must be bytes, or a sequence of them, got str"),
        ([good, good + good], ValueError, r"blobs must be of one length, 8 D bytes with D >= 1, got \[24, 48\]"),
        ([], ValueError, r"blobs must be of one length, 8 D bytes with D >= 1, got \[\]"),
        (good[:-1], ValueError, r"blobs must be of one length, 8 D bytes with D >= 1, got \[23\]"),
        (np.full(2, np.nan).tobytes(), ValueError, "blobs must hold finite angles, got NaN or infinity"),
    ):
        with pytest.raises(error, match=rf"^vectors: {text}$"):
            bridges.phases.vectors(blobs)
    with pytest.raises(TypeError, match=r"^atom: name must be a str, got int$"):
        bridges.phases.atom(3)
    with pytest.raises(ValueError, match=r"^atom: dim must be at least 1, got 0$"):
        bridges.phases.atom("a", 0)
    with torch.device("meta"):
        assert bridges.phases.atom("a", 4).is_cpu and bridges.phases.vectors(bytes(16)).is_cpu


def test_no_bridge_is_imported_before_it_is_used():
    code = "import sys, torch_hrr; print([name for name in sys.modules if 'integrations' in name or name in {}])"
    code = code.format(sorted(RECIPES["PACKAGES"]))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]" and importlib.import_module("torch_hrr.hrr.integrations") is bridges


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("torchhd.fractional_power", "encoder must have the attribute weight"),
        ("nengo_spa.vocabulary", "vocabulary must have the attribute algebra"),
        ("pyhdc.vectors", "hypervectors must have the attribute encoding"),
        ("holovec.item_memory", "codebook must have the attribute items"),
    ],
)
def test_objects_of_no_library_are_refused(call, named):
    module, _, name = call.partition(".")
    with pytest.raises(TypeError, match=rf"^{name}: {named}, got list$"):
        getattr(getattr(bridges, module), name)([1.0])
