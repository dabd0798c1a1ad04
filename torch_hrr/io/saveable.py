"""Objects that are written to one checked file and read back, and how the class of a file is found."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, cast

import torch
from torch import Tensor, nn

from torch_hrr import _moved
from torch_hrr._checks import brief
from torch_hrr._compile import outside_graphs
from torch_hrr._shared import is_out_of_memory
from torch_hrr.io import files
from torch_hrr.io._contents import canonical_json
from torch_hrr.io.files import IntegrityError
from torch_hrr.runtime.device import resolve_device

_CLASSES: dict[str, type[Saveable]] = {}
# What a content that no object has may raise while an object is made of it.
_REFUSALS = (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError)


class Saveable:
    """Something that can be saved to one checked safetensors file and loaded with the same bits.

    A class states `file_format`, the name of its kind of file, and `file_version`. The file of a module holds the
    tensors of its `state_dict` and the values of ``_settings``, of which ``_from_settings`` makes it again. What has
    another content overrides ``_content``, which gives it, and ``_from_content``, which makes an object of it.
    """

    file_format: ClassVar[str]
    file_version: ClassVar[int] = 1
    _reads_values: ClassVar[bool] = False
    """Whether an object reads its tensors, so that it cannot be on a device without memory."""
    _has_modes: ClassVar[bool] = True
    """Whether train and eval mode of a module differ, so that its files keep them."""
    _later: ClassVar[frozenset[str]] = frozenset()
    """Names of values that files of earlier versions lack."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Lets `torch_hrr.load` find a class that states a format."""
        super().__init_subclass__(**kwargs)
        if "file_format" in cls.__dict__:
            _CLASSES[cls.file_format] = cls

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes the object to one checked safetensors file, whole or not at all.

        Args:
            path: Where to write; an existing file is replaced atomically, or on an error kept.
            key: Seals the file with HMAC-SHA256: loading then needs this key, and so does an unnoticed change. The file
                is not encrypted.

        Raises:
            TypeError, ValueError: ``key`` is not bytes or empty, or ``path`` not a regular file.
            OSError: The file cannot be written.
        """
        # What threads share must not change until it is written: its tensors are no copies.
        with getattr(self, "_lock", None) or contextlib.nullcontext():
            files.save(path, *self._filed(), format=self.file_format, version=self.file_version, key=key)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> Self:
        """Reads an object that `save` wrote, with the same bits; modules in eval mode are so again.

        Args:
            path: The file.
            key: The key it was saved with; None for a file without one.
            device: Where the object is made, as for its class; the device that it was saved from does not matter.
            **options: Further arguments of the class that no file holds.

        Raises:
            torch_hrr.IntegrityError: The file is damaged, holds something else, or does not fit the key.
            TypeError, ValueError: ``key`` is not bytes or empty, ``device`` names no device, ``path`` is not a
                regular file, or the class knows no such option.
            RuntimeError: ``device`` is one that torch cannot use.
            MemoryError: The object does not fit into memory.
            OSError: The file cannot be read; FileNotFoundError if there is none.
        """
        cls._check_options(options)
        place = cls._resolved(device)
        return cls._made(path, *cls._read(path, key), device=place, **options)

    @classmethod
    def _check_options(cls, options: Mapping[str, Any]) -> None:
        """Raises TypeError for what no `load` of the class names, which would be ignored."""
        parameters = inspect.signature(cls.load).parameters.values()
        known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        for name in options:
            if name not in known:
                raise TypeError(f"load: options of {cls.__name__} must be {' or '.join(known)}, got {name}")

    def _content(self) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        """Tensors and plain values that determine the object."""
        state = cast(nn.Module, self).state_dict()
        return {name: value for name, value in state.items() if not name.endswith("_extra_state")}, self._settings()

    def _filed(self) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        """`_content`, and the modules in eval mode: files of those that are all in train mode are as ever."""
        tensors, metadata = self._content()
        resting = _resting(self) if isinstance(self, nn.Module) and self._has_modes else []
        return tensors, {**metadata, "eval": resting} if resting else metadata

    def _outline(self) -> tuple[Mapping[str, Tensor], Mapping[str, Any]]:
        """`_content`, or the same with tensors without memory where that costs less."""
        return self._content()

    def _settings(self) -> Mapping[str, Any]:
        """The arguments of the module, as JSON can hold them, but for what its tensors say."""
        return {}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        """A module with these settings; shapes and dtypes may be taken from the tensors, whose values come later."""
        kind: Any = cls
        made: Self = kind(**settings, device=device, **options)
        return made

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        """The object of a content whose seal is right; anybody can seal one without a key, so that all is checked.

        Raises what such checks raise (KeyError, TypeError, ValueError and the like) for a content that no object has.
        What is taken for something else need not be found here: `_restored` finds it.
        """
        made = cls._from_settings(dict(metadata), tensors, device, **options)
        own, _ = made._content()
        if own.keys() != tensors.keys():
            raise ValueError(f"tensors {sorted(own)}, got {sorted(tensors)}")
        for name, value in tensors.items():
            place = own[name]
            if (place.shape, place.dtype) != (value.shape, value.dtype):
                raise ValueError(f"{name} of {place.dtype} {list(place.shape)}, got {value.dtype} {list(value.shape)}")
            place.copy_(value)
        return made

    @classmethod
    def _restored(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        """`_from_content`, whose object has the tensors of the content and says the values that it says."""
        text = canonical_json(metadata)
        made = cls._from_content(tensors, metadata, device, **options)
        own, said = made._outline()
        for name, tensor in tensors.items():
            found = own.get(name)
            if found is None or (found.dtype, found.shape) != (tensor.dtype, tensor.shape):
                raise ValueError(f"a tensor {name!r} of {tensor.dtype} {list(tensor.shape)}")
        known = canonical_json(dict(said))
        if known != text and (where := _unlike(json.loads(known), json.loads(text), cls._later)):
            raise ValueError(f"metadata{where}")
        return made

    @classmethod
    def _resolved(cls, device: torch.device | str | int | None) -> torch.device | None:
        """The device asked for; None leaves it to the class."""
        place = None if device is None else resolve_device(device, op="load")
        if cls._reads_values and place is not None and place.type == "meta":
            raise ValueError(f"load: device of {cls.__name__} must have memory, got meta")
        return place

    @classmethod
    def _read(cls, path: str | os.PathLike[str], key: bytes | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return files.load(path, format=cls.file_format, version=cls.file_version, key=key)

    @classmethod
    @outside_graphs
    def _made(
        cls,
        path: str | os.PathLike[str],
        tensors: dict[str, Tensor],
        metadata: dict[str, Any],
        *,
        device: torch.device | None,
        **options: Any,
    ) -> Self:
        """The object of a file's content; IntegrityError where there is none."""
        with files.enough_memory(path):
            try:
                says_modes = issubclass(cls, nn.Module) and cls._has_modes and "eval" in metadata
                resting: list[str] = metadata.pop("eval") if says_modes else []
                made = cls._restored(tensors, metadata, device, **options)
                if says_modes:
                    module = cast(nn.Module, made)
                    for name in resting:
                        module.get_submodule(name).training = False
                    if not resting or [name for name in _resting(module) if name in resting] != resting:
                        raise ValueError(f"metadata['eval'] = {brief(resting)}")
                return made
            except _REFUSALS as error:
                if isinstance(error, IntegrityError) or is_out_of_memory(error):
                    raise
                where = os.fsdecode(path)
                raise IntegrityError(f"load: {where} must describe a {cls.__name__}, got {error}") from error


