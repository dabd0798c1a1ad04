"""Bounds on what CUDA kernels need, as kernel_bounds.toml has them: who keeps them, and which say nothing any more."""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.tools.kernel_code import Kernel, by_family
from bench.tools.occupancy import round_up

BOUNDS = Path(__file__).with_name("kernel_bounds.toml")


@dataclass
class Bound:
    """A line of kernel_bounds.toml: a family, or an exception to one."""

    kernels: re.Pattern[str]
    registers: int | None = None
    stack: int | None = None
    occupancy: dict[str, float] = field(default_factory=dict)
    compute: str | None = None
    architectures: Sequence[str] = ()
    reason: str = ""

    def covers(self, kernel: Kernel) -> bool:
        return (
            self.kernels.match(kernel.name) is not None
            and self.compute in (None, kernel.family[1])
            and (not self.architectures or kernel.architecture in self.architectures)
        )


@dataclass
class Bounds:
    architectures: tuple[str, ...]
    families: list[Bound]
    exceptions: list[Bound]


def read_bounds(text: str) -> Bounds:
    """Raises ValueError where an exception has a key that means nothing, or no reason."""
    data = tomllib.loads(text)
    names = tuple(data["architectures"])

    def family(registers: int, occupancy: Sequence[float], compute: str, kernels: str, stack: int | None = 0) -> Bound:
        shares = dict(zip(names, occupancy, strict=False))
        return Bound(re.compile(kernels), registers, stack, shares, compute or None)

    def exception(entry: dict[str, Any]) -> Bound:
        known = {"kernels", "compute", "registers", "stack", "occupancy", "architectures", "reason"}
        if unknown := entry.keys() - known:
            raise ValueError(f"{entry.get('kernels')}: unknown keys {sorted(unknown)}")
        if not entry.get("reason", "").strip():
            raise ValueError(f"{entry.get('kernels')}: an exception needs a reason")
        return Bound(**entry | {"kernels": re.compile(entry["kernels"])})

    families = [family(*row) for row in data.get("families", [])]
    return Bounds(names, families, list(map(exception, data.get("exception", []))))


def exceeded(kernel: Kernel, bound: Bound) -> dict[str, str]:
    """What of a kernel is beyond the numbers that the bound gives."""
    beyond = {}
    if bound.registers is not None and kernel.registers > bound.registers:
        beyond["registers"] = f"{kernel.registers} registers, the bound is {bound.registers}"
    used = kernel.stack + kernel.local
    if bound.stack is not None and used > bound.stack:
        beyond["stack"] = f"{used} bytes of stack, the bound is {bound.stack}"
    least = bound.occupancy.get(kernel.architecture.rstrip("af"))
    if least is not None and kernel.shapes and kernel.shapes[0][2] < least:
        threads, shared, share = kernel.shapes[0]
        beyond["occupancy"] = f"{share:.0%} of the warps ({threads} threads, {shared} bytes), the bound is {least:.0%}"
    return beyond


def violations(kernels: Sequence[Kernel], bounds: Bounds) -> list[str]:
    """What is wrong, a line each: bounds that do not hold, and lines of bounds that say nothing any more."""
    kernels = [kernel for kernel in kernels if kernel.architecture in bounds.architectures]
    if not kernels:
        return []
    wrong = []
    useful: set[int] = set()
    covering: set[int] = set()
    for kernel in kernels:
        where = f"{kernel.name} on {kernel.architecture}"
        if not kernel.launches:
            wrong.append(f"{where}: tests/cuda_launches/main.cpp never launches it")
        families = [bound for bound in bounds.families if bound.covers(kernel)]
        covering |= {id(bound) for bound in families}
        if len(families) != 1:
            wrong.append(f"{where}: {len(families)} families of kernel_bounds.toml cover it, not one")
            continue
        beyond = exceeded(kernel, families[0])
        for exception in bounds.exceptions:
            if exception.covers(kernel):
                covering.add(id(exception))
                own = exceeded(kernel, exception)
                for quantity in ("registers", "stack", "occupancy"):
                    if getattr(exception, quantity) in (None, {}):
                        continue
                    if quantity in beyond:
                        useful.add(id(exception))
                        del beyond[quantity]
                    if quantity in own:
                        beyond[quantity] = own[quantity]
        wrong += [f"{where}: {text}" for text in beyond.values()]
    compiled = {kernel.architecture for kernel in kernels}
    for bound in bounds.families + bounds.exceptions:
        if bound.architectures and not compiled & set(bound.architectures):
            continue
        if id(bound) not in covering:
            wrong.append(
                f"kernel_bounds.toml: no kernel is named {bound.kernels.pattern} ({bound.compute or 'any type'})"
            )
        elif bound.reason and id(bound) not in useful:
            wrong.append(f"kernel_bounds.toml: the exception for {bound.kernels.pattern} is not needed any more")
    return wrong


def bounds_that_hold(kernels: Sequence[Kernel]) -> str:
    """Families as kernel_bounds.toml has them; registers to the next unit of allocation, occupancy down to percents."""
    names = list(dict.fromkeys(kernel.architecture for kernel in kernels))
    lines = [f"architectures = {json.dumps(names)}", "", "families = ["]
    for (template, compute), members in by_family(kernels).items():
        registers = round_up(max(kernel.registers for kernel in members), 8)
        least = dict.fromkeys(names, 1.0)
        for kernel in members:
            least[kernel.architecture] = min([least[kernel.architecture], *(share for _, _, share in kernel.shapes)])
        shares = ", ".join(f"{int(share * 100) / 100:.2f}" for share in least.values())
        stack = max(kernel.stack + kernel.local for kernel in members)
        lines.append(f"  [{registers}, [{shares}], \"{compute}\", '{template}\\b'{f', {stack}' if stack else ''}],")
    return "\n".join([*lines, "]", ""])
