"""The demo's second job: the next character of Python's own documentation, by a liquid state machine and by tables."""

import argparse
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_hrr.demos.digits import progress_bar
from torch_hrr.demos.figure import Bar, Panel
from torch_hrr.demos.sequences import ALPHABET, ORDERS, WARMUP, as_streams, load_text, split_text, table_bits
from torch_hrr.demos.table import Outcome, Row, Timing, in_turn
from torch_hrr.encoding import LiquidStateMachine, LSMGenerator, SinusoidalConfig

CONNECTIONS = 25
EMBEDDING_DIM = 64
# Characters of the text that a quick demo reads, and steps of the streams that are timed.
QUICK, TIMED = 100_000, 100


@dataclass(frozen=True)
class TextResult:
    """What the job measured on the last fifth of the text.

    Attributes:
        tables: Bits a character of a table of each order.
        machine: Bits a character of the liquid state machine.
        seconds: Time of its training.
        sample: What it writes.
        timing: Of the states of several streams of text.
    """

    tables: dict[int, float]
    machine: float
    seconds: float
    sample: str
    timing: Timing


def train(training: Tensor, units: int, seed: int, desc: str) -> LSMGenerator:
    """A generator of characters, every unit of which hears 25 others."""
    config = SinusoidalConfig(vocab_size=len(ALPHABET), embedding_dim=EMBEDDING_DIM, padding_id=None)
    generator = LSMGenerator(config, units=units, density=min(1.0, CONNECTIONS / units), seed=seed)
    bar, shown = progress_bar(100, desc), 0

    def tick(done: int, total: int) -> None:
        nonlocal shown
        bar.update(100 * done // total - shown)
        shown = 100 * done // total

    generator.fit(training, WARMUP, progress=tick)
    bar.close()
    return generator


# x[t] = x[t-1] + leak (tanh(W x[t-1] + h[t]) - x[t-1])
def states_in_torch(recurrent: Tensor, hears: Tensor, leak: float) -> Tensor:
    """States [B, T, units] of what the units hear from outside [B, T, units]."""
    state, states = torch.zeros_like(hears[:, 0]), []
    for now in hears.unbind(1):
        state = torch.lerp(state, torch.tanh(state @ recurrent.T + now), leak)
        states.append(state)
    return torch.stack(states, 1)


def time_states(machine: LiquidStateMachine, tokens: Tensor) -> Timing:
    """The states of streams of characters, beside a loop of dense products."""
    assert machine.embedder is not None and isinstance(machine.leak, float)
    embedded = machine.embedder(torch.arange(len(ALPHABET)).unsqueeze(0), torch.zeros(1, dtype=torch.int64))[0]
    heard = embedded.detach().to(machine.dtype) @ machine.input_weights.T + machine.bias
    recurrent, leak = machine.weights, machine.leak
    taken = in_turn(lambda _: machine.run(tokens), lambda _: states_in_torch(recurrent, heard[tokens], leak))
    streams, steps = tokens.shape
    return taken.timing(
        f"{steps} steps of {streams} streams, {machine.units} units", "a loop of dense products in torch"
    )


def predict_characters(units: int, seed: int, characters: int | None = None) -> TextResult:
    """Trains on the first four fifths of the text, or of its first ``characters``, and tests on the last."""
    training, test = split_text(load_text()[:characters])
    start = time.perf_counter()
    generator = train(training, units, seed, "reading")
    seconds = time.perf_counter() - start
    written = generator.generate(160, temperature=0.7, seed=seed, prompt=test[:100])
    return TextResult(
        tables={order: table_bits(training, test, order) for order in ORDERS},
        machine=generator.bits(as_streams(test), WARMUP),
        seconds=seconds,
        sample="".join(ALPHABET[number] for number in written),
        timing=time_states(generator.machine, as_streams(test)[:, :TIMED]),
    )


def report(result: TextResult, units: int) -> str:
    """The result as a table."""
    rows = [f"{'method':<44}{'bits a character':>17}"]
    for order, bits in result.tables.items():
        rows.append(f"{f'table of counts, {order} character(s) before':<44}{bits:>17.3f}")
    rows.append(f"{f'liquid state machine, {units} units':<44}{result.machine:>17.3f}")
    rows += [f"trained in {result.seconds:.1f} s; it writes:", f"  {result.sample}"]
    return "\n".join(rows)


def panel(result: TextResult, units: int) -> Panel:
    """The bits, for the picture."""
    bars = [
        Bar(f"table of counts, {order} character(s) before", bits, ours=False) for order, bits in result.tables.items()
    ]
    bars.append(Bar(f"liquid state machine, {units} units", result.machine, ours=True))
    return Panel("Next character of Python's documentation: bits a character (less is better)", 4.0, 2, bars)


def run(options: argparse.Namespace) -> Outcome:
    """Runs the job, prints its results, and gives those for the picture and the table."""
    result = predict_characters(options.units, options.seed, QUICK if options.quick else None)
    print(f"\nnext character of pydoc_data.topics, the last fifth for testing, seed {options.seed}\n")
    print(report(result, options.units))
    order = min(result.tables, key=lambda order: result.tables[order])
    baseline = f"{result.tables[order]:.3f} table of {order}"
    row = Row("encoding", "bits a character", f"{result.machine:.3f}", baseline, result.timing)
    return Outcome(panel(result, options.units), [row])
