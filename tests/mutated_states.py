"""Changed files of every saveable class: each is refused, or gives the object that the file describes.

Mutation n of a class and a seed is always the same one. Odd ones damage the bytes of a file; even ones change what it
holds and seal it anew, as anybody can without a key. What loads must say what the file says, bit for bit, and survive
a call. All run in a process of its own, whose memory and time are limited: one that dies is a finding, too.

    python tests/mutated_states.py --mutations 10000 [--class NAME ...] [--seed N] [--only N] [--json FILE]

prints a table and what failed, and exits with 1 if anything loaded different or failed in another way than as promised.
"""

from __future__ import annotations

import argparse
import copy
import functools
import hashlib
import json
import math
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

FIGURES = ("tried", "refused", "loaded equal", "loaded different", "other exceptions")
# Of memory beyond what the process has, for a load or a call: the files are of a few KB.
BYTES = 8 << 20
# Of computing, and until a process that hangs is ended.
SECONDS, PATIENCE = 1.0, 30
KEY = b"a secret"
ROOT = pathlib.Path(__file__).parent.parent
# What files of earlier versions do not say: nothing else may be missing.
LATER = {"torch_hrr.field_brain": {"seed"}, "torch_hrr.hierarchy": {"center", "losers", "scaled", "power"}}
LATER |= {f"torch_hrr.{name}": {"embedder"} for name in ("liquid_state_machine", "lsm_regressor", "lsm_classifier")}
LATER |= {"torch_hrr.lsm_generator": {"embedder"}}

NUMBERS = [-1, 0, 1, 2, 3, 7, -(2**31), 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64]
NUMBERS += [10**30, 2**999, 1e308, -1e308, 5e-324, 1e-8, 0.5, -0.5, 1.0, -0.0, 1.5, math.nan, math.inf, -math.inf]
TEXTS = [
    "", "a", "0", "-1", "5", " 7 ", "1_000", "\u0663", "+4", "1e3", "0.5", "nan", "None", "True", "float32", "save",
    "a.b", "\0", "é", "x" * 5000, "__class__", "load_state_dict", "cpu", "meta", "exact", "sampled", "half", "sum",
]  # fmt: skip
OTHERS = [None, True, False, [], {}, [None], [[]], [0], ["a"], ["a", "a"], {"a": 1}, {"": None}, [[1, [2, [3]]]]]


def file_of(content, old=False, key=None):
    """The bytes of a file with this content, whatever it is; not by the code that is tested."""
    from cases.storage import sealed

    format, version, metadata, tensors = content
    header, data, entries = {}, b"", {}
    for name, (dtype, shape, raw) in tensors.items():
        entries[name] = {"dtype": dtype, "sha256": hashlib.sha256(raw).hexdigest(), "shape": shape}
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    manifest = {"format": format, "metadata": metadata, "tensors": entries, "version": version}
    head = json.dumps({"__metadata__": sealed(manifest, key, old), **header}).encode()
    return len(head).to_bytes(8, "little") + head + data


