"""Series, labels and tokens as callers give them: tensors or NumPy arrays of any real kind, checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from torch_hrr._checks import check_data, shown, signed, strided
from torch_hrr._estimators import complex_error, conversion_warning

# What tokens must.
TOKENS = "be integers, one a token"


def real_tensor(op: str, name: str, given: Any) -> Tensor:
    """A tensor without a gradient, or that of a NumPy array; TypeError unless of real numbers, ValueError on meta."""
    tensor = strided(op, name, given)
    check_data(op, name, tensor)
    if tensor.is_complex() or tensor.dtype is torch.bool:
        error = complex_error if tensor.is_complex() else TypeError
        raise error(f"{op}: {name} must hold real numbers, got {tensor.dtype}")
    return tensor.detach()


def as_array(op: str, name: str, given: Any, wanted: str = "be an array of real numbers") -> Any:
    """What scikit-learn takes for an array, such as lists and data frames, as one; tensors as they are.

    Arrays of objects become float64, or int64 for tokens. ValueError for lists of several lengths.
    """
    if isinstance(given, Tensor):
        return given
    array = _array(op, name, given)
    if array.dtype != object:
        return array
    if wanted == TOKENS and array.size and all(isinstance(each, int) for each in array.flat):
        signed(op, name, max(array.flat, key=abs))
        return array.astype("int64")
    try:
        return array.astype(float)
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(given)
        got = kind.__name__ if array.shape else f"{kind.__module__}.{kind.__qualname__}"
        refusal = TypeError if isinstance(error, TypeError) else ValueError
        raise refusal(f"{op}: {name} must {wanted}, got {got}: {error}") from None


def _array(op: str, name: str, given: Any) -> Any:
    import numpy as np

    try:
        return np.asarray(given)
    except ValueError as error:
        raise ValueError(f"{op}: {name} must be an array or lists of one length, got {error}") from None


def like(given: Any, result: Tensor) -> Any:
    """The result as what was given: a tensor for a tensor, else a NumPy array."""
    return result if isinstance(given, Tensor) else result.cpu().numpy()


def refuse_shape(estimator: object, op: str, name: str, given: Tensor, shapes: str, width: int | None) -> NoReturn:
    """ValueError for an array of another shape; what scikit-learn says of it comes last, as its users know it."""
    got, kind = list(given.shape), type(estimator).__name__
    known = ""
    if given.dim() < 2:
        known = ": Reshape your data"
    elif given.dim() == 2 and not got[1]:
        known = f": 0 feature(s) (shape=({got[0]}, 0)) while a minimum of 1 is required."
    elif given.dim() == 2 and width is not None:
        known = f": X has {got[1]} features, but {kind} is expecting {width} features as input"
    raise ValueError(f"{op}: {name} must have shape {shapes.format('n' if width is None else width)}, got {got}{known}")


def numeric_dtype(given: Any, tensor: Tensor) -> torch.dtype | None:
    """The dtype to compute in: that of arrays, float64 where they hold other numbers; None for tensors."""
    if isinstance(given, Tensor):
        return None
    return torch.float32 if tensor.dtype in (torch.float16, torch.float32) else torch.float64


def check_target(op: str, y: Any) -> None:
    """Raises ValueError for None, in scikit-learn's words too."""
    if y is None:
        raise ValueError(f"{op}: y must be given: it requires y to be passed, but the target y is None")


def integers(op: str, name: str, given: Any, wanted: str = "hold integers") -> Tensor:
    """Integers of any dtype in int64; TypeError for other numbers, ValueError from 2^63 on."""
    tensor = real_tensor(op, name, given)
    if tensor.is_floating_point():
        raise TypeError(f"{op}: {name} must {wanted}, got {tensor.dtype}")
    converted = tensor.to(torch.int64)
    if tensor.dtype == torch.uint64 and bool((converted < 0).any()):
        signed(op, name, int(converted[converted < 0][0]) + 2**64)
    return converted


