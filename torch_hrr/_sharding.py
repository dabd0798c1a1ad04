"""How the operators divide over a mesh of devices: the strategies of `torch.distributed.tensor`.

They are registered when `torch.distributed.tensor` is imported, which `import torch_hrr` does not do.
"""

from __future__ import annotations

import dataclasses
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from torch_hrr import _library
from torch_hrr._vmap import _BATCHED_TOGETHER, _NO_BATCH_AT_ALL

_MODULE = "torch.distributed.tensor"

_LINEAR: dict[str, tuple[str, ...]] = {
    "bind": ("a", "b"),
    "unbind": ("bound", "role"),
    "spectrum": ("a",),
    "from_spectrum": ("spectrum",),
    "bind_spectrum": ("a", "spectrum"),
    "unbind_spectrum": ("bound", "spectrum"),
    "permute": ("a",),
    "superpose": ("vectors", "weights"),
    "bind_superpose": ("a", "b", "weights"),
    "rotate": ("x",),
    "field_evolve": ("field",),
    "_field_evolve_part": ("field",),
    "field_gradient": ("field",),
    "_bind_backward": ("grad",),
    "_unbind_backward": ("grad",),
    "_bind_normalize_backward": ("grad",),
    "_multibind_backward": ("grad",),
    "_inverse_backward": ("grad",),
    "_unitary_jacobian": ("v",),
    "_bind_power_backward": ("grad",),
    "_sinusoidal_features_backward": ("grad",),
    "_field_gradient_backward": ("derivatives",),
    "_k_cap_backward": ("grad",),
}
"""The operands in each of which an operator is linear, the others held: a sum over ranks passes through it."""
_ADDS_TERMS = ("superpose", "bind_superpose")
"""Operators that add up the first of an operand's dimensions that are no batch."""
_CHANNELS = {"field_evolve": 3}
"""Operators that treat every channel by itself, and where their channels are among the dimensions that are no batch."""

_ROW_RULES = ("hebb", "oja", "bcm")
"""Rules by which a unit learns from its inputs and its output, whatever other units do."""


def _is_linear(name: str, values: dict[str, Any]) -> bool:
    """Whether these arguments leave an operator of `_LINEAR` linear."""
    return not (name in _ADDS_TERMS and values.get("normalize")) and not values.get("noise")


def _scan_choices(name: str, values: dict[str, Any], arguments: Sequence[str]) -> list[tuple[list[Any], list[Any]]]:
    """How `plastic_scan` and its derivatives divide: by layers that learn apart, and of some rules by units.

    Inputs are ``[..., T, n]`` or ``[..., T, B, n]``, outputs as many dimensions, weights ``[..., m, n]``, thresholds
    ``[..., m]``, or empty: what is given and what results is one of the four, by its name.
    """
    from torch.distributed.tensor import Partial, Replicate, Shard

    learned = name == "_plastic_scan_backward"
    results = ["inputs" if learned else "outputs", "weight", "theta"]
    layers = len(values["weight"].shape) - 2

    def choice(places: dict[str, Any], of_inputs: Any) -> tuple[list[Any], list[Any]]:
        given = [
            places[argument.rpartition("_")[2]] if hasattr(values[argument], "placements") else None
            for argument in arguments
        ]
        return [of_inputs if result == "inputs" else places[result] for result in results], given

    kinds = ("inputs", "outputs", "weight", "theta")
    choices = [choice(dict.fromkeys(kinds, Shard(layer)), Shard(layer)) for layer in range(layers)]
    if values["rule"] in _ROW_RULES:
        thresholds = Shard(layers) if values["rule"] == "bcm" else Replicate()
        places = (Replicate(), Shard(len(values["inputs"].shape) - 1), Shard(layers), thresholds)
        # Every unit has a part in the gradient of what all see.
        of_inputs = Partial() if values.get("for_inputs") else Replicate()
        choices.append(choice(dict(zip(kinds, places, strict=True)), of_inputs))
    return choices