def examples():
    """An object of every class, and some whose files hold more, by name."""
    import torch
    from test_saveable import EXAMPLES, drawn

    from torch_hrr import assembly, encoding, field, hierarchy, hrr

    def brain(**options):
        made = assembly.Brain(p=0.2, **options)
        made.add_stimulus("s", 5)
        made.add_area("A", 30, 4, refracted=options.get("mode") != "sampled")
        made.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
        return made

    def words(**options):
        made = hrr.Vocabulary(8, **options)
        made.populate("A; B; C = A * B")
        return made

    def store():
        made = hrr.VectorStore(8, quantized=True)
        made.add_many(["a", "b"], drawn(2, 8))
        return made

    def embedder():
        more = {"learnable_frequencies": True, "use_relative_position": True, "relative_position_window": 3}
        config = encoding.SinusoidalConfig(vocab_size=4, embedding_dim=4, gpu_config=encoding.GPUConfig(), **more)
        return encoding.ConfigurableSinusoidalEmbedder(config).eval()

    def levels():
        made, level = hierarchy.HierarchyManager(), hierarchy.HierarchicalLevel(0, 3, 2)
        level.add_layer(hierarchy.HebbianCore(3, 2).eval())
        made.add_level(level)
        return made

    series = torch.sin(torch.arange(20.0)).view(-1, 1)
    labelled = drawn(4, 5, 2), ["a", "b", "a", "b"]
    return EXAMPLES | {
        "torch_hrr.assembly.Brain (batch)": lambda: brain(batch=2, seeds=[1, 2]),
        "torch_hrr.assembly.Brain (sampled)": lambda: brain(mode="sampled"),
        "torch_hrr.field_brain (imprint)": lambda: field.FieldBrain(3, 2, 4, 6, patterns=5, seed=0),
        "torch_hrr.hierarchy (eval)": levels,
        "torch_hrr.item_memory (quantized)": lambda: hrr.ItemMemory(drawn(3, 8), quantized=True),
        "torch_hrr.liquid_state_machine (drawn)": lambda: encoding.LiquidStateMachine(1, 6, seed=1).fit(series, series),
        "torch_hrr.lsm_classifier (numbers)": lambda: encoding.LSMClassifier(units=6).partial_fit(*labelled),
        "torch_hrr.ridge_classifier (encoder)": lambda: hrr.RidgeClassifier(hrr.SinusoidEncoder(2, 8)),
        "torch_hrr.sinusoidal_embedder (learning)": embedder,
        "torch_hrr.vector_store (quantized)": store,
        "torch_hrr.vocabulary (open)": lambda: words(strict=False, max_similarity=0.9, quantized=True),
    }


