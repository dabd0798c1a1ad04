"""Modules whose state is what their file holds: any number of vectors, and what is known about them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from torch_hrr._compile import outside_graphs
from torch_hrr._repr import DescribedModule
from torch_hrr._shared import Shared, is_out_of_memory, writable_anywhere
from torch_hrr.io import Saveable
from torch_hrr.runtime import resolve_device

# Where torch has what is no parameter or buffer. Bytes of JSON are a tensor, which files of tensors can hold.
_EXTRA = "_extra_state"
_OF_ANY_MODULE = frozenset(vars(nn.Module())) | {"_lock"}


class HeldVectors(Saveable, DescribedModule):
    """A module whose `state_dict` holds the tensors of its file, and the rest of it as JSON in ``_extra_state``.

    A state is taken over whole, with as many vectors as it has: D must be the module's, whose device and dtype stay
    unless ``assign=True``; after an error the module is unchanged. Conversions such as ``model.to`` and
    ``model.half`` take the vectors along. They are neither parameters nor buffers, because their number and shapes may
    change: ``model.buffers()`` does not give them, and no wrapper synchronises them. What a derived class has of
    parameters, buffers and parts is in its state too.
    """

    _has_modes: ClassVar[bool] = False

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """As of any module, in place, but chooses the device as `runtime.resolve_device` does; returns the object."""
        if args and not isinstance(args[0], torch.dtype | Tensor | None):
            args = (resolve_device(args[0], op="to"), *args[1:])
        elif kwargs.get("device") is not None:
            kwargs["device"] = resolve_device(kwargs["device"], op="to")
        return super().to(*args, **kwargs)

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        """D, device and dtype of the vectors."""
        raise NotImplementedError

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Replaces all tensors by what a conversion makes of them, or none after an error."""
        raise NotImplementedError

    @outside_graphs
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        parts: Callable[..., object] = super()._apply
        grad = torch.is_grad_enabled()
        with self._alone(), torch.inference_mode(False), torch.set_grad_enabled(grad):
            self._convert(fn)
            parts(fn, recurse)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        tensors, metadata = self._state()
        for name, value in tensors.items():
            destination[prefix + name] = value.detach().contiguous()
        said = bytearray(json.dumps(metadata).encode())
        destination[prefix + _EXTRA] = torch.frombuffer(said, dtype=torch.uint8)

    def _state(self) -> tuple[Any, Any]:
        return self._content()

    def _from_state(self, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device) -> Self:
        return self._restored(tensors, metadata, device)

    @writable_anywhere
    @torch.no_grad()
    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # What it does not know are the vectors, of which below.
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, [], error_msgs)
        others = self._parameters.keys() | self._buffers.keys()
        given = {key.removeprefix(prefix): value for key, value in state_dict.items() if key.startswith(prefix)}
        for name in [*given]:
            if name in others or name.partition(".")[0] in self._modules:
                del given[name]
        if _EXTRA not in given:
            missing_keys.append(prefix + _EXTRA)
            return
        own, device, dtype = self._place()
        assign = local_metadata.get("assign_to_params_buffers", False)
        try:
            metadata = json.loads(bytes(given.pop(_EXTRA).tolist()))
            tensors = {name: value.detach().clone() for name, value in given.items()}
            if assign:
                device = next(iter(tensors.values())).device
            made = self._from_state(tensors, metadata, device)
            dim, _, found = made._place()
            if dim != own:
                raise ValueError(f"vectors of {own} dimensions, got {dim}")
            if not assign and found != dtype:
                made._apply(lambda tensor: tensor.to(dtype))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError, StopIteration) as error:
            if is_out_of_memory(error):
                raise
            name = type(self).__name__
            error_msgs.append(f"state of {name} {prefix.removesuffix('.')!r} must describe one, got {error}")
            return
        with self._alone():
            self._take(made)

    def _take(self, made: Self) -> None:
        """Becomes what another object is, which is then given up."""
        for name in vars(self).keys() - vars(made).keys():
            # Such as what was drawn from the seed of before: a class says what there is until then.
            if hasattr(type(self), name) and not hasattr(nn.Module, name):
                delattr(self, name)
        self.__dict__.update({name: value for name, value in vars(made).items() if name not in _OF_ANY_MODULE})

    def _alone(self) -> Any:
        return self.__dict__.get("_lock") or contextlib.nullcontext()


class SharedVectors(Shared, HeldVectors):
    """Vectors that change, under a lock."""

    @outside_graphs
    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A module already: a graph of torch.compile may end before ``__init__`` and the next one begin in it."""
        made = super().__new__(cls)
        nn.Module.__init__(made)
        return made