def _rule(operator: Any, trailing: tuple[int, ...]) -> Callable[..., Sequence[tuple[list[Any], list[Any]]]]:
    """A strategy for an operator whose tensor arguments end in `trailing[i]` dimensions that are no batch.

    Every leading dimension may be divided, and channels; the others are whole on every rank, but for terms of a sum.
    """
    from torch.distributed.tensor import Partial, Replicate, Shard

    schema = operator._schema
    name = schema.name.removeprefix("torch_hrr::")
    results = len(schema.returns)
    tensors = [i for i, argument in enumerate(schema.arguments) if "Tensor" in str(argument.type)]

    def rule(*arguments: Any, **keywords: Any) -> Sequence[tuple[list[Any], list[Any]]]:
        values = {argument.name: argument.default_value for argument in schema.arguments}
        values |= dict(zip(values, arguments, strict=False)) | keywords
        given = {
            i: (arguments[i].shape, own)
            for i, own in zip(tensors, trailing, strict=True)
            if i < len(arguments) and hasattr(arguments[i], "placements")
        }

        def placed(choose: Callable[[int], Any]) -> list[Any]:
            return [choose(i) if i in given else None for i in range(len(arguments))]

        def divided(place: int) -> list[Any]:
            """Operands divided along a dimension, counted from the first that is no batch, but for those it repeats."""
            dimensions = {
                i: dimension
                for i, (shape, own) in given.items()
                if own >= (place >= 0) and 0 <= (dimension := len(shape) - own + place) < len(shape)
            }
            size = max(given[i][0][dimension] for i, dimension in dimensions.items())

            def choose(i: int) -> Any:
                whole = i not in dimensions or given[i][0][dimensions[i]] != size
                return Replicate() if whole else Shard(dimensions[i])

            return placed(choose)

        choices: list[tuple[list[Any], list[Any]]] = [([Replicate()] * results, placed(lambda i: Replicate()))]
        if "plastic_scan" in name:
            known = [argument.name for argument in schema.arguments[: len(arguments)]]
            return choices + _scan_choices(name, values, known)
        if any(own in (_BATCHED_TOGETHER, _NO_BATCH_AT_ALL) for _, own in given.values()):
            return choices
        batch = max((len(shape) - own for shape, own in given.values() if own >= 0), default=0)
        apart = [*range(batch), *([batch + _CHANNELS[name]] if name in _CHANNELS else [])]
        choices += [([Shard(dimension)] * results, divided(dimension - batch)) for dimension in apart]
        if name in _LINEAR and _is_linear(name, values):
            names = {schema.arguments[i].name: i for i in given}
            for linear in (names[operand] for operand in _LINEAR[name] if operand in names):
                alone = [
                    Partial() if i == linear else Replicate() if i in given else None for i in range(len(arguments))
                ]
                choices.append(([Partial()] * results, alone))
            if name in _ADDS_TERMS:
                choices.append(([Partial()] * results, divided(0)))
        return choices

    return rule


def is_divided(table: Any) -> bool:
    """Whether a tensor is a DTensor whose rows are divided among ranks; without an import of DTensor."""
    places = getattr(table, "placements", ())
    return any(place.is_shard(0) for place in places) and not any(place.is_shard(1) for place in places)


def beside(made: Tensor, other: Tensor) -> Tensor:
    """A tensor that every rank has made alike, as one that may meet the other: a DTensor where that is one."""
    if not hasattr(other, "placements"):
        return made
    from torch.distributed.tensor import DTensor, Replicate

    mesh = cast(DTensor, other).device_mesh
    return DTensor.from_local(made, mesh, [Replicate()] * mesh.ndim, run_check=False)


def drawn_beside(drawn: Tensor, other: Tensor) -> Tensor:
    """As `beside`, of what every rank has drawn by itself: all get what the first has drawn."""
    if not hasattr(other, "placements"):
        return drawn
    from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

    mesh = cast(DTensor, other).device_mesh
    return distribute_tensor(drawn, mesh, [Replicate()] * mesh.ndim)


