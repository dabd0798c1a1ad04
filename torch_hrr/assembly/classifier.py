"""A classifier of assemblies, with the conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from torch_hrr._checks import check_data, named, plain, strided
from torch_hrr._estimators import Parameters, not_fitted
from torch_hrr._inputs import as_array, check_target, labels, labels_of, like, share_right
from torch_hrr._progress import Progress, ticking
from torch_hrr._repr import Described
from torch_hrr._spec import Device, Int, Real, Seed, Spec
from torch_hrr.assembly._inputs import inputs_of_rows
from torch_hrr.assembly._network import inhibited
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.functional import k_winners
from torch_hrr.io import Saveable

# Of a matrix of all synapses: the most, and for each row that is multiplied by it.
_ELEMENTS, _ELEMENTS_OF_ROW = 1 << 23, 1 << 13

_SETTINGS: dict[str, Spec] = {
    "n_in": Int(1).or_none(), "n": Int(1), "k": Int(1), "p": Real(0, 1), "beta": Real(0), "classes": Int(1).or_none(),
    "seed": Seed(),
}  # fmt: skip


class AssemblyClassifier(Parameters, Described, Saveable):
    """Labels of sets of firing neurons, by an assembly for each class.

    Each class is presented once, its examples one after the other, one round each, into an area that also fires into
    itself; then the columns of all synapses are normalised. The assembly of a class is the k neurons that win most
    often when its examples fire again. `predict` lets an example fire for one round, without learning, and takes the
    class whose assembly the winners overlap most, the first one of several. Deterministic as `Brain`.

    An example is a row of 0 and 1, bool or floating point, or of the int64 indices of the inputs that fire. For other
    numbers put ``sklearn.preprocessing.Binarizer`` before it, for integers as floats, since it keeps their dtype.
    Arrays give arrays, tensors tensors. It is an estimator to scikit-learn, which need not be installed. Threads may
    share one that is fitted.

    Attributes:
        classes_: The labels, ascending, a NumPy array ``[C]``, numbers as int64 or float64; not set before `fit`.
        n_features_in_: The number of inputs; not set before `fit`.
        feature_names_in_: The names of the columns, an array of str, if `fit` saw a data frame with such names; else
            not set. Later frames must have the same ones, in the same order.
        brain: The `Brain` of `fit`, with areas "input" and "A".
        assemblies: The assembly of each class, int64 ``[C, k]``, ascending.

    Source: Dabagia, Vempala, Papadimitriou, Assemblies of neurons learn to classify well-separated distributions, COLT
    2022.
    """

    file_format = "torch_hrr.assembly.AssemblyClassifier"
    _reads_values = True
    _estimator_type: ClassVar[Literal["classifier"]] = "classifier"
    classes_: Any
    n_features_in_: int
    feature_names_in_: Any
    brain: Brain
    assemblies: Tensor

    def __init__(
        self,
        n_in: int | None = None,
        n: int = 1000,
        k: int = 100,
        p: float = 0.1,
        beta: float = 0.1,
        classes: int | None = None,
        seed: int = 0,
        *,
        device: torch.device | str | int | None = "cpu",
    ) -> None:
        """Keeps its arguments, which `fit` checks.

        Args:
            n_in: Number of inputs; None means that of the rows of `fit`, unless they are indices.
            n: Neurons of the area.
            k: Winners, at most n.
            p: Density of the connectome.
            beta: Plasticity.
            classes: Number of classes, if it must be this one.
            seed: Seed of the brain, any int, modulo 2^64.
            device: As for `Brain`.
        """
        self.n_in, self.n, self.k, self.p, self.beta, self.classes, self.seed = n_in, n, k, p, beta, classes, seed
        self.device = device

    def _summary(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTINGS} | {"fitted": self._is_fitted()}

    def _is_fitted(self) -> bool:
        return "brain" in self.__dict__

    def _checked(self) -> dict[str, Any]:
        """The settings, of Python's types."""
        op = type(self).__name__
        return {name: spec(op, name, getattr(self, name)) for name, spec in _SETTINGS.items()}

    def _drawn(self, n_in: int, given: dict[str, Any]) -> Brain:
        op = type(self).__name__
        device = Device()(op, "device", self.device)
        with named("Brain", op), named("add_area", op):
            brain = Brain(given["p"], given["seed"], device=device)
            brain.add_area("input", n_in, n_in)
            brain.add_area("A", given["n"], given["k"], given["beta"])
        return brain

    def fit(self, X: Any, y: Any, progress: Progress = None) -> Self:
        """Draws the brain and learns an assembly for each class.

        Args:
            X: Examples ``[N, n_in]`` of 0 and 1, or int64 indices ``[N, m]``, different in a row.
            y: Their labels ``[N]``: integers, strings, bools, or floats that are whole numbers; of a tensor integers
                or bools.
            progress: Called with how many rounds are done and their number, 2 N; True shows a bar.

        Returns:
            The classifier itself; after an error it is as it was.

        Raises:
            TypeError: An argument, setting or label of another type.
            ValueError: Another shape, values other than 0 and 1, a row in which nothing fires, settings out of range,
                or labels of another number than ``classes``.
            IndexError: An index outside 0 to n_in - 1.

        Cost: Two rounds an example; n_in p n synapses are drawn at most.
        """
        op = "fit"
        check_target(op, y)
        tick = ticking(op, progress)
        given = self._checked()
        names = self._columns_of(op, "X", X, True)
        rows, width = _firing(op, X, given["n_in"])
        found, label = labels(op, "y", y, len(rows))
        if not len(rows):
            raise ValueError(f"{op}: X must have at least one example, got none")
        if given["classes"] not in (None, len(found)):
            raise ValueError(f"{op}: y must have {given['classes']} classes, got {len(found)}")
        brain, done, total = self._drawn(width, given), 0, 2 * len(rows)
        for kind in range(len(found)):
            brain.clear("A")
            for place, number in enumerate((label == kind).nonzero().flatten().tolist()):
                brain.activate("input", rows[number])
                brain.project(areas={"input": "A"} | ({"A": "A"} if place else {}))
                done += 1
                tick(done, total)
            brain.normalize("A")
        brain.disable_plasticity()
        n, k = brain.areas["A"].n, brain.areas["A"].k
        wins = torch.zeros(len(found), n, dtype=torch.int32, device="cpu")
        for winners in _winners(brain, rows):
            places = label[done - len(rows) : done - len(rows) + len(winners)].unsqueeze(1).expand_as(winners)
            wins.index_put_((places, winners.cpu()), wins.new_ones(()), accumulate=True)
            done += len(winners)
            tick(done, total)
        # Ties go to the lower index.
        best = torch.sort(wins, dim=-1, descending=True, stable=True).indices[:, :k]
        assemblies = best.sort(-1).values.to(brain.device)
        # All at once: Ctrl-C finds either fit whole.
        self.__dict__.update(brain=brain, assemblies=assemblies, classes_=found, n_features_in_=width)
        # Indices that fire are no inputs of a name.
        self._keep_columns(names if names is not None and len(names) == width else None)
        return self

    def decision_function(self, X: Any) -> Any:
        """The share of each class's assembly that wins, ``[N, C]`` float64; of two ``[N]``, second minus first.

        Errors as for `fit`; RuntimeError before it. Cost: a round an example. For n_in n / 8192 examples or more, if
        n_in n is at most 2^23, a product with the matrix of all weights instead, with the same bits: a tenth of the
        time of 1000 digits at n = 2000. Rounds are run where the brain has hooks or monitors, which see them, or a user
        has locked, fixed or made plastic what takes part.
        """
        shares = self._shares("decision_function", X)
        return like(X, shares[:, 1] - shares[:, 0] if shares.shape[1] == 2 else shares)

    def predict(self, X: Any) -> Any:
        """The labels ``[N]`` of examples; errors and cost as for `decision_function`.

        An array of the dtype of `classes_`; for a tensor an int64 or bool one, if labels are integers or bools.
        """
        chosen = self._shares("predict", X).argmax(-1)
        return labels_of(X, self.classes_, chosen)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labels that `predict` gets right; each counts as its weight ``[N]``, or for None all the same.

        Errors as for `predict` and `fit`; ValueError for weights of another shape, below 0 or all 0.
        """
        chosen = self._shares("score", X).argmax(-1)
        return share_right(labels("score", "y", y, len(chosen)), self.classes_, chosen, sample_weight)

    def _shares(self, op: str, given: Any) -> Tensor:
        if not self._is_fitted():
            raise not_fitted(f"{op}: the classifier must be fitted: call fit first")
        self._columns_of(op, "X", given)
        rows, _ = _firing(op, given, self.n_features_in_)
        shares = [torch.zeros(0, len(self.classes_), dtype=torch.float64, device="cpu")]
        for winners in _winners(self.brain, rows):
            fired = torch.zeros(len(winners), self.brain.areas["A"].n, dtype=torch.bool, device=winners.device)
            shares.append(fired.scatter_(1, winners, True)[:, self.assemblies].double().mean(-1).cpu())
        return torch.cat(shares)

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        metadata: dict[str, Any] = {name: plain(getattr(self, name)) for name in _SETTINGS} | {"seed": str(self.seed)}
        if not self._is_fitted():
            return {}, metadata
        tensors, config = self.brain._content()
        whole = self.classes_.dtype.kind in "iu"
        found = self.classes_.astype("int64") if whole else self.classes_
        metadata |= {"brain": config, "labels": found.tolist(), "inputs": self.n_features_in_}
        metadata |= self._facts_of_columns()
        return {**tensors, "assemblies": self.assemblies.cpu()}, metadata

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        given = dict(metadata)
        names = given.pop("feature_names", ())
        config, held, inputs = (given.pop(name, None) for name in ("brain", "labels", "inputs"))
        made = cls(**{**given, "seed": int(given["seed"])}, device="cpu" if device is None else device)
        if config is None:
            if tensors or held or inputs or names != ():
                raise ValueError("tensors without a brain")
            return made
        # The settings may be others than those of the fit: they are for the next one.
        made._checked()
        rest = {name: value for name, value in tensors.items() if name != "assemblies"}
        brain = Brain._from_content(rest, config, device)
        inputs = Int(1)("load", "inputs", inputs)
        found, _ = labels("load", "labels", held, len(held))
        area, assemblies = brain.areas["A"], tensors["assemblies"]
        right = assemblies.dtype == torch.int64 and assemblies.shape == (len(held), area.k) and len(found) == len(held)
        right = right and int(assemblies.min()) >= 0 and int(assemblies.max()) < area.n
        if not right or brain.batch is not None or brain.areas["input"].n != inputs:
            raise ValueError("entries that no classifier has")
        made.brain, made.assemblies = brain, assemblies.to(brain.device)
        made.classes_, made.n_features_in_ = found, inputs
        made._restore_columns(names)
        return made


def _winners(brain: Brain, rows: list[Tensor]) -> Iterator[Tensor]:
    """The winners of each row in the round that it would fire in, int64 ``[some rows, k]`` in turn."""
    network, received = brain._network, None
    n_in, area = network.areas["input"].n, network.areas["A"]
    # Threads may share a brain, and so an estimator.
    with brain._lock:
        # Monitors see rounds, and what a user locked, fixed or lets learn changes them. A matrix is made for as many
        # rows as it is worth.
        plain = not (brain._hooks or brain.plastic or area.fixed or inhibited(network.locks.get(("input", "A"), {})))
        plain = plain and not any(inhibited(each.locks) for each in network.areas.values())
        if plain and n_in * area.n <= min(_ELEMENTS, _ELEMENTS_OF_ROW * len(rows)):
            firing = torch.zeros(len(rows), n_in, dtype=torch.bool, device="cpu")
            for bits, row in zip(firing, rows, strict=True):
                bits[row] = True
            received = inputs_of_rows(network, "input", "A", firing)
    if received is not None:
        yield from (k_winners(inputs, area.k)[1] for inputs in received)
        return
    for row in rows:
        with brain._lock:
            brain.activate("input", row)
            brain.project("input", "A")
            winners = brain.winners("A")
        yield winners.unsqueeze(0)


def _firing(op: str, given: Any, n_in: int | None) -> tuple[list[Tensor], int]:
    """The inputs that fire in each row, and of how many."""
    rows = strided(op, "X", as_array(op, "X", given)).detach()
    check_data(op, "X", rows)
    if rows.dim() != 2 or not rows.shape[1]:
        raise ValueError(f"{op}: X must have shape [N, n_in] or [N, m], got {list(rows.shape)}")
    rows = rows.cpu()
    if rows.dtype == torch.int64:
        if n_in is None:
            raise ValueError(f"{op}: n_in must be given where X holds indices (0 and 1 are bool or floating point)")
        if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < n_in:
            raise IndexError(f"{op}: X must hold indices in 0..{n_in - 1}, got {int(rows.min())} to {int(rows.max())}")
        rows = rows.sort(-1).values
        if bool((rows[:, 1:] == rows[:, :-1]).any()):
            raise ValueError(
                f"{op}: X must hold different indices in a row, got repeated ones (0 and 1 are bool or floating point)"
            )
        return list(rows), n_in
    if rows.dtype != torch.bool and not rows.is_floating_point():
        raise TypeError(f"{op}: X must be bool, floating point or int64 indices, got {rows.dtype}")
    if n_in is not None and rows.shape[1] != n_in:
        raise ValueError(f"{op}: X must have {n_in} columns, got {rows.shape[1]}")
    firing = rows != 0
    if not bool((rows == firing).all()):
        raise ValueError(f"{op}: X must be of 0 and 1, got others: sklearn.preprocessing.Binarizer makes them so")
    silent = (~firing.any(-1)).nonzero().flatten()
    if len(silent):
        raise ValueError(f"{op}: X must have a 1 in every row, got none in row {int(silent[0])}")
    return [row.nonzero().flatten() for row in firing], rows.shape[1]
