"""Calls as the bytes that tests/fuzz/operators.h describes, for a fuzzer to start from.

python tests/fuzz/corpus.py FOLDER
"""

from __future__ import annotations

import functools
import hashlib
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from cases import ALL_CASES
from cases.base import build

from torch_hrr import assembly, field

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.complex128,
)  # fmt: skip
CONTIGUOUS, META, UNDEFINED = 0, 7, 8
NUMBERS = 11
# c10::ScalarType.
SCALAR_TYPES = {torch.float16: 5, torch.float32: 6, torch.float64: 7, torch.bfloat16: 15, torch.int64: 4}
# Dimensions that one byte names, and values that are written out.
MOST_SIZE, MOST_VALUES = 239, 300


@functools.cache
def names() -> list[tuple[str, str]]:
    """Every operator with its overload, in the order of their numbers."""
    schemas = torch._C._jit_get_all_schemas()
    return sorted((s.name, s.overload_name) for s in schemas if s.name.startswith("torch_hrr::"))


class NotEncoded(Exception):
    """The format has no bytes for a value."""


def tensor_bytes(tensor: Tensor | None) -> bytes:
    if tensor is None:
        return bytes([UNDEFINED])
    plain = tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested
    if not plain or tensor.dtype not in DTYPES or tensor.dim() > 5 or max(tensor.shape, default=0) > MOST_SIZE:
        raise NotEncoded
    layout = META if tensor.is_meta else CONTIGUOUS
    head = bytes([layout, DTYPES.index(tensor.dtype), tensor.dim(), *tensor.shape])
    if tensor.is_meta:
        return head
    if tensor.numel() > MOST_VALUES or tensor.is_complex():
        raise NotEncoded
    kind = "q" if not tensor.is_floating_point() else "d"
    return head + bytes([NUMBERS, 0]) + struct.pack(f"<{tensor.numel()}{kind}", *tensor.detach().flatten().tolist())


def value_bytes(type: Any, value: Any) -> bytes:
    match type.kind():
        case "OptionalType":
            return b"\0" if value is None else b"\1" + value_bytes(type.getElementType(), value)
        case "TensorType":
            return tensor_bytes(value)
        case "ListType":
            if len(value) > 255:
                raise NotEncoded
            return bytes([len(value)]) + b"".join(value_bytes(type.getElementType(), each) for each in value)
        case "IntType" | "SymIntType":
            number = SCALAR_TYPES.get(value, -1) if isinstance(value, torch.dtype) else value
            return struct.pack("<q", number)
        case "FloatType":
            return struct.pack("<d", value)
        case "BoolType":
            return bytes([value])
        case "StringType":
            return bytes([len(value)]) + value.encode()
    raise NotEncoded


def call_bytes(op: Any, arguments: Mapping[str, Any], derivative: int = 0) -> bytes:
    """The call of an overload, with the defaults of what is not given."""
    schema = op._schema
    made = bytes([names().index((schema.name, schema.overload_name)), derivative])
    for argument in schema.arguments:
        made += value_bytes(argument.real_type, arguments.get(argument.name, argument.default_value))
    return made


class Recorder(TorchDispatchMode):
    """The calls of our operators that are made below it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "torch_hrr":
            named = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
            try:
                self.calls.append(call_bytes(func, named | (kwargs or {})))
            except NotEncoded:
                pass
        return func(*args, **(kwargs or {}))


def of_cases() -> Iterator[bytes]:
    for case in ALL_CASES:
        calls = [build(sample) for sample in (*case.lane_samples, *case.samples)]
        calls += [build(sample, torch.float64) for sample in case.lane_samples]
        for arguments in calls:
            out = {"out": case.make_out(arguments)} if case.is_out else {}
            for derivative in range(4 if case.differentiable and not case.is_out else 1):
                try:
                    yield call_bytes(case.op, arguments | out, derivative)
                except NotEncoded:
                    pass
        for error in case.errors:
            try:
                yield call_bytes(case.op, error.make())
            except (NotEncoded, TypeError):
                pass


def of_systems() -> Iterator[bytes]:
    """What objects call: operators that write into a state."""
    with Recorder() as recorder:
        for learns in (True, False):
            brain = assembly.Brain(p=0.3, seed=1).train(learns)
            brain.add_stimulus("s", size=3)
            brain.add_area("A", n=12, k=3, beta=0.1)
            brain.add_area("B", n=10, k=2, beta=0.1)
            brain.project(stimuli={"s": ["A", "B"]})
            brain.project(stimuli={"s": ["A"]}, areas={"A": ["A", "B"], "B": ["A"]}, rounds=3)
            brain.inputs("A", areas=["B"])
        split = assembly.SplitBrain(p=0.3, seed=1)
        split.add_stimulus("s", 3)
        split.add_area("A", n=12, k=3)
        split.project({"s": ["A"]})
        split.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
        for learner in ("imprint", "actor-critic"):
            robot = field.create_brain(2, 2, spatial=3, channels=4, seed=0, learner=learner)
            robot.process_robot_cycle([0.1, 0.2], reward=0.5)
        rows = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
        codes, bounds = torch.ops.torch_hrr.quantize_rows(rows)
        for order in (None, torch.arange(6)):
            torch.ops.torch_hrr.quantized_cleanup(rows[:2], rows, codes, bounds, order, 2)
        x = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
        torch.ops.torch_hrr.rotate_(x, torch.arange(3))
    yield from recorder.calls


def write(folder: Path) -> int:
    """Writes each distinct call into a file, and returns how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    calls = {*of_cases(), *of_systems()}
    for call in calls:
        (folder / hashlib.sha256(call).hexdigest()[:16]).write_bytes(call)
    return len(calls)


if __name__ == "__main__":
    print(write(Path(sys.argv[1])), "calls")
