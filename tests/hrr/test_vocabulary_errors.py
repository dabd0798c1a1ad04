"""What is no expression is an error at its position, and no error changes a vocabulary."""

import math

import pytest
import torch

from torch_hrr.hrr.vocabulary import Vocabulary

DIM = 16


def vocabulary(names="A; B; C", **options):
    made = Vocabulary(**{"dim": DIM, "dtype": torch.float64, "device": "cpu", **options})
    made.populate(names)
    return made


BAD_EXPRESSIONS = [
    ("", 0, "the end"),
    ("A/B", 1, "'/'"),
    ("A @ B", 2, "'@'"),
    ("A.inverse()", 2, "'inverse'"),
    ("A.unitary", 9, "the end"),
    ("A.unitary * B", 10, "'*'"),
    ("A.unitary(B)", 10, "'B'"),
    ("A.unitary()()", 11, "'('"),
    ("A.", 2, "the end"),
    ("A.5", 1, "'.5'"),
    (".unitary()", 0, "'.'"),
    ("(2).unitary()", 3, "'.'"),
    ("2.unitary()", 2, "'unitary'"),
    ("A[0]", 1, "'['"),
    ("A, B", 1, "','"),
    ("A # B", 2, "'#'"),
    ("'A'", 0, '"\'"'),
    ("A B", 2, "'B'"),
    ("A 2", 2, "'2'"),
    ("2A", 1, "'A'"),
    ("1j*A", 1, "'j'"),
    ("0x10*A", 1, "'x10'"),
    ("1_0*A", 1, "'_0'"),
    ("A +", 3, "the end"),
    ("A ** ", 5, "the end"),
    ("*A", 0, "'*'"),
    ("+A", 0, "'+'"),
    ("A + + B", 4, "'+'"),
    ("A***B", 3, "'*'"),
    ("()", 1, "')'"),
    ("(A", 2, "the end"),
    ("((A) * B", 8, "the end"),
    ("A)", 1, "')'"),
    ("A(B)", 1, "'('"),
    ("A = B", 2, "'='"),
    ("A == B", 2, "'='"),
    ("A; B", 1, "';'"),
    ("D", 0, "'D'"),
    ("A*B + 0.5*~D", 11, "'D'"),
    ("a", 0, "'a'"),
    ("__import__('os')", 0, "'__import__'"),
    ("lambda: A", 0, "'lambda'"),
    ("A if A else B", 2, "'if'"),
    ("None", 0, "'None'"),
    ("A + 1", 2, "'+'"),
    ("1 - A", 2, "'-'"),
    ("A**B", 1, "'**'"),
    ("2**A", 1, "'**'"),
    ("~2*A", 0, "'~'"),
    ("1e999*A", 0, "'1e999'"),
    ("1e200*1e200*A", 5, "'*'"),
    ("9**9**9**9*A", 4, "'**'"),
    ("(-8)**.5*A", 4, "'**'"),
    ("0**-1*A", 1, "'**'"),
    ("\ud800", 0, "'\\ud800'"),
    ("A\0", 1, "'\\x00'"),
]