def write(tensor: Tensor, values: Tensor) -> None:
    """Writes values into a tensor, both DTensors or neither."""
    if hasattr(tensor, "placements") and hasattr(values, "placements"):
        # torch would copy no dimension that is shorter than the mesh into one that is divided.
        values = cast(Any, values).redistribute(placements=tensor.placements)
    tensor.copy_(values)


def fill(tensor: Tensor, values: Tensor) -> None:
    """Writes values into a tensor; where it is divided, those of the first rank."""
    with torch.no_grad():
        write(tensor, drawn_beside(values, tensor))


def rows_on_every_rank(op: str, ids: Any, table: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers of the different rows of a divided table that ids name, these rows, whole, and ids as places in them.

    Ranks gather their ids and add up the rows, of which each has some; a gradient goes to the ranks that have them.
    """
    from torch.distributed.tensor import DTensor, Partial, Replicate
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if not isinstance(ids, DTensor):
        raise TypeError(f"{op}: ids must be a DTensor, as the divided table is, got {type(ids).__name__}")
    if ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{op}: ids must be int32 or int64, got {str(ids.dtype).removeprefix('torch.')}")
    mesh = table.device_mesh
    numbers = ids.full_tensor().unique()
    count, dim = table.shape
    if len(numbers) and not 0 <= int(numbers[0]) <= int(numbers[-1]) < count:
        raise IndexError(f"{op}: ids must be 0 to {count - 1}, got {int(numbers[0])} to {int(numbers[-1])}")
    sizes, (start, _) = compute_local_shape_and_global_offset(table.shape, mesh, table.placements)
    own = ((numbers >= start) & (numbers < start + sizes[0])).nonzero().squeeze(-1)
    # Not by torch's strategy of an embedding, whose gradient is a whole table on every rank.
    found = torch.nn.functional.embedding(numbers[own] - start, table.to_local())
    rows = found.new_zeros(len(numbers), dim).index_copy(0, own, found)
    added = [Partial() if place.is_shard() else place for place in table.placements]
    whole = DTensor.from_local(rows, mesh, added, run_check=False).redistribute(placements=[Replicate()] * mesh.ndim)
    places = torch.searchsorted(numbers, ids.to_local())
    like = (ids.device_mesh, ids.placements)
    # With its sizes, since ranks may have different parts.
    return numbers, whole, DTensor.from_local(places, *like, run_check=False, shape=ids.shape, stride=ids.stride())


def _register() -> None:
    """Strategies of all operators that vmap may batch and that give results; none where torch has no such interface."""
    try:
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor.experimental import register_sharding

        dispatcher: Any = DTensor._op_dispatcher
        infos = dispatcher.sharding_propagator.op_to_schema_info
    except (ImportError, AttributeError):
        return
    for name, trailing in _library.operators():
        packet, overload = name.split(".")
        operator = getattr(getattr(torch.ops.torch_hrr, packet), overload)
        composed = torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
        if operator._schema.returns and not composed:
            register_sharding(operator)(_rule(operator, trailing))
            # A choice is kept for arguments from a number on, which register_sharding takes to be that of the first
            # int: flags and dtypes matter too.
            kinds = ["Tensor" in str(argument.type) for argument in operator._schema.arguments]
            infos[operator] = dataclasses.replace(infos[operator], static_argnum=(*kinds, False).index(False))


class _Loader(importlib.abc.Loader):
    """Runs a module as its loader does, then registers."""

    def __init__(self, loader: importlib.abc.Loader, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From now on the module is as if this loader had not been there.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        _register()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `torch.distributed.tensor`, until it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec


def register() -> None:
    """Now if `torch.distributed.tensor` is there, else when it is imported."""
    if _MODULE in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Finder())