def damaged(rng, data, donor):
    """The bytes of a file, changed without regard to what they mean."""
    raw, size = bytearray(data), len(data)

    def block(limit=64):
        start = rng.randrange(size)
        return start, min(size, start + rng.randint(1, limit))

    def flips():
        for _ in range(rng.randint(1, 8)):
            raw[rng.randrange(size)] ^= 1 << rng.randrange(8)

    def substitutions():
        for _ in range(rng.randint(1, 16)):
            raw[rng.randrange(size)] = rng.randrange(256)

    def truncation():
        del raw[rng.choice((rng.randrange(size), size - 1 - rng.randrange(min(size, 9)))) :]

    def insertion():
        at = rng.choice((rng.randrange(size + 1), size))
        raw[at:at] = rng.choice((rng.randbytes(rng.randint(1, 40)), b"\0" * rng.randint(1, 9), b" " * 8))

    def removal():
        start, end = block()
        del raw[start:end]

    def swapped():
        length = rng.randint(1, min(64, size // 2))
        a = rng.randrange(size - 2 * length + 1)
        b = rng.randrange(a + length, size - length + 1)
        raw[a : a + length], raw[b : b + length] = raw[b : b + length], raw[a : a + length]

    def duplicated():
        start, end = block()
        at = rng.choice((end, rng.randrange(size)))
        raw[at:at] = raw[start:end]

    def length():
        told = int.from_bytes(data[:8], "little")
        ends = 0, 1, size, size - 8, 2**31, 2**63, 2**64 - 1
        one = rng.choice((told + rng.randint(-9, 9), *ends, rng.getrandbits(64)))
        raw[:8] = (one % 2**64).to_bytes(8, "little")

    def spliced():
        start = rng.randrange(len(donor))
        piece = donor[start : start + rng.choice((8, 64, 1000, len(donor)))]
        at = rng.choice((0, rng.randrange(size)))
        raw[at : at + rng.choice((0, len(piece)))] = piece

    def head():
        mine, theirs = (8 + int.from_bytes(each[:8], "little") for each in (data, donor))
        raw[:] = rng.choice((data[:mine] + donor[theirs:], donor[:theirs] + data[mine:]))

    kinds = flips, substitutions, truncation, insertion, removal, swapped, duplicated, length, spliced, head
    one = rng.choice(kinds)
    one()
    return one.__name__, bytes(raw)


def places(value, path=()):
    """Where there are values in nested metadata."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


def at(value, path):
    return functools.reduce(lambda held, name: held[name], path, value)


def another(rng, value, donor):
    """Something in the place of a value: near to it, like it, or nothing of the kind."""
    near = []
    if isinstance(value, bool):
        near = [not value, int(value), str(value), float(value)]
    elif isinstance(value, int | float):
        near = [value + 1, value - 1, -value, 2 * value, value / 2, value * 1000, str(value), [value], bool(value)]
        near += [int(value)] if math.isfinite(value) else []
        near += [float(value)] if abs(value) < 2**1000 else []
    elif isinstance(value, str):
        near = [value + "a", value[:-1], value.upper(), value[::-1], f" {value}", f"0{value}", [value], {value: value}]
        if re.fullmatch(r"-?[0-9]+", value):
            near += [int(value), int(value) + 1, str(int(value) + 2**64), f"+{value}"]
    elif isinstance(value, list):
        near = [value[:-1], value[1:], value[::-1], value * 2, [value], rng.sample(value, len(value)), value * 200]
        near += [[*value, one] for one in (*NUMBERS[:4], None, "a")] + [{str(i): one for i, one in enumerate(value)}]
    elif isinstance(value, dict):
        near = [list(value), list(value.items()), {"a": value}, [value]]
    pools = (near, near, near, NUMBERS, TEXTS, OTHERS, [at(donor, rng.choice([*places(donor)]))])
    return copy.deepcopy(rng.choice(rng.choice([pool for pool in pools if pool])))


def change_metadata(rng, content, donor):
    metadata = content[2]
    where = [path for path in places(metadata) if path]
    if not where:
        metadata[rng.choice(TEXTS)] = rng.choice(NUMBERS + OTHERS)
        return "metadata made up"
    path = rng.choice(where)
    holder, name = at(metadata, path[:-1]), path[-1]
    kind = rng.randrange(8)
    if kind < 4:
        holder[name] = another(rng, holder[name], donor[2])
    elif kind == 4:
        del holder[name]
    elif kind == 5:
        other = rng.choice([one for one in where if len(one) == len(path)])
        first, second = holder[name], at(metadata, other)
        at(metadata, other[:-1])[other[-1]] = copy.deepcopy(first)
        holder[name] = copy.deepcopy(second)
    elif isinstance(holder, dict):
        value = copy.deepcopy(holder.pop(name)) if kind == 6 else another(rng, holder[name], donor[2])
        holder[rng.choice((f"{name}s", *TEXTS, *donor[2], "eval", "extra", "dim", "seed", "batch"))] = value
    else:
        holder.insert(name, another(rng, holder[name], donor[2]))
    return f"metadata {'.'.join(map(str, path))} ({kind})"


def numbers(dtype, raw):
    import torch

    from torch_hrr.io._contents import DTYPES

    return torch.frombuffer(bytearray(raw), dtype=DTYPES[dtype]) if raw else torch.empty(0, dtype=DTYPES[dtype])


def raw_of(tensor):
    import torch

    return bytes(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()) if tensor.numel() else b""


def change_tensors(rng, content, donor):
    import torch

    from torch_hrr.io._contents import DTYPES

    tensors, others = content[3], donor[3]
    if not tensors or rng.random() < 0.1:
        name = rng.choice([*tensors, *others, "more", "_extra_state", "a.b.c", "states.99.x", ""])
        tensors[name] = copy.deepcopy(rng.choice([*others.values(), *tensors.values(), ["F32", [2], b"\0" * 8]]))
        return f"tensor {name} added"
    name = rng.choice([*tensors])
    dtype, shape, raw = tensors[name]
    kind = rng.randrange(11)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[rng.choice([f"{name}.a", name.upper(), name.partition(".")[2], *tensors, *others])] = tensors.pop(name)
    elif kind == 2:
        other = rng.choice([*tensors])
        tensors[name], tensors[other] = tensors[other], tensors[name]
    elif kind == 3:
        wanted = rng.choice([*DTYPES])
        if rng.random() < 0.5:
            values = numbers(dtype, raw)
            values = values.real if values.is_complex() and wanted != "C64" else values
            tensors[name] = [wanted, shape, raw_of(values.to(torch.float64).to(DTYPES[wanted]))]
        else:
            size = math.prod(shape) * DTYPES[wanted].itemsize
            tensors[name] = [wanted, shape, (raw * (1 + size // max(1, len(raw))))[:size].ljust(size, b"\1")]
    elif kind == 4:
        count = math.prod(shape)
        shapes = [shape[::-1], [count], [1, *shape], [*shape, 1], [one for one in shape if one != 1], [count, 1]]
        tensors[name] = [dtype, rng.choice(shapes), raw]
    elif kind == 5:
        resize(rng, tensors, name, rng.randrange(max(1, len(shape))), rng.choice((0, 1, 2, -1, -2, 100)))
    elif kind == 6:
        huge = rng.choice(([0, 2**40], [2**40, 0], [0, 2**62, 2], [0], [0, 2**31], [2**63 - 1, 0], [0, 0]))
        tensors[name] = [dtype, [*huge, *(shape[2:] if rng.random() < 0.5 else [])], b""]
    elif kind == 7:
        tensors[name] = copy.deepcopy(rng.choice([*others.values(), *tensors.values()]))
    elif raw:
        values = numbers(dtype, raw)
        if kind == 8:
            order = torch.randperm(len(values), generator=torch.Generator().manual_seed(rng.getrandbits(32)))
            choices = (lambda: values[order], lambda: values.flip(0), lambda: values[:1].expand(len(values)))
            choices += (lambda: values.roll(1), lambda: torch.zeros_like(values))
            try:
                values = rng.choice(choices)()
            except (RuntimeError, NotImplementedError):  # torch has no such kernel for the dtype
                values = torch.zeros_like(values)
        else:
            size = max(shape, default=1)
            ends = [0, 1, -1, 2, len(values), size, size - 1, -(2**31), 2**31 - 1, 2**63 - 1, 0.5, 1e30, math.nan]
            ends += [math.inf, -math.inf, -0.0, 2**24, 2**24 + 1, -(2**63), 1e-40, values[0].item()]
            for _ in range(rng.choice((1, 1, 2, len(values)))):
                place = rng.randrange(len(values))
                try:
                    values[place] = rng.choice((rng.choice(ends), values[place].item() + rng.choice((1, -1))))
                except (RuntimeError, OverflowError, ValueError, TypeError):  # not a value of the dtype
                    values.view(torch.uint8)[place] ^= 0 if dtype == "BOOL" else 1
        tensors[name] = [dtype, shape, raw_of(values)]
    return f"tensor {name} ({kind})"


def resize(rng, tensors, name, axis, more):
    """A tensor that is longer or shorter along an axis."""
    import torch

    dtype, shape, raw = tensors[name]
    if axis >= len(shape) or not raw:
        return
    length = max(0, shape[axis] + more)
    rows = numbers(dtype, raw).view(shape)
    rows = rows.index_select(axis, torch.arange(length) % shape[axis]) if length else rows.narrow(axis, 0, 0)
    tensors[name] = [dtype, list(rows.shape), raw_of(rows)]


def change_sizes(rng, content, donor):
    """A size that many entries share, changed in all of them, so that most checks still hold."""
    metadata, tensors = content[2], content[3]
    where = [path for path in places(metadata) if path and type(at(metadata, path)) is int]
    sizes = [at(metadata, path) for path in where] + [size for _, shape, _ in tensors.values() for size in shape]
    if not sizes:
        return change_metadata(rng, content, donor)
    size = rng.choice(sizes)
    wanted = rng.choice((size + 1, size - 1, 2 * size, 0, 1, size + 16))
    share = rng.choice((1.0, 1.0, 0.8))
    for path in where:
        if at(metadata, path) == size and rng.random() < share:
            at(metadata, path[:-1])[path[-1]] = wanted
    for name, (_, shape, _) in [*tensors.items()]:
        for axis, length in enumerate(shape):
            if length == size and rng.random() < share and wanted - size < 10_000:
                resize(rng, tensors, name, axis, wanted - size)
    return f"size {size} to {wanted}"


def resealed(rng, content, donor, formats):
    """A content that was changed in one place or a few."""
    content, told = copy.deepcopy(content), []
    if rng.random() < 0.02:
        content[rng.randrange(2)] = rng.choice((rng.choice(formats).partition(" ")[0], *NUMBERS, *TEXTS, *OTHERS))
        told.append("format or version")
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4)) - len(told)):
        change = rng.choice((change_metadata, change_metadata, change_tensors, change_tensors, change_sizes))
        told.append(change(rng, content, donor))
    return ", ".join(told), content


def same(found, said, later=()):
    """Whether two plain values are equal; a bool is no number here."""
    if isinstance(found, dict) and isinstance(said, dict):
        named = {name for name in found if name in said or name not in later}
        return named == said.keys() and all(same(found[name], said[name], later) for name in named)
    if isinstance(found, list) and isinstance(said, list):
        return len(found) == len(said) and all(same(one, other, later) for one, other in zip(found, said, strict=True))
    if isinstance(found, bool) or isinstance(said, bool):
        return found is said
    return (type(found) is type(said) or {type(found), type(said)} == {int, float}) and found == said


def held_by(found):
    """The content of an object, as `file_of` takes it."""
    from torch_hrr.io._contents import _NAMES, to_bytes

    tensors, metadata = found._content()
    if hasattr(found, "named_modules") and found._has_modes:
        resting = [name for name, module in found.named_modules() if not module.training]
        metadata = {**metadata, "eval": resting} if resting else metadata
    held = {name: [_NAMES[one.dtype], list(one.shape), bytes(to_bytes(one))] for name, one in tensors.items()}
    return [found.file_format, found.file_version, json.loads(json.dumps(dict(metadata))), held]


def difference(found, content):
    """Where an object is not what a file says; None if it is."""
    own = held_by(found)
    for what, mine, theirs in zip(("format", "version", "metadata"), own, content, strict=False):
        if not same(mine, theirs, LATER.get(found.file_format, ())):
            return f"{what} {str(mine)[:300]} instead of {str(theirs)[:300]}"
    if own[3] != content[3]:
        names = [name for name in {**own[3], **content[3]} if own[3].get(name) != content[3].get(name)]
        return f"tensors {names}: {[own[3].get(one, 'none')[:2] for one in names]}"
    return None


def use(found):
    """One call of what was loaded."""
    import torch

    from torch_hrr import assembly, encoding, field, hierarchy, hrr

    def row(width, like=None):
        if width > 10_000:
            # Of a tensor without elements: a caller who has such a row has its memory.
            raise ValueError("use: too wide")
        kind = torch.float32 if like is None else like.dtype
        return torch.linspace(-1, 1, width, dtype=torch.float64).to(kind)

    match found:
        case assembly.AssemblyClassifier():
            if found._is_fitted():
                found.predict(torch.ones(2, found.n_features_in_))
        case assembly.TorchBrain():
            for name, area in [*found.brain.areas.items()][:1]:
                found.project({name: row(area.n)}, {name: [name]})
        case assembly.Brain():
            for name in [*found.areas][:1]:
                found.project({stimulus: [name] for stimulus in found.stimuli}, {name: [name]})
        case assembly.FiniteStateMachine():
            found.run([found._symbols[0]])
        case assembly.SequenceMemory():
            for first in found.items[:1]:
                found.recall(first)
        case assembly.WordLearner():
            found.say(found._nouns[0])
        case hrr.Automaton():
            found.transition(row(found.dim, found.vector), row(found.dim, found.vector))
        case hrr.Graph():
            found.add(row(found.dim, found.vector), row(found.dim, found.vector))
            found.neighbours(row(found.dim, found.vector))
        case hrr.HashTable():
            found.get(row(found.dim, found.vector))
        case hrr.Multiset():
            found.count(row(found.dim, found.vector))
            found.add(row(found.dim, found.vector))
        case hrr.Sequence():
            found.append(row(found.dim, found.vector))
            found[0]
        case hrr.Stack():
            found.push(row(found.dim, found.vector))
            found.top()
        case hrr.Tree():
            found.add("lr", row(found.dim, found.vector))
            found.get("lr")
        case hrr.Record():
            for role in [*found._fillers][:1]:
                found.get(role)
        case hrr.CentroidClassifier() | hrr.RidgeClassifier():
            if found._learned is not None:
                found.predict(row(found.n_features_in_).expand(2, -1))
        case hrr.RandomEncoder() | hrr.LevelEncoder() | hrr.ThermometerEncoder() | hrr.CircularEncoder():
            width = found.features
            kind = torch.int64 if isinstance(found, hrr.RandomEncoder) else torch.float32
            found(torch.zeros(() if width is None else (width,), dtype=kind))
        case hrr.ProjectionEncoder() | hrr.SinusoidEncoder() | hrr.FractionalPowerEncoder():
            found(row(found.in_features))
        case field.DynamicField():
            found.step()
        case field.FieldBrain():
            found.process_robot_cycle([0.5] * found.sensory_dim)
        case field.PatternLibrary():
            found.store(row(found.dim), row(found.pattern_dim))
            found.find_best_pattern(row(found.dim))
        case hierarchy.HierarchyManager():
            if len(found.levels):
                found.process_hierarchy(row(3 * found.levels[0].input_size).view(3, -1))
        case hrr.HopfieldMemory() | hrr.ItemMemory() | hrr.VectorStore():
            query = row(found._place()[0], found.vectors)
            if isinstance(found, hrr.HopfieldMemory):
                found.recall(query)
            elif len(found):
                found.cleanup(query, len(found))
        case hrr.Vocabulary():
            found.populate("A_new_name; Another = A_new_name * A_new_name")
            found.ask("A_new_name")
        case hrr.SparseDistributedMemory():
            found.write(row(found.dim, found), row(found.value_dim, found))
            found.read(row(found.dim, found))
        case hrr.Resonator():
            found.factorize(row(found._place()[0], found.codebooks[0]), 11)
        case encoding.LiquidStateMachine():
            x = row(3 * found.input_dim).view(3, -1)
            found.predict(x) if found.fitted and found.feedback_weights is None else found.run(x[:0])
            found.step(x[0])
        case encoding.LSMRegressor():
            if found._is_fitted():
                found.predict(row(3 * found.machine.input_dim).view(3, -1))
        case encoding.LSMClassifier():
            if found._is_fitted():
                tokens = found.embedder is not None
                x = torch.zeros(2, 3, found.machine.input_dim)
                found.predict(x[..., 0].long() if tokens else x)
        case encoding.LSMGenerator():
            if found._is_fitted():
                found.generate(3)
        case encoding.SinusoidalConfig():
            found.acceleration(), repr(found)
        case encoding.ConfigurableSinusoidalEmbedder():
            found(torch.zeros(2, 3, dtype=torch.int64))
        case _:
            raise AssertionError(f"no use of {type(found).__name__}")


class Watch:
    """Memory and computing that a step may take; what it took too much of is a finding."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        self.limits = resource.getrlimit(resource.RLIMIT_DATA)
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[5])
        resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + BYTES, self.limits[1]))
        self.start = time.process_time()

    def __exit__(self, kind, error, _):
        resource.setrlimit(resource.RLIMIT_DATA, self.limits)
        if kind is None and time.process_time() - self.start > SECONDS:
            raise AssertionError(f"{self.what} took {time.process_time() - self.start:.1f} s")


