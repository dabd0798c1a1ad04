"""Expressions against Python's own reading of them, and vectors by name."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from torch_hrr import hrr
from torch_hrr.hrr.vocabulary import Vocabulary

DIM = 16
laws = settings(max_examples=400, derandomize=True, database=None, deadline=None)


def vocabulary(names="A; B; C", **options):
    made = Vocabulary(**{"dim": DIM, "dtype": torch.float64, "device": "cpu", **options})
    made.populate(names)
    return made


UNITARY = vocabulary("A; B", unitary=True)


class Unsupported(Exception):
    """A power that the oracle does not compute."""


class Symbol:
    """A vector in double precision; `bound` is one on every magnitude of its spectrum, for the tolerance."""

    def __init__(self, values, bound=1.0):
        self.values, self.bound = np.asarray(values, dtype=np.float64), bound

    def __mul__(self, other):
        if isinstance(other, float):
            return Symbol(self.values * other, self.bound * abs(other))
        if not isinstance(other, Symbol):
            return NotImplemented
        shifted = np.stack([np.roll(other.values, shift) for shift in range(DIM)])
        return Symbol(self.values @ shifted, self.bound * other.bound)

    def __rmul__(self, other):
        return self * other

    def __add__(self, other):
        return (
            Symbol(self.values + other.values, self.bound + other.bound)
            if isinstance(other, Symbol)
            else NotImplemented
        )

    def __sub__(self, other):
        return self + -other if isinstance(other, Symbol) else NotImplemented

    def __neg__(self):
        return Symbol(-self.values, self.bound)

    def __invert__(self):
        return Symbol(self.values[-np.arange(DIM) % DIM], self.bound)

    def __pow__(self, exponent):
        if not isinstance(exponent, float):
            return NotImplemented
        if exponent not in (1.0, 2.0, 3.0, 4.0):
            raise Unsupported
        product = self
        for _ in range(int(exponent) - 1):
            product = product * self
        return product


def read_by_python(text):
    """The value that Python gives the text; None if it gives none, or one that is no vector."""
    symbols = {name: Symbol(UNITARY[name].numpy()) for name in UNITARY}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = eval(text, {"__builtins__": {}}, symbols)
        except (SyntaxError, TypeError, NameError, ZeroDivisionError, OverflowError):
            return None
    return value if isinstance(value, Symbol) else None


TOKENS = ["A", "B", "~", "-", "+", "*", "**", "(", ")", "2.0", "0.5", "3.0", "C"]


def precedes_an_operand(before):
    return before is None or before in ("~", "-", "+", "*", "**", "(")


@st.composite
def expressions(draw):
    """Mostly well-formed: operands and operators alternate, with parentheses that mostly match."""
    tokens, depth = [], 0
    for _ in range(draw(st.integers(1, 6))):
        tokens += draw(st.lists(st.sampled_from(["-", "~", "("]), max_size=2))
        tokens.append(draw(st.sampled_from(["A", "B", "A", "B", "2.0", "3.0", "0.5"])))
        depth = max(0, tokens.count("(") - tokens.count(")"))
        tokens += [")"] * draw(st.integers(0, depth))
        tokens.append(draw(st.sampled_from(["+", "-", "*", "*", "**"])))
    tokens.pop()
    return tokens + [")"] * max(0, tokens.count("(") - tokens.count(")"))


@laws
@given(st.one_of(expressions(), st.lists(st.sampled_from(TOKENS), max_size=9)))
@example("- A ** 2.0 + ~ B ** 2.0 * A".split())
@example("A ** 2.0 ** - 1.0 ** 3.0".split())
@example("A ** - 1.0 * - 1.0".split())
@example("A - B - A - - B".split())
@example("2.0 ** - 1.0 * A".split())
@example("( 2.0 - 3.0 ) ** 0.5 * A".split())
@example("( 2.0 - 2.0 ) ** - 1.0 * A".split())
@example("3.0 ** 3.0 ** 3.0 ** 3.0 * A".split())
@example("A ( B )".split())
@example([])
def test_expressions_mean_what_they_mean_in_python(tokens):
    # The grammar has no unary plus.
    previous = None
    for token in tokens:
        assume(not (token == "+" and precedes_an_operand(previous)))
        previous = token
    text = " ".join(tokens)
    try:
        expected = read_by_python(text)
    except Unsupported:
        assume(False)
    if expected is None:
        with pytest.raises(ValueError, match=r"^parse: text must .*, got .* at position \d+$"):
            UNITARY.parse(text)
        return
    assume(expected.bound < 1e12)
    # Numbers join no operator beside them, so spaces between tokens make no difference.
    for spelled in (text, "".join(tokens), "\n\t".join(tokens)):
        found = UNITARY.parse(spelled)
        assert found.dtype == torch.float64 and found.shape == (DIM,)
        np.testing.assert_allclose(found.numpy(), expected.values, rtol=0, atol=1e-12 * expected.bound)


def test_operators_are_those_of_the_library():
    words = vocabulary()
    a, b = words["A"], words["B"]
    assert torch.equal(words.parse("A*B"), hrr.bind(a, b))
    assert torch.equal(words.parse("A + B - 0.5*A"), a + b - 0.5 * a)
    assert torch.equal(words.parse("A*.5e1 - -B"), 5 * a + b)
    assert torch.equal(words.parse("~A"), a[-torch.arange(DIM) % DIM])
    torch.testing.assert_close(words.parse("A*~B"), hrr.unbind(a, b))
    for exponent in (0.5, -1.0, 2.0, -0.25):
        assert torch.equal(words.parse(f"A**{exponent}"), hrr.functional.bind_power(a, exponent))
    delta = torch.zeros(DIM, dtype=torch.float64)
    delta[0] = 1
    torch.testing.assert_close(words.parse("A**0"), delta)
    torch.testing.assert_close(words.parse("A * A**-1"), delta)
    torch.testing.assert_close(UNITARY.parse("A * ~A"), delta)


def test_a_parsed_name_is_a_copy():
    words = vocabulary()
    kept = words["A"]
    for taken in (words.parse("A"), words["A"], words.vectors, next(iter(words.values()))):
        taken.zero_()
    assert torch.equal(words["A"], kept) and torch.equal(words.vectors[0], kept)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_rounded_once(dtype):
    words = vocabulary(dim=64, dtype=dtype)
    wide = vocabulary("", dim=64, dtype=torch.float32)
    for name in words:
        wide.add(name, words[name])
    text = "(A*B + 0.3*~C) * A - B*C*A"
    expected = wide.parse(text).to(dtype)
    assert torch.equal(words.parse(text), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(words.parse(text), expected)
        assert torch.equal(vocabulary("A", dim=64, dtype=dtype)["A"], words["A"])
    assert words.cleanup(words["B"])[0].dtype == torch.float32


def test_a_vector_depends_on_seed_and_name_alone():
    words = vocabulary("A; B; C = A*B; D")
    other = vocabulary("E; D; B")
    other.populate("A")
    for name in ("A", "B", "D"):
        assert torch.equal(words[name], other[name])
    assert torch.equal(vocabulary("A", seed=-1)["A"], vocabulary("A", seed=2**64 - 1)["A"])
    assert torch.equal(vocabulary("A", dtype=torch.float32)["A"], words["A"].float())
    drawn = [words["A"], words["B"], vocabulary("A", seed=1)["A"], vocabulary("A", seed=2**32)["A"]]
    assert all(abs(float(x @ y)) < 0.9 for i, x in enumerate(drawn) for y in drawn[:i])
    # Fixed for good: what was stored yesterday must mean the same tomorrow.
    assert vocabulary("A", dim=4)["A"].tolist() == pytest.approx(
        [0.6914371692, 0.1080330583, 0.6701171982, 0.0534427231], abs=1e-9
    )
    assert vocabulary("A", dim=5, seed=-1, unitary=True)["A"].tolist() == pytest.approx(
        [0.1753921005, 0.6385490412, 0.3358807003, -0.5425932897, 0.3927714476], abs=1e-9
    )


def test_global_random_state_is_left_alone():
    state = torch.get_rng_state()
    vocabulary("A; B")
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("unitary", [False, True])
def test_names_share_no_vector_where_32_bits_of_their_hash_agree(unitary):
    """The seeds of these pairs agree in the 32 bits that a CPU generator takes."""
    words = vocabulary("x8702; x96892; x27324; x101837", dim=1024, unitary=unitary)
    unit = torch.nn.functional.normalize(words.vectors, dim=-1)
    assert float((unit @ unit.T).fill_diagonal_(0).abs().max()) < 5 / math.sqrt(1024)


def test_drawn_vectors_are_standard_normal_over_the_root_of_the_dimension():
    values = vocabulary(";".join(f"x{i}" for i in range(200)), dim=512).vectors.flatten().numpy() * math.sqrt(512)
    assert stats.kstest(values, "norm").pvalue > 0.01


@pytest.mark.parametrize("dim", [1, 2, 7, 64])
def test_unitary_vectors_have_a_flat_spectrum(dim):
    words = vocabulary("A; B", dim=dim, unitary=True)
    spectrum = torch.fft.fft(words.vectors)
    torch.testing.assert_close(spectrum.abs(), torch.ones(2, dim, dtype=torch.float64))
    torch.testing.assert_close(spectrum[:, 0].real, torch.ones(2, dtype=torch.float64))


def test_it_is_a_mapping():
    words = vocabulary("B; A; Größe; _x1 = A + B")
    assert list(words) == list(words.keys()) == ["B", "A", "Größe", "_x1"]
    assert words.names == ("B", "A", "Größe", "_x1") and len(words) == 4
    assert "A" in words and "C" not in words and 1 not in words
    assert all(torch.equal(words[name], vector) for name, vector in words.items())
    assert torch.equal(words.vectors, torch.stack(list(words.values())))
    assert words.get("C") is None and words == words and words != vocabulary("B; A") and hash(words) == hash(words)
    assert (words.dim, words.dtype, words.device.type) == (DIM, torch.float64, "cpu")
    with pytest.raises(KeyError, match="Vocabulary: name must be declared, got 'C'"):
        words["C"]
    empty = vocabulary(" \n")
    assert len(empty) == 0 and empty.vectors.shape == (0, DIM)
    assert Vocabulary(8).dtype == torch.get_default_dtype()


def test_assignments_see_what_is_declared_before_them():
    words = vocabulary("A;B; C = A*B ;D=C+A")
    assert torch.equal(words["C"], words.parse("A*B")) and torch.equal(words["D"], words.parse("A*B + A"))


def test_long_and_fairly_deep_expressions_are_none():
    words = vocabulary()
    torch.testing.assert_close(words.parse("+".join(["A"] * 10**4)), 10**4 * words["A"])
    assert torch.equal(words.parse("(" * 200 + "A" + ")" * 200), words["A"])
    torch.testing.assert_close(words.parse("A+(" * 100 + "A" + ")" * 100), 101 * words["A"])
    with pytest.raises(ValueError, match=r"^parse: text must have at most 1000000 characters, got 1000001$"):
        words.parse(" " * 10**6 + "A")
    with pytest.raises(ValueError, match=r"^parse: text must have real, finite numbers, got '9{40}' at position 0$"):
        words.parse("9" * 10**5 + "*A")


def test_cleanup_counts_names_in_their_order():
    words = vocabulary("A; B; C", dim=256)
    noisy = words.vectors + 0.5 * vocabulary("X; Y; Z", dim=256).vectors
    cosines, indices = words.cleanup(noisy[[2, 0]])
    assert cosines.shape == (2, 1) and words.names_of(indices) == [["C"], ["A"]]
    words.populate("D = A*B")
    assert words.names_of(words.cleanup(words.parse("D*~B"), 2)[1])[0] == "A"
    assert words.names_of(words.cleanup(words.parse("A*B"))[1]) == ["D"]
    assert words.names_of(3) == "D"
    with pytest.raises(ValueError, match=r"^cleanup: top_k must be 1 to 4, got 5$"):
        words.cleanup(noisy, 5)
    with pytest.raises(ValueError, match=r"^cleanup: vocabulary must have names, got none$"):
        vocabulary("").cleanup(noisy)
    with pytest.raises(ValueError, match=r"^names_of: vocabulary must have names, got none$"):
        vocabulary("").names_of(0)


def test_a_record_answers_its_questions():
    words = vocabulary("NAME; CAPITAL; MONEY; MEXICO; PESO; CITY", dim=1024, dtype=torch.float32)
    record = words.parse("NAME*MEXICO + CAPITAL*CITY + MONEY*PESO")
    answers = hrr.unbind(record, words.vectors[:3])
    assert words.names_of(words.cleanup(answers)[1]) == [["MEXICO"], ["CITY"], ["PESO"]]


def test_add():
    words = vocabulary("A")
    given_vector = torch.arange(2 * DIM, dtype=torch.float32)[::2].requires_grad_()
    words.add("X", given_vector)
    assert words["X"].dtype == torch.float64 and not words["X"].requires_grad
    assert torch.equal(words.parse("X"), given_vector.detach().double())
    assert words.names_of(words.cleanup(given_vector.detach())[1]) == ["X"]


def test_inference_mode_leaves_no_trace():
    with torch.inference_mode():
        words = vocabulary()
        words.cleanup(words["A"])
    query = words["A"].requires_grad_()
    words.cleanup(query)[0].sum().backward()
    hrr.bind(query, words.parse("A")).sum().backward()
    assert query.grad.isfinite().all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_devices_agree():
    here, there = vocabulary(), vocabulary(device="cuda")
    assert there.device.type == there["A"].device.type == "cuda"
    assert torch.equal(there.vectors.cpu(), here.vectors)
    torch.testing.assert_close(there.parse("A*B - ~C**2").cpu(), here.parse("A*B - ~C**2"))
    query = there.vectors
    there.cleanup(query, 2)
    torch.cuda.set_sync_debug_mode("error")
    try:
        indices = there.cleanup(query, 2)[1]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(indices.cpu(), here.cleanup(here.vectors, 2)[1])
    assert torch.equal(there.to("cpu").vectors, here.vectors)


def test_to_returns_the_vocabulary():
    words = vocabulary()
    assert words.to("cpu") is words and words.names_of(words.cleanup(words["B"])[1]) == ["B"]
    with pytest.raises(ValueError, match=r"^to: device must hold data, got meta$"):
        words.to("meta")
    assert words.device.type == "cpu"


def test_a_copy_shares_nothing():
    vocabulary = Vocabulary(16)
    vocabulary.populate("A; B")
    query = vocabulary["A"]
    vocabulary.cleanup(query)
    copy.copy(vocabulary).populate("C")
    assert list(vocabulary) == ["A", "B"]
    assert vocabulary.cleanup(query, 2)[1].tolist() == [0, 1]


def test_a_name_may_be_any_text(tmp_path):
    words = Vocabulary(DIM, device="cpu")
    words.populate("A")
    for name in ("New York", "1a", "if", ""):
        words.add(name, words["A"] * 2)
    words.save(tmp_path / "words")
    loaded = Vocabulary.load(tmp_path / "words")
    assert loaded.names == words.names == ("A", "New York", "1a", "if", "")
    assert torch.equal(loaded["New York"], words["A"] * 2)
    with pytest.raises(ValueError, match=r"^parse: text must"):
        words.parse("New York + A")


def test_a_transform_leaves_nothing_behind():
    vocabulary = Vocabulary(16, seed=1, device="cpu")
    vocabulary.populate("A; B")
    x = torch.rand(2, 16)
    found = torch.func.functionalize(lambda query: vocabulary.cleanup(query)[0])(x)
    assert torch.equal(vocabulary.cleanup(x)[0], found)
