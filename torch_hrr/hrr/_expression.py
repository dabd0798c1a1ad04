"""The grammar of `Vocabulary`: text to programs for a stack of vectors, by operator precedence and without recursion.

    statements:  [ statement ( ";" statement )* ]          statement:  name ( "=" sum | method* )
    sum:     product ( ( "+" | "-" ) product )*            product:  unary ( "*" unary )*
    unary:   ( "-" | "~" ) unary | power                   power:    atom method* [ "**" unary ]
    atom:    name | number | "(" sum ")"                   method:   "." ( "unitary" | "normalized" ) "(" ")"

Every error is found before a program runs: whether a part is a number or a vector follows from the text alone. A sum
that is a number stands for that multiple of the identity.
"""

import keyword
import math
import re
from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple, NoReturn, TypeAlias

Program: TypeAlias = list[tuple[str, str | float]]
"""Postfix steps: ("name", name) and ("identity", number) push; ("scale" or "power", number), ("~", "") and the methods
change the top; "* + -" join two."""
Drawn: TypeAlias = frozenset[str]
"""The methods of a vector that is to be drawn."""

METHODS = ("unitary", "normalized")
CONSTANTS = ("Identity", "Zero", "AbsorbingElement")
"""Names that expressions know where nothing is declared under them."""

_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SYMBOLS = frozenset({"+", "-", "*", "**", "~", "(", ")", "=", ";", "."})
# A minus sign before an operand is spelled "neg" once it is read. A higher level binds tighter.
_LEVELS = {"+": 1, "-": 1, "*": 2, "neg": 3, "~": 3, "**": 4}
_FOLDS: dict[str, Callable[[float, float], float]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "**": lambda left, right: left**right,
}
_MAX_LENGTH = 1_000_000
# Operators and parentheses that wait for an operand, each of which may keep one vector alive.
_MAX_NESTING = 200
_SHOWN = 40


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_expression(
    op: str, text: str, known: Container[str], limit: float, strict: bool
) -> tuple[Program, dict[str, Drawn]]:
    """The program of one expression, whose factors are at most `limit`, and the names that are to be drawn before it.

    Those are the names that are not `known`, unless `strict`, which refuses them.
    """
    reader = _Reader(op, text)
    drawn: dict[str, Drawn] = {}
    program = _Expression(reader, _knowing(known, drawn, strict), limit).read()
    if reader.token.kind != "end":
        reader.fail("hold one expression")
    return program, drawn


def parse_statements(
    op: str, text: str, known: Container[str], limit: float, strict: bool
) -> dict[str, Program | Drawn]:
    """Names in the order of their declaration, each with its program or with what a vector is to be drawn as.

    Unless `strict`, a name that is used before is declared as one to be drawn.
    """
    reader = _Reader(op, text)
    statements: dict[str, Any] = {}
    knows = _knowing(known, statements, strict)
    while statements or reader.token.kind != "end":
        name = reader.token
        if name.kind != "name":
            reader.fail("declare a name")
        if name.text in known or name.text in statements:
            reader.fail("declare names that are new")
        reader.advance()
        made: Any = frozenset(reader.read_methods())
        if reader.token.kind == "=" and not made:
            reader.advance()
            made = _Expression(reader, knows, limit).read()
        if name.text in statements:
            # Its own expression has used it.
            reader.fail("declare names that are new", name)
        statements[name.text] = made
        if reader.token.kind == "end":
            break
        if reader.token.kind != ";":
            reader.fail("separate statements by ';'")
        reader.advance()
    return statements


def _knowing(known: Container[str], new: dict[str, Any], strict: bool) -> Callable[[str], bool]:
    """Whether a name may stand in an expression; unless `strict`, what is not yet known is new, and to be drawn."""

    def knows(name: str) -> bool:
        if not (name in known or name in new or name in CONSTANTS or strict):
            new[name] = frozenset()
        return name in known or name in new or name in CONSTANTS

    return knows


class _Reader:
    """One token at a time, and errors that say where."""

    def __init__(self, op: str, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"{op}: text must be a str, got {type(text).__name__}")
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"{op}: text must have at most {_MAX_LENGTH} characters, got {len(text)}")
        self._op, self._text = op, text
        self._tokens = self._split()
        self.advance()

    def advance(self) -> None:
        self.token = next(self._tokens)

    def read_methods(self) -> Iterator[str]:
        while self.token.kind == ".":
            self.advance()
            method = self.token
            if method.text not in METHODS:
                self.fail("call unitary() or normalized()")
            self.advance()
            for parenthesis in "()":
                if self.token.kind != parenthesis:
                    self.fail(f"call {method.text} as {method.text}()")
                self.advance()
            yield method.text

    def fail(self, requirement: str, token: _Token | None = None) -> NoReturn:
        token = token or self.token
        got = "the end" if token.kind == "end" else repr(token.text[:_SHOWN])
        raise ValueError(f"{self._op}: text must {requirement}, got {got} at position {token.position}")

    def _split(self) -> Iterator[_Token]:
        text, position = self._text, 0
        while position < len(text):
            character = text[position]
            end = position + 1
            if character.isspace():
                position = end
                continue
            if match := _NUMBER.match(text, position):
                kind, end = "number", match.end()
            elif character.isidentifier():
                kind = "name"
                while end < len(text) and ("_" + text[end]).isidentifier():
                    end += 1
            else:
                end += text.startswith("**", position)
                kind = text[position:end]
            token = _Token(kind, text[position:end], position)
            if kind == "name" and keyword.iskeyword(token.text):
                self.fail("use names that are no keywords", token)
            if kind not in ("number", "name") and kind not in _SYMBOLS:
                self.fail("use names, numbers, parentheses and * ~ + - ** . alone", token)
            yield token
            position = end
        yield _Token("end", "", len(text))