def is_vast(metadata):
    """Whether a brain of so many neurons is described that its own maps of them are beyond the limit."""
    held = [at(metadata, place) for place in places(metadata)]
    areas = [one["n"] for one in held if isinstance(one, dict) and {"n", "k"} <= one.keys()]
    return any(isinstance(n, int) and 4 * n > BYTES // 2 for n in areas)


def judged(path, content, original, key):
    """(figure, reason) of a file: content says what it holds, or original what it held before it was damaged."""
    import torch_hrr

    try:
        with Watch("load"):
            found = torch_hrr.load(path, key, device="cpu")
    except torch_hrr.IntegrityError:
        return "refused", ""
    except ValueError as error:
        if "embedder must be the one that the machine in" in str(error):
            return "refused", ""  # as documented: the caller lacks what the file asks for
        return "other exceptions", f"load: {traceback.format_exc()}"
    except BaseException as error:
        if isinstance(error, MemoryError) and content is not None and is_vast(content[2]):
            return "refused", ""  # as documented, too
        return "other exceptions", f"load: {traceback.format_exc()}"
    try:
        why = difference(found, content or original)
    except Exception:
        return "other exceptions", f"content: {traceback.format_exc()}"
    if why:
        return "loaded different", why
    try:
        if content is not None:
            with Watch("a call"):
                use(found)
    except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
        # The package's own errors begin with the call.
        if not re.match(r"^['\"]?\w+: ", str(error)):
            return "other exceptions", f"use: {traceback.format_exc()}"
    except BaseException:
        return "other exceptions", f"use: {traceback.format_exc()}"
    return "loaded equal", ""


def child(classes, first, count, seed, only):
    """Runs mutations, and writes where it is and what it found to the standard output."""
    import torch

    torch.set_num_threads(1)
    # A configuration may ask for it, and what it imports is more than a file may take.
    torch.compile = lambda function, *_, **__: function
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (3 << 30,) * 2)
    torch.manual_seed(seed)
    made = {name: held_by(make()) for name, make in sorted(examples().items())}
    formats = [*made]
    folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    path = pathlib.Path(folder.name) / "state"
    wanted = formats if classes == ["all"] else classes
    os.write(1, f"{json.dumps([wanted])}\n".encode())
    for name in wanted:
        files = {key: file_of(made[name], key=key) for key in (None, KEY)}
        path.write_bytes(files[None])
        if (result := judged(path, made[name], None, None)) != ("loaded equal", ""):
            raise AssertionError(f"{name} unchanged: {result[0]}, {result[1]}")
        for number in range(first, count) if only is None else [only]:
            rng = random.Random(f"{seed} {name} {number}")
            donor, content, key = made[rng.choice(formats)], None, None
            if number % 2:
                key = rng.choice((None, KEY))
                what, data = damaged(rng, files[key], file_of(donor))
            else:
                what, content = resealed(rng, made[name], donor, formats)
                data = file_of(content, old=rng.random() < 0.1)
            if data in (file_of(donor), file_of(donor, key=key)):
                content = donor
            path.write_bytes(data)
            os.write(1, f"{json.dumps([name, number, what])}\n".encode())
            signal.alarm(PATIENCE)
            result = judged(path, content, made[name], key)
            signal.alarm(0)
            os.write(1, f"{json.dumps(result)}\n".encode())
        first = 0


