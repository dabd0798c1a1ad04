"""What a NumPy user has today: an exact projection that keeps the row of every neuron that ever fired."""

import numpy as np

Indices = np.ndarray
Weights = np.ndarray


class NumpyBrain:
    """One stimulus, one area A of n neurons, and the fibers stimulus -> A and A -> A, in float32.

    The graph is exact and its rows are lazy: a neuron's targets are drawn when it first fires and stay, 12 bytes an
    edge. A round adds the rows of the winners to the inputs with np.add.at and finds the edges to learn in a table of
    the new winners. These forms were the fastest of several: a row at a time stays in the cache (np.bincount over all
    rows at once takes four times as long), gaps by standard_exponential take less than half of Generator.geometric,
    and int64 columns index without a copy. Ties go to the lower index.
    """

    def __init__(self, n: int, k: int, p: float, beta: float, size: int, seed: int) -> None:
        self.n, self.k, self.p = n, k, p
        self._factor = np.float32(1 + beta)
        self._generator = np.random.default_rng(seed)
        self._stimulus = self._generator.binomial(size, p, n).astype(np.float32)
        self._columns: dict[int, Indices] = {}
        self._weights: dict[int, Weights] = {}
        self._ever_won = np.zeros(n, dtype=bool)
        self._is_new_winner = np.zeros(n, dtype=bool)
        self.winners = np.zeros(0, dtype=np.int64)

    @property
    def support(self) -> int:
        """How many neurons ever won."""
        return int(np.count_nonzero(self._ever_won))

    def project(self, rounds: int = 1, stimulus: bool = True, recurrent: bool = True) -> None:
        """`rounds` steps; without winners A -> A adds nothing."""
        for _ in range(rounds):
            self._step(stimulus, recurrent)

    def row(self, neuron: int) -> tuple[Indices, Weights]:
        """Targets, ascending, of a neuron that has fired, and the weights."""
        return self._columns[neuron], self._weights[neuron]

    def _step(self, stimulus: bool, recurrent: bool) -> None:
        sources = self.winners.tolist() if recurrent else []
        self._draw_rows([i for i in sources if i not in self._columns])
        inputs = self._stimulus.copy() if stimulus else np.zeros(self.n, dtype=np.float32)
        if sources:
            self._add_rows(sources, inputs)
        winners = self._largest(inputs)
        self._learn(sources, winners)
        if stimulus:
            self._stimulus[winners] *= self._factor
        self._ever_won[winners] = True
        self.winners = winners

    def _add_rows(self, sources: list[int], inputs: Weights) -> None:
        for i in sources:
            np.add.at(inputs, self._columns[i], self._weights[i])

    def _learn(self, sources: list[int], winners: Indices) -> None:
        self._is_new_winner[winners] = True
        for i in sources:
            edges = np.flatnonzero(self._is_new_winner.take(self._columns[i]))
            self._weights[i][edges] *= self._factor
        self._is_new_winner[winners] = False

    def _largest(self, inputs: Weights) -> Indices:
        """The k largest, ascending."""
        threshold = np.partition(inputs, self.n - self.k)[self.n - self.k]
        above = np.flatnonzero(inputs > threshold)
        tied = np.flatnonzero(inputs == threshold)[: self.k - above.size]
        return np.sort(np.concatenate([above, tied]))

    def _draw_rows(self, neurons: list[int]) -> None:
        """Every cell of the new rows is an edge with probability p: geometric gaps through the rows, end to end."""
        rows_at_once = max(1, round(4e6 / (self.n * self.p + 1)))
        for start in range(0, len(neurons), rows_at_once):
            block = neurons[start : start + rows_at_once]
            edges = self._bernoulli(len(block) * self.n)
            ends = edges.searchsorted(np.arange(1, len(block) + 1) * self.n)
            begin = 0
            for r, (neuron, end) in enumerate(zip(block, ends.tolist(), strict=True)):
                self._columns[neuron] = edges[begin:end] - r * self.n
                self._weights[neuron] = np.ones(end - begin, dtype=np.float32)
                begin = end

    def _bernoulli(self, cells: int) -> Indices:
        """The successes, ascending, of `cells` trials; a geometric gap is the floor of an exponential, plus 1."""
        if self.p == 0 or self.p == 1:
            return np.arange(cells if self.p else 0)
        mean = cells * self.p
        parts, reached = [], -1
        while reached < cells - 1:
            gaps = self._generator.standard_exponential(int(mean + 4 * mean**0.5) + 16)
            gaps *= -1 / np.log1p(-self.p)
            positions = gaps.astype(np.int64)
            positions += 1
            positions[0] += reached
            np.cumsum(positions, out=positions)
            parts.append(positions)
            reached = int(positions[-1])
            mean = (cells - reached) * self.p if reached < cells else 0.0
        successes = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return successes[: successes.searchsorted(cells)]


class PlainNumpyBrain(NumpyBrain):
    """The same simulation as it is written first: rows by `geometric`, added all at once, learning by `isin`."""

    def _draw_rows(self, neurons: list[int]) -> None:
        mean = self.n * self.p
        for neuron in neurons:
            columns = np.zeros(0, dtype=np.int64)
            while self.p and (not columns.size or columns[-1] < self.n):
                gaps = self._generator.geometric(self.p, int(mean + 6 * mean**0.5) + 16)
                first = columns[-1] if columns.size else -1
                columns = np.concatenate([columns, first + np.cumsum(gaps)])
            self._columns[neuron] = columns[columns < self.n]
            self._weights[neuron] = np.ones(self._columns[neuron].size, dtype=np.float32)

    def _add_rows(self, sources: list[int], inputs: Weights) -> None:
        columns = np.concatenate([self._columns[i] for i in sources])
        np.add.at(inputs, columns, np.concatenate([self._weights[i] for i in sources]))

    def _learn(self, sources: list[int], winners: Indices) -> None:
        for i in sources:
            self._weights[i][np.isin(self._columns[i], winners)] *= self._factor