def check_shape(tensors: Mapping[str, Tensor], name: str, sizes: Iterable[Any]) -> None:
    """ValueError unless a file's tensor has these sizes: nothing larger than the file is made of what it says."""
    if list(tensors[name].shape) != [*sizes]:
        raise ValueError(f"{name} of {[*sizes]}, got {list(tensors[name].shape)}")


def _resting(module: nn.Module) -> list[str]:
    """The names of the modules in eval mode."""
    return [name for name, each in module.named_modules() if not each.training]


def _unlike(said: Any, facts: Any, later: frozenset[str], where: str = "") -> str:
    """Where plain values are not those of a file, "" if nowhere: 1 and 1.0 are one number, and True is none."""
    if isinstance(said, dict) and isinstance(facts, dict):
        if names := (facts.keys() - said.keys()) | (said.keys() - facts.keys() - later):
            return f"{where} with {'no' if names <= said.keys() else 'a'} {sorted(names)[0]!r}"
        parts = [(said[name], facts[name], f"{where}[{name!r}]") for name in facts]
    elif isinstance(said, list) and isinstance(facts, list) and len(said) == len(facts):
        parts = [(one, fact, f"{where}[{at}]") for at, (one, fact) in enumerate(zip(said, facts, strict=True))]
    else:
        is_same = said == facts and isinstance(said, bool) == isinstance(facts, bool)
        return "" if is_same else f"{where} = {brief(facts)}, not {brief(said)}"
    return next(filter(None, (_unlike(one, fact, later, at) for one, fact, at in parts)), "")


def load(
    path: str | os.PathLike[str],
    key: bytes | None = None,
    *,
    device: torch.device | str | int | None = None,
    **options: Any,
) -> Any:
    """Reads whatever object of torch_hrr a file holds.

    The file says what it holds, and the `load` of that class reads it.

    Args:
        path: A file that some ``save`` of this package wrote.
        key: The key it was saved with; None for a file without one.
        device: Where the object is made; None leaves it to its class.
        **options: As for the class's `load`.

    Returns:
        A `Brain`, a `Vocabulary`, or whatever was saved.

    Raises:
        torch_hrr.IntegrityError: The file is damaged, does not fit the key, or holds nothing that this version knows.
        Others: As for `Saveable.load`.
    """
    found = files.format_of(path, key, op="load")
    classes = _CLASSES if found in _CLASSES else saveable_classes()
    if found not in classes:
        raise IntegrityError(f"load: {os.fsdecode(path)} must hold an object of torch_hrr, got {found!r}")
    given = options if device is None else {**options, "device": device}
    return classes[found].load(path, key, **given)


def saveable_classes() -> dict[str, type[Saveable]]:
    """Every class that can be loaded, by the format of its files."""
    _moved.import_all()
    return dict(_CLASSES)