def run(classes, count, seed=0, only=None):
    """The figures of every class, and what failed as (class, number, mutation, figure, reason)."""
    figures, failures, first = {}, [], 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    while True:
        command = [sys.executable, __file__, "--child", json.dumps([classes, first, count, seed, only])]
        where = None
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
        ):
            for line in process.stdout:
                match json.loads(line):
                    case [[*classes]]:
                        pass
                    case [name, number, what]:
                        where, counts = (name, number, what), figures.setdefault(name, dict.fromkeys(FIGURES, 0))
                        counts["tried"] += 1
                    case [figure, reason]:
                        counts[figure] += 1
                        failures += [(*where, figure, reason)] if reason else []
                        where = None
            status = process.wait()
            errors.seek(0)
            text = errors.read().decode(errors="replace")
        if status == 0:
            return figures, failures
        if where is None:
            raise RuntimeError(text)
        counts["other exceptions"] += 1
        failures.append((*where, "other exceptions", f"the process ended with {status}: {text[-2000:]}"))
        if only is not None:
            return figures, failures
        classes, first = classes[classes.index(where[0]) :], where[1] + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=1000)
    parser.add_argument("--class", dest="classes", nargs="*", default=["all"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return 0
    figures, failures = run(options.classes, options.mutations, options.seed, options.only)
    for name, number, what, figure, reason in failures:
        lines = [f"{name} --seed {options.seed} --only {number}: {figure}, {what}", *reason.strip().splitlines()]
        print("\n    ".join(lines))
    figures["all"] = {each: sum(one[each] for one in figures.values()) for each in FIGURES}
    print(f"{'seed ' + str(options.seed):40}", *(f"{each:>17}" for each in FIGURES))
    for name, one in figures.items():
        print(f"{name:40}", *(f"{one[each]:17}" for each in FIGURES))
    if options.json:
        options.json.write_text(json.dumps({"seed": options.seed, "classes": figures}, indent=1) + "\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
