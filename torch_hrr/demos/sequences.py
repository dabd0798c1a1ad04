"""Two real sequences, a text and a laser, and what simple models make of them: for demo, benchmarks and examples."""

import importlib
import importlib.util
import re
import string
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

ALPHABET = string.ascii_lowercase + "., "
TRAINING_SHARE = 0.8
ORDERS = (1, 2, 3)
# Added to every count of a table; the best of 1, 0.1 and 0.01 for orders 2 and 3.
SMOOTHING = 0.1
# Of the test part, which runs as so many sequences at once, the first characters of each do not count.
STREAMS, WARMUP = 16, 20
# Steps of the laser for training, and after them for testing.
TRAINING = TESTING = 3000
LAGS = 20


def load_text() -> Tensor:
    """`pydoc_data.topics` as numbers of `ALPHABET`: lower case, everything else one space."""
    from pydoc_data.topics import topics

    known = "".join(letter if letter in ALPHABET else " " for letter in "\n".join(topics.values()).lower())
    numbers = {letter: number for number, letter in enumerate(ALPHABET)}
    return torch.tensor([numbers[letter] for letter in re.sub(" +", " ", known)])


def split_text(text: Tensor) -> tuple[Tensor, Tensor]:
    """The training part and the test part."""
    training = int(TRAINING_SHARE * len(text))
    return text[:training], text[training:]


# p(c | k characters before) = (count(before, c) + s) / (count(before) + s V)
def table_bits(training: Tensor, test: Tensor, order: int) -> float:
    """Bits a character of the test part by counts of the training part, given the ``order`` characters before."""
    size = len(ALPHABET)

    def windows(text: Tensor) -> tuple[Tensor, Tensor]:
        places = size ** torch.arange(order - 1, -1, -1)
        return (text[:-1].unfold(0, order, 1) * places).sum(-1), text[order:]

    before, following = windows(training)
    counts = torch.bincount(before * size + following, minlength=size ** (order + 1)).view(-1, size).double()
    chances = (counts + SMOOTHING) / (counts.sum(-1, keepdim=True) + SMOOTHING * size)
    before, following = windows(test)
    return -float(chances[before, following].log2().mean())


def as_streams(text: Tensor, streams: int = STREAMS) -> Tensor:
    """The text cut into sequences of one length, [streams, length]; what is left over at the end is dropped."""
    return text[: len(text) // streams * streams].view(streams, -1)


def load_laser() -> Tensor:
    """The Santa Fe laser series that reservoirpy brings, float64 [10093], 0 to 255."""
    found = importlib.util.find_spec("reservoirpy")
    if found is None or found.origin is None:
        raise SystemExit("reservoirpy must be installed: pip install reservoirpy")
    # Read directly: importing reservoirpy takes a second, and its own loader leaves the file open.
    series = importlib.import_module("numpy").load(Path(found.origin).parent / "datasets" / "santafe_laser.npy")
    return torch.from_numpy(series).double().flatten()


def nrmse(predicted: Tensor, truth: Tensor) -> float:
    """Root mean square error over the standard deviation of the truth."""
    return float((predicted - truth).square().mean().sqrt() / truth.std(correction=0))


# y[t+1] = c + sum over j < 20 of w_j x[t-j], by least squares
def autoregression(series: Tensor) -> Tensor:
    """Predictions of steps TRAINING + 1 to TRAINING + TESTING from the LAGS values before each."""
    windows = F.pad(series[:-1].unfold(0, LAGS, 1), (0, 1), value=1.0)
    known = TRAINING - LAGS + 1
    weights = torch.linalg.lstsq(windows[:known], series[LAGS:][:known].unsqueeze(-1)).solution
    predicted: Tensor = (windows[known:] @ weights).squeeze(-1)
    return predicted