@pytest.mark.parametrize(("text", "position", "got"), BAD_EXPRESSIONS)
def test_anything_else_is_an_error_at_its_position(text, position, got):
    words = vocabulary()
    with pytest.raises(ValueError) as caught:
        words.parse(text)
    message = str(caught.value)
    assert message.startswith("parse: text must ") and message.endswith(f", got {got} at position {position}")
    if ";" in text:
        return
    with pytest.raises(ValueError) as caught:
        words.populate("E; F = " + text)
    message = str(caught.value)
    assert message.startswith("populate: text must ") and message.endswith(f", got {got} at position {position + 7}")
    assert words.names == ("A", "B", "C")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("D; A", "text must declare names that are new, got 'A' at position 3"),
        ("D; D", "text must declare names that are new, got 'D' at position 3"),
        ("D; A = B", "text must declare names that are new, got 'A' at position 3"),
        ("D = E; E", "text must use names that are declared, got 'E' at position 4"),
        ("D = D", "text must use names that are declared, got 'D' at position 4"),
        ("D;", "text must declare a name, got the end at position 2"),
        (";", "text must declare a name, got ';' at position 0"),
        ("D;;E", "text must declare a name, got ';' at position 2"),
        ("D E", "text must separate statements by ';', got 'E' at position 2"),
        ("D.normalize()", "text must call unitary() or normalized(), got 'normalize' at position 2"),
        ("D.unitary", "text must call unitary as unitary(), got the end at position 9"),
        ("D.unitary() = A", "text must separate statements by ';', got '=' at position 12"),
        ("A.unitary()", "text must declare names that are new, got 'A' at position 0"),
        ("D = A = B", "text must separate statements by ';', got '=' at position 6"),
        ("D; E = A)", "text must separate statements by ';', got ')' at position 8"),
        ("D = ", "text must have a name, a number or '(', got the end at position 4"),
        ("~D", "text must declare a name, got '~' at position 0"),
        ("1", "text must declare a name, got '1' at position 0"),
        ("D; class", "text must use names that are no keywords, got 'class' at position 3"),
        ("D = 1e308*A; E = 1e308*D", "vector of 'E' must be finite in torch.float64, got NaN or infinity"),
    ],
)
def test_populate_is_all_or_nothing(text, message):
    words = vocabulary()
    before = words.vectors
    with pytest.raises(ValueError) as caught:
        words.populate(text)
    assert str(caught.value) == f"populate: {message}"
    assert words.names == ("A", "B", "C") and torch.equal(words.vectors, before)
    words.populate("D; E")
    assert words.names == ("A", "B", "C", "D", "E")


def test_factors_must_fit_the_dtype():
    words = vocabulary(dtype=torch.float16)
    assert words.parse("6e4*A").isfinite().any()
    with pytest.raises(ValueError, match=r"^parse: text must scale by at most 6.55e\+04, got '\*' at position 3$"):
        words.parse("7e4*A")
    with pytest.raises(ValueError, match=r"^parse: text must scale by at most 6.55e\+04, got '7e2' at position 0$"):
        words.parse("7e2 * 1e2")


@pytest.mark.parametrize(
    "text",
    ["(" * 10**5 + "A" + ")" * 10**5, "~" * 10**5 + "A", "-" * 10**5 + "A", "A**" + "1**" * 10**5 + "1", "A+(" * 10**5],
    ids=["parentheses", "involutions", "minus", "powers", "unclosed"],
)
def test_deep_nesting_is_an_error(text):
    with pytest.raises(ValueError, match=r"^parse: text must nest at most 200 deep, got .* at position \d+$"):
        vocabulary().parse(text)


@pytest.mark.parametrize(
    ("name", "vector", "error", "message"),
    [
        (1, torch.ones(DIM), TypeError, "name must be str, got int"),
        ("\ud800", torch.ones(DIM), ValueError, "name must be valid Unicode"),
        ("A", torch.ones(DIM), ValueError, "name must be new, got 'A'"),
        ("X", [1.0] * DIM, TypeError, "vector must be a torch.Tensor or a NumPy array, got list"),
        ("X", torch.ones(DIM, dtype=torch.int64), TypeError, "vector must be float32, .* got torch.int64"),
        ("X", torch.ones(DIM + 1), ValueError, r"vector must have shape \[16\], got \[17\]"),
        ("X", torch.ones(1, DIM), ValueError, r"vector must have shape \[16\], got \[1, 16\]"),
        ("X", torch.full((DIM,), math.nan), ValueError, "vector must be finite in torch.float64, got NaN or infinity"),
        ("X", torch.ones(DIM, device="meta"), ValueError, "vector must hold data, got a meta tensor"),
    ],
)
def test_bad_additions_are_refused(name, vector, error, message):
    words = vocabulary("A")
    with pytest.raises(error, match=f"^add: {message}"):
        words.add(name, vector)
    assert words.names == ("A",)


def test_a_vocabulary_must_be_where_data_is():
    with pytest.raises(ValueError, match=r"^Vocabulary: device must hold data, got meta"):
        Vocabulary(4, device="meta")


@pytest.mark.parametrize("op", ["parse", "populate"])
def test_text_must_be_a_str(op):
    with pytest.raises(TypeError, match=rf"^{op}: text must be a str, got bytes$"):
        getattr(vocabulary(), op)(b"A")