class _Expression:
    """One expression: operators wait on a stack until what follows binds less tightly.

    An operand is its value if it is a number, and None if it is a vector, which then is on the stack of the program.
    """

    def __init__(self, reader: _Reader, is_known: Callable[[str], bool], limit: float) -> None:
        self._reader, self._is_known, self._limit = reader, is_known, limit
        self._program: Program = []
        self._operands: list[float | None] = []
        self._waiting: list[_Token] = []

    def read(self) -> Program:
        start = self._reader.token
        while True:
            self._read_operand()
            self._call_methods()
            while self._reader.token.kind == ")" and self._close():
                self._reader.advance()
                self._call_methods()
            token = self._reader.token
            if token.kind not in ("+", "-", "*", "**"):
                break
            # Equal levels associate to the left, but powers to the right.
            self._apply_down_to(_LEVELS[token.kind] + (token.kind == "**"))
            self._wait(token)
        if self._reader.token.kind in ("name", "number", "~", "("):
            self._reader.fail("have an operator between its parts")
        if self._close():
            self._reader.fail("close its parentheses")
        (number,) = self._operands
        return self._program if number is None else [("identity", self._within_limit(number, start))]

    def _read_operand(self) -> None:
        reader = self._reader
        while reader.token.kind in ("-", "~", "("):
            self._wait(reader.token._replace(kind="neg") if reader.token.kind == "-" else reader.token)
        token = reader.token
        if token.kind == "number":
            self._operands.append(self._finite(float(token.text), token))
        elif token.kind != "name":
            reader.fail("have a name, a number or '('")
        elif not self._is_known(token.text):
            reader.fail("use names that are declared")
        else:
            self._operands.append(None)
            self._program.append(("name", token.text))
        reader.advance()

    def _call_methods(self) -> None:
        token = self._reader.token
        for method in self._reader.read_methods():
            if self._operands[-1] is not None:
                self._reader.fail("call methods of vectors and not of numbers", token)
            self._program.append((method, ""))

    def _wait(self, token: _Token) -> None:
        if len(self._waiting) == _MAX_NESTING:
            self._reader.fail(f"nest at most {_MAX_NESTING} deep")
        self._waiting.append(token)
        self._reader.advance()

    def _close(self) -> bool:
        """Applies what waits since the last open parenthesis; whether there is one, which is then closed."""
        self._apply_down_to(0)
        return bool(self._waiting and self._waiting.pop())

    def _apply_down_to(self, level: int) -> None:
        while self._waiting and _LEVELS.get(self._waiting[-1].kind, -1) >= level:
            self._apply(self._waiting.pop())

    def _apply(self, operator: _Token) -> None:
        kind, right = operator.kind, self._operands.pop()
        if kind == "neg":
            self._operands.append(None if right is None else -right)
            if right is None:
                self._program.append(("scale", -1.0))
        elif kind == "~":
            if right is not None:
                self._reader.fail("invert vectors and not numbers", operator)
            self._operands.append(None)
            self._program.append(("~", ""))
        else:
            self._operands.append(self._join(operator, self._operands.pop(), right))

    def _join(self, operator: _Token, left: float | None, right: float | None) -> float | None:
        kind = operator.kind
        if left is not None and right is not None:
            return self._fold(operator, left, right)
        number = left if right is None else right
        if kind == "**":
            if right is None:
                self._reader.fail("have a number as exponent", operator)
            self._program.append(("power", right))
        elif number is None:
            self._program.append((kind, ""))
        elif kind == "*":
            self._program.append(("scale", self._within_limit(number, operator)))
        else:
            self._reader.fail("add vectors to vectors and numbers to numbers", operator)
        return None

    def _fold(self, operator: _Token, left: float, right: float) -> float:
        try:
            value = _FOLDS[operator.kind](left, right)
        except (OverflowError, ZeroDivisionError):
            value = math.inf
        return self._finite(value, operator)

    def _within_limit(self, number: float, token: _Token) -> float:
        if abs(number) > self._limit:
            self._reader.fail(f"scale by at most {self._limit:.3g}", token)
        return number

    def _finite(self, value: float, token: _Token) -> float:
        # A fractional power of a negative number is complex.
        if not isinstance(value, float) or not math.isfinite(value):
            self._reader.fail("have real, finite numbers", token)
        return value