def labels(op: str, name: str, given: Any, count: int) -> tuple[Any, Tensor]:
    """The different labels, ascending, as a NumPy array, and which of them each is, int64 ``[count]`` on the CPU.

    Labels are integers, strings, bools, or whole numbers in floats; a column ``[count, 1]`` counts with a warning.
    Numbers of any width become int64 or float64, as those of a tensor do and those of a file.
    """
    import numpy as np

    if isinstance(given, Tensor):
        is_bool = given.dtype == torch.bool
        array = integers(op, name, given.byte() if is_bool else given).cpu().numpy()
        array = array.astype(bool) if is_bool else array
    else:
        array = _array(op, name, given)
    if array.dtype == object or (array.dtype.kind in "Uf" and isinstance(given, list | tuple)):
        held = [*given] if isinstance(given, list | tuple) else array.tolist()
        if array.ndim == 1:
            if 0 < sum(isinstance(each, str) for each in held) < len(held):
                raise TypeError(f"{op}: {name} must be labels of one type, got str among others")
            # Of larger ones NumPy makes objects, or floats.
            for each in held:
                if isinstance(each, int) and not isinstance(each, bool):
                    signed(op, name, each)
        array = _array(op, name, held)
    if array.dtype.kind not in "iubfU":
        raise TypeError(f"{op}: {name} must be labels (integers or str), got {type(given).__name__} of {array.dtype}")
    if array.shape == (count, 1):
        # In scikit-learn's words.
        text = f"A column-vector y was passed when a 1d array was expected: {op}: {name} should have shape [{count}]"
        warnings.warn(text, conversion_warning(), stacklevel=4)
        array = array[:, 0]
    if array.shape != (count,):
        raise ValueError(f"{op}: {name} must have shape [{count}], got {list(array.shape)}")
    if array.dtype.kind == "f" and not (np.isfinite(array) & (array == np.floor(array))).all():
        raise ValueError(f"{op}: {name} must be labels, got numbers that are not whole: Unknown label type: continuous")
    if array.dtype.kind == "u" and count:
        signed(op, name, array.max())
    if array.dtype.kind in "iuf":
        array = array.astype("float64" if array.dtype.kind == "f" else "int64")
    classes, index = np.unique(array, return_inverse=True)
    return classes, torch.from_numpy(index)


def labels_of(given: Any, classes: Any, index: Tensor) -> Any:
    """Labels by their index on the CPU: an array of the dtype of `classes`; for a tensor int64 or bool, if such."""
    found = classes[index.numpy()]
    if not isinstance(given, Tensor) or found.dtype.kind not in "biu":
        return found
    return torch.from_numpy(found if found.dtype.kind == "b" else found.astype("int64"))


def share_right(truth: tuple[Any, Tensor], classes: Any, index: Tensor, sample_weight: Any) -> float:
    """The share of true labels, as `labels` gives them to `score`, that those of an index on the CPU equal.

    Each counts as `weights_of_samples` says.
    """
    known, own = truth
    if not len(own):
        raise ValueError("score: y must have at least one label, got none")
    weight = weights_of_samples("score", sample_weight, [len(own)])
    right = torch.from_numpy(known[own.numpy()] == classes[index.numpy()])
    return float(weight @ right.double() / weight.sum())


def weights_of_samples(op: str, sample_weight: Any, shape: Sequence[int]) -> Tensor:
    """How much each sample counts, float64 on the CPU: as given, at least 0 and not all 0, or 1 for None."""
    if sample_weight is None:
        return torch.ones(*shape, dtype=torch.float64, device="cpu")
    given = real_tensor(op, "sample_weight", as_array(op, "sample_weight", sample_weight)).cpu().double()
    if list(given.shape) != [*shape]:
        raise ValueError(f"{op}: sample_weight must have shape {[*shape]}, got {list(given.shape)}")
    if not bool((given >= 0).all() & given.isfinite().all() & (given > 0).any()):
        raise ValueError(f"{op}: sample_weight must be finite numbers >= 0, one of them above 0")
    return given


def token_tensor(op: str, name: str, given: Any) -> Tensor:
    """Tokens ``[T]`` or ``[B, T]``, int64."""
    tokens = integers(op, name, given, TOKENS)
    if tokens.dim() not in (1, 2):
        raise ValueError(f"{op}: {name} must have shape [T] or [B, T], got {list(tokens.shape)}")
    return tokens


def padded(sequences: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Sequences ``[1, T, ...]``, of one step at least, as one batch of the longest T, and lengths if they differ.

    Their last steps are repeated.
    """
    lengths = torch.tensor([one.shape[1] for one in sequences], device=sequences[0].device)
    longest = int(lengths.amax())
    rows = []
    for one in sequences:
        last = one[:, -1:].expand(-1, longest - one.shape[1], *[-1] * (one.dim() - 2))
        rows.append(torch.cat([one, last], 1))
    return torch.cat(rows), None if bool((lengths == longest).all()) else lengths


def check_warmup(op: str, warmup: int, inputs: Tensor) -> None:
    """ValueError for a warmup of sequences ``[B, T, ...]`` that is not below T, or where there is no step at all."""
    steps = inputs.shape[1]
    if not len(inputs) or not steps:
        raise ValueError(f"{op}: x must have at least one step, got shape {list(inputs.shape)}")
    if warmup >= steps:
        raise ValueError(f"{op}: warmup must be below the number of steps, {steps}, got {shown(warmup)}")
