"""How objects show themselves: one line for `repr` and a table for notebooks, both made of the same few fields."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, KeysView, Mapping
from typing import Any

import torch
from torch import Tensor, nn

# Characters of a line, of its names and of what holds many of them; how deep what holds many is shown.
_LONGEST, _LONGEST_TEXT, _LONGEST_ITEMS, _DEEPEST = 200, 40, 70, 2


class Described:
    """An object that shows the fields of its `_summary`, for which it reads no tensor and takes no lock."""

    def _summary(self) -> dict[str, Any]:
        """What to show, the most important first; of a dataclass all fields, those that are the default last."""
        own: Any = self
        fields = dataclasses.fields(own) if dataclasses.is_dataclass(own) else ()
        values = {field.name: getattr(self, field.name) for field in fields}
        given = [field for field in fields if field.default is not dataclasses.MISSING]
        usual = {field.name for field in given if values[field.name] == field.default}
        return dict(sorted(values.items(), key=lambda item: item[0] in usual))

    def _summary_fields(self) -> dict[str, str]:
        # What is half built has no attributes, and another thread may be changing what is there.
        try:
            return {name: _text(value) for name, value in self._summary().items()}
        except Exception:
            return {"": "..."}

    def _summary_rows(self) -> dict[str, str]:
        return self._summary_fields()

    def _summary_line(self) -> str:
        parts = {name: f"{name}={text}" if name else text for name, text in self._summary_fields().items()}
        room = _LONGEST - len(f"{type(self).__name__}(...)")
        left_out = set()
        # Dtype and device come last but are not left out.
        for name in sorted(parts, key=lambda name: name not in ("dtype", "device")):
            room -= len(parts[name]) + 2
            if room < 0:
                left_out.add(name)
        shown = [part for name, part in parts.items() if name not in left_out]
        return ", ".join([*shown, "..."] if left_out else shown)

    def __repr__(self) -> str:
        """One line of at most 200 characters, without the values of tensors."""
        return f"{type(self).__name__}({self._summary_line()})"

    def _repr_html_(self) -> str:
        cell = '<td style="text-align: left; white-space: pre">'
        rows = (
            f"<tr><th>{html.escape(k)}</th>{cell}{html.escape(v)}</td></tr>" for k, v in self._summary_rows().items()
        )
        return f"<table><caption>{html.escape(type(self).__name__)}</caption><tbody>{''.join(rows)}</tbody></table>"


class DescribedModule(Described, nn.Module):
    """A module that shows its fields, dtype and device unless float32 and the CPU, and on further lines its parts."""

    def _summary_fields(self) -> dict[str, str]:
        own = [*self.__dict__.get("_parameters", {}).values(), *self.__dict__.get("_buffers", {}).values()]
        held = next((each for each in own if isinstance(each, Tensor) and each.is_floating_point()), None)
        place = {} if held is None else unusual_place(held)
        return super()._summary_fields() | {name: _text(value) for name, value in place.items()}

    def _summary_rows(self) -> dict[str, str]:
        children: Iterable[tuple[str, Any]] = self.__dict__.get("_modules", {}).items()
        return self._summary_fields() | {name: repr(child) for name, child in children if child is not None}

    def extra_repr(self) -> str:
        """The fields, for `repr`."""
        return self._summary_line()

    def __repr__(self) -> str:
        """As that of torch's modules, also before there are any parts."""
        return nn.Module.__repr__(self) if "_modules" in self.__dict__ else super().__repr__()


def place_of(device: torch.device, dtype: torch.dtype | None = None) -> dict[str, Any]:
    """The fields of a dtype, if there is one, and of a device, if it is not the CPU."""
    return ({} if dtype is None else {"dtype": dtype}) | ({} if device.type == "cpu" else {"device": device})


def unusual_place(held: Tensor) -> dict[str, Any]:
    """`place_of` of a tensor without a dtype that is float32."""
    return place_of(held.device, None if held.dtype == torch.float32 else held.dtype)


def _text(value: Any, depth: int = 0) -> str:
    """A value in a few characters: shapes for tensors, the first items of many, of anything else the type."""
    if isinstance(value, Tensor):
        place = "" if value.device.type == "cpu" else f" on {value.device}"
        return f"{_text(value.dtype)}{list(value.shape)}{place}"
    if isinstance(value, float):
        return repr(float(f"{value:.6g}"))
    if isinstance(value, str):
        return repr(value if len(value) <= _LONGEST_TEXT else value[: _LONGEST_TEXT - 3] + "...")
    if value is None or isinstance(value, int | torch.dtype | torch.device | torch.SymInt):
        return str(value).removeprefix("torch.")
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return "{" + _items((f"{_text(k)}: {_text(v, depth + 1)}" for k, v in value.items()), len(value)) + "}"
    if isinstance(value, list | tuple | KeysView) and depth < _DEEPEST:
        return "[" + _items((_text(each, depth + 1) for each in value), len(value)) + "]"
    return str(getattr(value, "__name__", type(value).__name__))


def _items(texts: Iterable[str], count: int) -> str:
    shown: list[str] = []
    for text in texts:
        if shown and len(", ".join([*shown, text])) > _LONGEST_ITEMS:
            return ", ".join([*shown, f"... {count} in all"])
        shown.append(text)
    return ", ".join(shown)
