"""How many instructions a warp of a kernel issues, from its SASS and from the memory requests that were counted.

The counter says how often a warp loads and stores, the SASS which way through the code does that: the least number of
instructions over all flows through the control flow graph that make the counted requests. Loops get their trip counts
and branches on type or layout their side by this alone. It is a linear program: variables are how often a warp passes
each edge, on average, and what a flow cannot explain of the counts costs more than any instruction.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.tools.occupancy import WARP

# Instructions that an unexplained request may cost before it is left unexplained: more than a loop's body has.
PENALTY = 1000.0
# What one unexplained request of 4 bytes a lane weighs as much as, in bytes.
BYTES_OF_REQUEST = 4 * WARP
# What counts as no flow, and how often the program is solved anew with loops that must be entered.
LEAST_FLOW = 1e-6
MOST_ROUNDS = 40

# (memory, action) as the counter names them; a generic access may be either.
KINDS = {
    "LDG": ("global_load",),
    "STG": ("global_store",),
    "ATOMG": ("global_atomic",),
    "ATOM": ("global_atomic",),
    "RED": ("global_atomic",),
    "REDG": ("global_atomic",),
    "LDS": ("shared_load",),
    "STS": ("shared_store",),
    "ATOMS": ("shared_atomic",),
    "LD": ("global_load", "shared_load"),
    "ST": ("global_store", "shared_store"),
    "BAR": ("barriers",),
    "SHFL": ("warp_operations",),
    "VOTE": ("warp_operations",),
    # What is left of __syncwarp where the lanes are together.
    "NOP": ("warp_operations",),
}
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@dataclass(frozen=True)
class Instruction:
    """A line of SASS. `predicate` is what guards it, "" if nothing does."""

    address: int
    predicate: str
    opcode: str
    operands: str

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def width(self) -> int:
        """Bytes a lane."""
        return next((WIDTHS[part] for part in self.opcode.split(".")[1:] if part in WIDTHS), 4)

    @property
    def target(self) -> int | None:
        """Where a branch, a call or a BSSY points."""
        found = re.findall(r"\b0x([0-9a-f]+)", self.operands)
        return int(found[-1], 16) if found else None

    @property
    def conditional(self) -> bool:
        """Whether a branch, call or exit may be passed by."""
        divergent = {"DIV", "CONV"} & set(self.opcode.split(".")[1:])
        return self.predicate != "" or bool(divergent) or re.match(r"!?U?P\d", self.operands) is not None


LINE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")


def parse_sass(text: str) -> dict[tuple[str, str], list[Instruction]]:
    """The instructions by symbol and architecture, from `cuobjdump --dump-sass`."""
    functions: dict[tuple[str, str], list[Instruction]] = {}
    architecture = ""
    current: list[Instruction] | None = None
    for line in text.splitlines():
        if match := re.match(r"\s*arch = (\w+)", line):
            architecture, current = match[1], None
        elif match := re.match(r"\s*Function : (\S+)", line):
            current = functions.setdefault((match[1], architecture), [])
            current.clear()
        elif current is not None and (match := LINE.match(line)):
            current.append(Instruction(int(match[1], 16), match[2] or "", match[3], match[4]))
    return functions


@dataclass
class Block:
    """Instructions that run one after the other, and where they lead: each exit is the blocks that it starts.

    A call starts two, the subroutine and what follows the call; a return and an EXIT start none.
    """

    instructions: list[Instruction]
    exits: list[list[int]] = field(default_factory=list)


LEAVES = {"BRA", "EXIT", "RET", "CALL", "BSYNC", "BRX", "BRXU", "JMX", "JMXU"}


def control_flow(instructions: Sequence[Instruction]) -> list[Block]:
    """The basic blocks of a function in the order of their addresses; the first is where it begins."""
    barriers: dict[str, set[int]] = defaultdict(set)
    starts = {instructions[0].address}
    for this, following in zip(instructions, [*instructions[1:], None], strict=True):
        if this.name in ("BRA", "CALL", "BSSY") and this.target is not None:
            starts.add(this.target)
        if this.name == "BSSY" and this.target is not None:
            barriers[this.operands.partition(",")[0]].add(this.target)
        if this.name in LEAVES and following is not None:
            starts.add(following.address)
    blocks: list[Block] = []
    index = {}
    for one in instructions:
        if one.address in starts:
            index[one.address] = len(blocks)
            blocks.append(Block([]))
        blocks[-1].instructions.append(one)

    called = set()
    indirect = []
    for i, block in enumerate(blocks):
        last = block.instructions[-1]
        after = [[i + 1]] if i + 1 < len(blocks) else [[]]
        goes: list[list[int]]
        if last.name == "BRA" and last.target in index:
            goes = [[index[last.target]]]
        elif last.name in ("EXIT", "RET"):
            goes = [[]]
        elif last.name == "CALL" and last.target in index:
            called.add(index[last.target])
            goes = [[*after[0], index[last.target]]]
        elif last.name == "BSYNC":
            # The lanes go on where their BSSY said; registers of barriers are used again.
            places = {index[place] for place in barriers[last.operands] if place in index}
            goes = after if i + 1 in places or not places else [[place] for place in sorted(places)]
        elif last.name in LEAVES - {"CALL"}:
            indirect.append(i)
            goes = []
        else:
            goes = after
        block.exits = goes + after if last.name in LEAVES and last.conditional and goes != after else goes

    # A "call" of code that never returns is a jump that the compiler wrote so.
    for place in called:
        if not returns(blocks, place):
            for block in blocks:
                if block.instructions[-1].name == "CALL":
                    block.exits = [[place] if place in one else one for one in block.exits]
    # The targets of an indirect branch are in a table that is not listed: what nothing else leads to.
    reached = {place for block in blocks for one in block.exits for place in one}
    for i in indirect:
        blocks[i].exits += [[place] for place in range(1, len(blocks)) if place not in reached]
    return blocks


def returns(blocks: Sequence[Block], place: int) -> bool:
    """Whether a RET can be reached from there, calls passed over."""
    seen = {place}
    waiting = [place]
    while waiting:
        block = blocks[waiting.pop()]
        if block.instructions[-1].name == "RET":
            return True
        for one in block.exits:
            for following in one[:1]:
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
    return False


@dataclass(frozen=True)
class Asked:
    """What a warp asks for on average: requests, and the bytes of all its lanes."""

    requests: float
    bytes: float = 0.0


@dataclass(frozen=True)
class Issued:
    """Instructions that a warp issues, and the share of the counted requests that a way through the code explains."""

    instructions: float
    explained: float


def issued_by_warp(instructions: Sequence[Instruction], asked: Mapping[str, Asked]) -> Issued:
    """The fewest instructions of a warp that make these requests.

    `asked` has the kinds of KINDS; one that it lacks was not counted and is free. A loop that a warp passes is entered
    from outside, at least once where it is passed at least once on average: warps are taken to do alike.
    """
    blocks = control_flow(instructions)
    program = Program()
    # passes[b] = 1 for the first block + what the exits of others bring = what its own exits take.
    passes = [program.variable(float(len(block.instructions))) for block in blocks]
    brings: list[list[tuple[int, float]]] = [[] for _ in blocks]
    edges = []
    for b, block in enumerate(blocks):
        takes = []
        for one in block.exits:
            edge = program.variable(0.0)
            takes.append((edge, 1.0))
            for place in one:
                brings[place].append((edge, 1.0))
                edges.append((b, place, edge))
        program.equal.append(([*takes, (passes[b], -1.0)], 0.0))
    for b in range(len(blocks)):
        program.equal.append(([*brings[b], (passes[b], -1.0)], -1.0 if b == 0 else 0.0))

    # An access that is guarded may ask for nothing; a generic one asks one memory or the other.
    makes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for b, block in enumerate(blocks):
        groups: dict[tuple[tuple[str, ...], int, bool], int] = defaultdict(int)
        for instruction in block.instructions:
            if instruction.name in KINDS:
                optional = instruction.predicate != "" or instruction.name == "NOP"
                groups[KINDS[instruction.name], instruction.width, optional] += 1
        for (kinds, width, optional), count in groups.items():
            parts = [program.variable(0.0) for _ in kinds]
            rows = program.at_most if optional else program.equal
            rows.append(([*((part, 1.0) for part in parts), (passes[b], -float(count))], 0.0))
            for kind, part in zip(kinds, parts, strict=True):
                makes[kind].append((part, width))

    missed = []
    for kind, wanted in asked.items():
        slack = [program.variable(PENALTY) for _ in range(2)]
        missed += slack
        terms = [(part, 1.0) for part, _ in makes[kind]]
        program.equal.append(([*terms, (slack[0], 1.0), (slack[1], -1.0)], wanted.requests))
        if wanted.bytes > 0:
            slack = [program.variable(PENALTY / BYTES_OF_REQUEST) for _ in range(2)]
            terms = [(part, float(width * WARP)) for part, width in makes[kind]]
            program.equal.append(([*terms, (slack[0], 1.0), (slack[1], -1.0)], wanted.bytes))

    for _ in range(MOST_ROUNDS):
        found = program.solve()
        loops = loops_without_entry(blocks, edges, [found[i] for i in passes], found)
        if not loops:
            break
        for loop, busiest in loops:
            entering = [(edge, -1.0) for b, place, edge in edges if place in loop and b not in loop]
            program.at_most.append(([*entering, (passes[busiest], 1.0 / max(1.0, found[passes[busiest]]))], 0.0))
    total = sum(wanted.requests for wanted in asked.values())
    return Issued(
        sum(len(block.instructions) * found[i] for block, i in zip(blocks, passes, strict=True)),
        1.0 - sum(found[i] for i in missed) / total if total else 1.0,
    )


def loops_without_entry(
    blocks: Sequence[Block], edges: Sequence[tuple[int, int, int]], passes: Sequence[float], found: Sequence[float]
) -> list[tuple[set[int], int]]:
    """Loops of a flow that is entered less than it must be, each with its busiest block."""
    import numpy
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    used = [(b, place, found[edge]) for b, place, edge in edges if found[edge] > LEAST_FLOW]
    ends = ([b for b, _, _ in used], [place for _, place, _ in used])
    graph = coo_matrix((numpy.ones(len(used)), ends), shape=(len(blocks), len(blocks)))
    _, component = connected_components(graph, connection="strong")
    inside: dict[int, set[int]] = defaultdict(set)
    entered: dict[int, float] = defaultdict(float)
    entered[component[0]] = 1.0
    for b, place, flow in used:
        if component[b] == component[place]:
            inside[component[b]] |= {b, place}
        else:
            entered[component[place]] += flow
    lacking = []
    for name, loop in inside.items():
        busiest = max(loop, key=passes.__getitem__)
        if entered[name] < min(1.0, passes[busiest]) - 1e-3:
            lacking.append((loop, busiest))
    return lacking


Terms = list[tuple[int, float]]


@dataclass
class Program:
    """A linear program: the least cost of variables of at least 0, under rows of (variable, factor) and their sums."""

    cost: list[float] = field(default_factory=list)
    equal: list[tuple[Terms, float]] = field(default_factory=list)
    at_most: list[tuple[Terms, float]] = field(default_factory=list)

    def variable(self, price: float) -> int:
        self.cost.append(price)
        return len(self.cost) - 1

    def solve(self) -> list[float]:
        try:
            from scipy.optimize import linprog
            from scipy.sparse import coo_matrix
        except ImportError as error:
            raise ImportError("issue slots need scipy: pip install scipy") from error

        def of(rows: list[tuple[Terms, float]]) -> tuple[Any, list[float]]:
            cells = [(i, column, value) for i, (terms, _) in enumerate(rows) for column, value in terms]
            i, columns, values = zip(*cells, strict=True)
            return coo_matrix((values, (i, columns)), shape=(len(rows), len(self.cost))), [right for _, right in rows]

        bounded = dict(zip(("A_ub", "b_ub"), of(self.at_most), strict=True)) if self.at_most else {}
        matrix, right = of(self.equal)
        answer = linprog(self.cost, A_eq=matrix, b_eq=right, method="highs", **bounded)
        if not answer.success:
            raise ValueError(f"no flow through the code: {answer.message}")
        return [float(value) for value in answer.x]
