"""Classifiers of vectors, or of what an encoder makes of rows of numbers, with the conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_finite, plain
from torch_hrr._estimators import Parameters, not_fitted
from torch_hrr._inputs import (
    as_array,
    check_target,
    labels,
    labels_of,
    like,
    numeric_dtype,
    real_tensor,
    refuse_shape,
    share_right,
)
from torch_hrr._progress import Progress, Tick, ticking
from torch_hrr._random import seeded_generator
from torch_hrr._repr import Described
from torch_hrr._ridge import solved
from torch_hrr._spec import Choice, Int, Real, Seed, Spec
from torch_hrr.hrr.embeddings import Encoder
from torch_hrr.hrr.functional import unit_rows
from torch_hrr.hrr.modules import widen
from torch_hrr.io import Saveable
from torch_hrr.io.saveable import saveable_classes

# Rows encoded at a time.
_CHUNK = 1024


class _Classifier(Parameters, Described, Saveable):
    """Tensors that are learned of codes and labels, and give a number for each code and class."""

    _reads_values = True
    _estimator_type: ClassVar[Literal["classifier"]] = "classifier"
    _specs: ClassVar[dict[str, Spec]]
    encoder: Any
    classes_: Any
    n_features_in_: int
    feature_names_in_: Any
    # By name; those of `fit`.
    _learned: dict[str, Tensor] | None = None
    # That of `fit`, whose codes alone the tensors know.
    _encoder: Any = None

    def _summary(self) -> dict[str, Any]:
        own = {} if self.encoder is None else {"encoder": self.encoder}
        return own | {name: getattr(self, name) for name in self._specs} | {"fitted": self._is_fitted()}

    def _is_fitted(self) -> bool:
        return self._learned is not None

    def _fitted(self, op: str) -> dict[str, Tensor]:
        """What was learned; an error before `fit`."""
        if self._learned is None:
            raise not_fitted(f"{op}: the classifier must be fitted: call fit first")
        return self._learned

    def _checked(self) -> dict[str, Any]:
        """The settings, of Python's types."""
        op = type(self).__name__
        if not (self.encoder is None or callable(self.encoder)):
            raise TypeError(f"{op}: encoder must be a module or a function, or None, got {type(self.encoder).__name__}")
        return {name: spec(op, name, getattr(self, name)) for name, spec in self._specs.items()}

    def fit(self, X: Any, y: Any, progress: Progress = None) -> Self:
        """Encodes the rows and learns their labels.

        Args:
            X: Rows ``[N, F]`` that the encoder takes; without one vectors ``[N, D]``. Finite.
            y: Their labels ``[N]``: integers, strings, bools, or floats that are whole numbers; of a tensor integers
                or bools.
            progress: Called with how many rows are done and their number, those of every pass; True shows a bar.

        Returns:
            The classifier itself; after an error it is as it was.

        Raises:
            TypeError: An argument, setting or label of another type.
            ValueError: Another shape, no row, a setting out of range, or a number that is not finite, of the rows, of
                their codes or of what is learned.
        """
        check_target("fit", y)
        tick, given = ticking("fit", progress), self._checked()
        names = self._columns_of("fit", "X", X, True)
        rows = self._rows("fit", X, None)
        found, label = labels("fit", "y", y, len(rows))
        if not len(rows):
            raise ValueError("fit: X must have at least one row, got none: a minimum of 1 is required")
        parts = list(self._codes("fit", X, rows, self.encoder))
        codes = torch.cat(parts) if len(parts) > 1 else parts[0]
        with torch.no_grad(), full_precision(codes.device):
            learned = self._learn(codes, label.to(codes.device), len(found), tick, **given)
        for name, tensor in learned.items():
            check_finite("fit", name, tensor)
        self.__dict__.update(_learned=learned, _encoder=self.encoder, classes_=found, n_features_in_=rows.shape[1])
        self._keep_columns(names)
        return self

    def decision_function(self, X: Any) -> Any:
        """What speaks for each class, ``[N, C]``; of two classes ``[N]``, what speaks for the second.

        Errors as for `fit`; RuntimeError before it.
        """
        scores = self._scores("decision_function", X)
        return like(X, scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict(self, X: Any) -> Any:
        """The labels ``[N]`` for which most speaks, of several the first; errors as for `decision_function`.

        An array of the dtype of `classes_`; for a tensor an int64 or bool one, if labels are integers or bools.
        """
        chosen = self._scores("predict", X).argmax(-1).cpu()
        return labels_of(X, self.classes_, chosen)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labels that `predict` gets right; each counts as its weight ``[N]``, or for None all the same.

        Errors as for `predict` and `fit`; ValueError for weights of another shape, below 0 or all 0.
        """
        chosen = self._scores("score", X).argmax(-1).cpu()
        return share_right(labels("score", "y", y, len(chosen)), self.classes_, chosen, sample_weight)

    def _scores(self, op: str, X: Any) -> Tensor:
        learned = self._fitted(op)
        self._columns_of(op, "X", X)
        rows = self._rows(op, X, self.n_features_in_)
        parts = [next(iter(learned.values())).new_zeros(0, len(self.classes_))]
        for codes in self._codes(op, X, rows, self._encoder):
            with torch.no_grad(), full_precision(codes.device):
                parts.append(self._judged(codes, **learned))
        return torch.cat(parts)

    def _rows(self, op: str, X: Any, width: int | None) -> Tensor:
        given = real_tensor(op, "X", as_array(op, "X", X))
        if given.dim() != 2 or not given.shape[1] or width not in (None, given.shape[1]):
            refuse_shape(self, op, "X", given, "[N, {0}]", width)
        check_finite(op, "X", given)
        return given

    def _codes(self, op: str, X: Any, rows: Tensor, encoder: Any) -> Iterator[Tensor]:
        """Codes of some rows at a time, at least in float32."""
        if encoder is None:
            dtype = numeric_dtype(X, rows) or (rows.dtype if rows.is_floating_point() else torch.get_default_dtype())
            yield widen(rows.to(dtype))
            return
        place = _place(encoder)
        if place is not None:
            # An array goes into the dtype of the encoder, as where it is called.
            is_array = rows.is_floating_point() and not isinstance(X, Tensor)
            rows = rows.to(place.device, place.dtype if is_array else None)
        with torch.no_grad():
            for part in rows.split(_CHUNK):
                codes = encoder(part)
                fits = isinstance(codes, Tensor) and codes.dim() == 2 and len(codes) == len(part)
                if not (fits and codes.is_floating_point()):
                    got = f"{codes.dtype} {list(codes.shape)}" if isinstance(codes, Tensor) else type(codes).__name__
                    raise ValueError(f"{op}: encoder must give vectors [{len(part)}, D], got {got}")
                check_finite(op, "codes of the encoder", codes)
                yield widen(codes)

    def _learn(self, codes: Tensor, label: Tensor, count: int, tick: Tick, **given: Any) -> dict[str, Tensor]:
        """What is learned of codes ``[N, D]`` of so many classes, with the settings."""
        raise NotImplementedError

    def _judged(self, codes: Tensor, **learned: Tensor) -> Tensor:
        """What speaks for each class, ``[n, C]``."""
        raise NotImplementedError

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        metadata: dict[str, Any] = {name: plain(getattr(self, name)) for name in self._specs}
        if "seed" in metadata:
            metadata["seed"] = str(metadata["seed"])
        tensors: dict[str, Tensor] = {}
        metadata["encoder"] = None
        if self.encoder is not None:
            if not isinstance(self.encoder, Encoder):
                kind = type(self.encoder).__name__
                raise TypeError(f"save: encoder must be one of torch_hrr.hrr, or None, got {kind}")
            held, settings = self.encoder._content()
            tensors |= {f"encoder.{name}": tensor for name, tensor in held.items()}
            metadata["encoder"] = {"format": self.encoder.file_format, "settings": settings}
        if self._learned is not None:
            if self.encoder is not self._encoder:
                raise ValueError("save: encoder must be that of fit, got another one: call fit again")
            whole = self.classes_.dtype.kind in "iu"
            found = self.classes_.astype("int64") if whole else self.classes_
            metadata |= {"labels": found.tolist(), "inputs": self.n_features_in_} | self._facts_of_columns()
            tensors |= {f"learned.{name}": tensor for name, tensor in self._learned.items()}
        return tensors, metadata

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        given = dict(metadata)
        names = given.pop("feature_names", ())
        described, held, inputs = (given.pop(name, None) for name in ("encoder", "labels", "inputs"))
        if "seed" in given:
            given["seed"] = int(given["seed"])
        parts: dict[str, dict[str, Tensor]] = {"encoder": {}, "learned": {}}
        for name, tensor in tensors.items():
            part, _, own = name.partition(".")
            parts[part][own] = tensor
        encoder: Any = None
        if described is not None:
            kind = saveable_classes()[described["format"]]
            if not issubclass(kind, Encoder):
                raise ValueError("an encoder that is none")
            encoder = kind._from_content(parts["encoder"], described["settings"], device)
        own_class: Any = cls
        made: Self = own_class(encoder=encoder, **given)
        # The settings may be others than those of the fit: they are for the next one.
        made._checked()
        if parts["learned"]:
            made.n_features_in_, made._encoder = Int(1)("load", "inputs", inputs), encoder
            made.classes_, order = labels("load", "labels", held, len(held))
            made._learned = {name: tensor.to(device or tensor.device) for name, tensor in parts["learned"].items()}
            width = made.n_features_in_ if encoder is None else encoder.dim
            if len(order) != len(made.classes_) or not made._fits(made._learned, len(order), width):
                raise ValueError("tensors that no classifier has")
        made._restore_columns(names)
        return made

    def _fits(self, learned: Mapping[str, Tensor], count: int, dim: int) -> bool:
        """Whether the tensors may have been learned of so many classes and codes of this width."""
        raise NotImplementedError


class CentroidClassifier(_Classifier):
    """A prototype for each class, a weighted sum of the codes of its rows: a row has the label of the nearest one.

    ``update`` says how the prototypes ``c`` are learned; x is a code, y its class, p the class whose prototype is
    nearest, and ``d_k = cos(x, c_k)``:

    * "one-pass": ``c_y += x`` for all rows. Nothing else counts, neither order nor ``epochs``.
    * "adaptive" (AdaptHD): then ``epochs`` passes in which only rows with p other than y count: ``c_y += lr x`` and
      ``c_p -= lr x``.
    * "onlinehd" (OnlineHD): ``1 + epochs`` such passes from prototypes of 0, with ``lr (1 - d_y)`` and
      ``lr (1 - d_p)``. A class of which no row has been seen is never p, and its row always counts, so that the order
      of the classes does not.

    Passes go through the rows in an order drawn from the seed, ``batch_size`` at a time: the cosines of a batch are
    those with the prototypes before it. A pass without an error is the last. Deterministic: arrays give arrays, tensors
    tensors. It is an estimator to scikit-learn, which need not be installed, and passes every check there.

    Attributes:
        classes_: The labels, ascending, a NumPy array ``[C]``, numbers as int64 or float64; not set before `fit`.
        n_features_in_: The columns of the rows; not set before `fit`.
        feature_names_in_: Their names, an array of str, if `fit` saw a data frame with such names; else not set. Later
            frames must have the same ones, in the same order.
        prototypes: ``[C, D]``, not normalised.

    Cost: the codes of all rows are kept; N C D multiplications a pass.

    Source: Rahimi, Kanerva, Rabaey 2016 (one pass); Imani, Morris, Messerly, Shu, Deng, Rosing, AdaptHD, BioCAS 2019;
    Hernandez-Cano, Matsumoto, Ping, Imani, OnlineHD, DATE 2021.
    """

    file_format = "torch_hrr.centroid_classifier"
    _specs: ClassVar[dict[str, Spec]] = {
        "update": Choice(("one-pass", "adaptive", "onlinehd")), "epochs": Int(0), "lr": Real(0, open_left=True),
        "batch_size": Int(1), "seed": Seed(),
    }  # fmt: skip

    def __init__(
        self,
        encoder: Any = None,
        update: str = "one-pass",
        *,
        epochs: int = 20,
        lr: float = 1.0,
        batch_size: int = 8,
        seed: int = 0,
    ) -> None:
        """Keeps its arguments, which `fit` checks.

        Args:
            encoder: What makes codes ``[n, D]`` of rows ``[n, F]``, such as a `LevelEncoder` with ``features=F``: any
                module or function, but a file can hold only one of this package. None means that rows are vectors.
            update: "one-pass", "adaptive" or "onlinehd".
            epochs: The most passes after the first.
            lr: Weight of a correction; of OnlineHD alone, where all are corrections, it does not matter.
            batch_size: Rows between which prototypes do not change.
            seed: Of the order of rows, any int, modulo 2^64.
        """
        self.encoder, self.update, self.epochs, self.lr = encoder, update, epochs, lr
        self.batch_size, self.seed = batch_size, seed

    @property
    def prototypes(self) -> Tensor:
        """Those of `fit`."""
        return self._fitted("prototypes")["prototypes"]

    def _learn(self, codes: Tensor, label: Tensor, count: int, tick: Tick, **given: Any) -> dict[str, Tensor]:
        is_online, size = given["update"] == "onlinehd", given["batch_size"]
        total = len(codes) * (1 if given["update"] == "one-pass" else 1 + given["epochs"])
        own, done = torch.eye(count, dtype=codes.dtype, device=codes.device), 0
        prototypes = codes.new_zeros(count, codes.shape[1])
        # Classes of which no row has been seen.
        empty = torch.ones(count, dtype=torch.bool, device=codes.device) if is_online else None
        if not is_online:
            # A product, whose order of summation is fixed on every device.
            prototypes, done = own[label].mT @ codes, len(codes)
            tick(done, total)
        units, generator = unit_rows(prototypes), seeded_generator(given["seed"])
        # Only OnlineHD asks for cosines; which one is the largest the products say.
        lengths = (unit_rows(codes) * codes).sum(-1, keepdim=True) if is_online else codes[:, :1]
        while done < total:
            wrong, order = 0, torch.randperm(len(codes), generator=generator, device="cpu").to(codes.device)
            for x, kind, length in zip(*(each[order].split(size) for each in (codes, label, lengths)), strict=True):
                done += len(x)
                products = x @ units.mT
                nearest = (products if empty is None else products.masked_fill(empty, -torch.inf)).argmax(-1)
                missed = (nearest != kind if empty is None else (nearest != kind) | empty[kind]).nonzero().squeeze(-1)
                if len(missed):
                    wrong += len(missed)
                    kind, nearest, x = kind[missed], nearest[missed], x[missed]
                    weights = own[nearest] if empty is None else own[nearest] * ~empty
                    weights = own[kind] - weights
                    if is_online:
                        # Of a code of zeros all products are 0.
                        cosines = products[missed] / length[missed].clamp_min(torch.finfo(length.dtype).tiny)
                        weights = weights * (1 - cosines)
                    prototypes.addmm_(weights.mT, x, alpha=given["lr"])
                    units = unit_rows(prototypes)
                    if empty is not None:
                        empty[kind] = False
                        empty = empty if bool(empty.any()) else None
                tick(done, total)
            if not wrong:
                tick(total, total)
                break
        return {"prototypes": prototypes}

    def _judged(self, codes: Tensor, **learned: Tensor) -> Tensor:
        prototypes = learned["prototypes"]
        kind = torch.promote_types(codes.dtype, prototypes.dtype)
        cosines: Tensor = unit_rows(codes.to(prototypes.device, kind)) @ unit_rows(prototypes.to(kind)).mT
        return cosines

    def _fits(self, learned: Mapping[str, Tensor], count: int, dim: int) -> bool:
        each = learned["prototypes"]
        return len(learned) == 1 and each.shape == (count, dim) and each.dtype in (torch.float32, torch.float64)


class RidgeClassifier(_Classifier):
    """A linear read-out of codes: least squares on targets of 1 for the class of a row and -1 for the others.

    ``min sum_n |W x_n + b - t_n|^2 + ridge |W|^2``, with the squares summed over rows; a row has the label of the
    largest answer. Deterministic: arrays give arrays, tensors tensors. It is an estimator to scikit-learn, which need
    not be installed, and passes every check there.

    Attributes:
        classes_: The labels, ascending, a NumPy array ``[C]``, numbers as int64 or float64; not set before `fit`.
        n_features_in_: The columns of the rows; not set before `fit`.
        feature_names_in_: Their names, an array of str, if `fit` saw a data frame with such names; else not set. Later
            frames must have the same ones, in the same order.
        weights: W, float64 ``[C, D]``.
        constant: b, float64 ``[C]``.

    Cost: the codes of all rows are kept; with m the smaller of N and D, N D m + m^3 / 3 multiplications in float64.

    Source: Hoerl, Kennard, Ridge regression, 1970.
    """

    file_format = "torch_hrr.ridge_classifier"
    _specs: ClassVar[dict[str, Spec]] = {"ridge": Real(0)}

    def __init__(self, encoder: Any = None, ridge: float = 1.0) -> None:
        """Keeps its arguments, which `fit` checks.

        Args:
            encoder: As for `CentroidClassifier`.
            ridge: Strength of the regularisation; of 0 the smallest of all solutions is taken.
        """
        self.encoder, self.ridge = encoder, ridge

    @property
    def weights(self) -> Tensor:
        """Those of `fit`."""
        return self._fitted("weights")["weights"]

    @property
    def constant(self) -> Tensor:
        """That of `fit`."""
        return self._fitted("constant")["constant"]

    # w = Z^T (Z Z^T + ridge I)^-1 T = (Z^T Z + ridge I)^-1 Z^T T on centred codes Z, whichever is the smaller system
    def _learn(self, codes: Tensor, label: Tensor, count: int, tick: Tick, **given: Any) -> dict[str, Tensor]:
        codes, targets = codes.double(), 2.0 * F.one_hot(label, count).double() - 1
        mean = codes.mean(0)
        z, wanted = codes - mean, targets - targets.mean(0)
        is_wide = z.shape[0] < z.shape[1]
        gram = z @ z.mT if is_wide else z.mT @ z
        check_finite("fit", "sums of squares of the codes", gram)
        weights = solved(gram, wanted if is_wide else z.mT @ wanted, given["ridge"])
        weights = z.mT @ weights if is_wide else weights
        tick(len(codes), len(codes))
        return {"weights": weights.mT.contiguous(), "constant": targets.mean(0) - mean @ weights}

    def _judged(self, codes: Tensor, **learned: Tensor) -> Tensor:
        weights, constant = learned["weights"], learned["constant"]
        return codes.to(weights) @ weights.mT + constant

    def _fits(self, learned: Mapping[str, Tensor], count: int, dim: int) -> bool:
        weights, constant = learned["weights"], learned["constant"]
        fits = len(learned) == 2 and weights.shape == (count, dim) and constant.shape == (count,)
        return fits and weights.dtype == constant.dtype == torch.float64


def _place(encoder: Any) -> Tensor | None:
    """A tensor that is where the encoder is, in its dtype."""
    held = [*encoder.parameters(), *encoder.buffers()] if isinstance(encoder, nn.Module) else []
    return next((each for each in held if each.is_floating_point()), None)
