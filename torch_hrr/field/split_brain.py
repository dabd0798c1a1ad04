"""A brain whose field is too large for one device: its planes are divided among the ranks of torch.distributed."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack

import torch
import torch.distributed as dist
from torch import Tensor

from torch_hrr._checks import check_known, checked_path
from torch_hrr._compile import outside_graphs
from torch_hrr._folder import Kind, checked_save, checked_share, joined, read, share, write
from torch_hrr._random import given_or_drawn_seed
from torch_hrr._ranks import Calls, Ranks
from torch_hrr.field import functional
from torch_hrr.field.brain import BLOCK, SMALL, BrainSettings, FieldBrain, field_sizes
from torch_hrr.field.split import SplitField
from torch_hrr.io import IntegrityError, digest, files

_Result = TypeVar("_Result")
_FOLDER = Kind("SplitFieldBrain", "torch_hrr.split_field_brain", "planes", "depth")
_DIVIDED = ("_start", "field")
_Share = tuple[dict[str, Tensor], Mapping[str, Tensor], Mapping[str, Any]]
"""The planes of a rank by name, the other tensors and the metadata."""
_SETTINGS = [name for name in inspect.signature(FieldBrain.__init__).parameters if name not in ("self", "learner")]


class SplitFieldBrain(FieldBrain):
    """A `FieldBrain` of ``learner="imprint"`` divided along its field's depth: a rank holds some consecutive planes.

    Motors, metrics and the field are those of `FieldBrain` with the same seed and inputs, bit for bit, with any number
    of ranks up to D. The cycle is the same code; what it reads of the whole field comes from all ranks:

    1. the place that correlates best with the senses is the best of the ranks' best places;
    2. each rank imprints on the places in its planes, and the planes next to them travel as in `SplitField`;
    3. the means of the channels, one number a place, and the channels of the best place are gathered, so that every
       rank computes the motor of all of them, as `FieldBrain` does;
    4. so are the moments of blocks of 64 places, for the metrics.

    No sum is divided: numbers are gathered and then added up in one order. All ranks must run the same library on
    processors of one kind, with as many threads as each other, which they compare. On GPUs a place of nearly the same
    correlation may be another one with another number of ranks, since their matrix products round by size.

    A rank with d planes sends, in a cycle, two planes of the field, ``4 (H W d + C)`` bytes of means, ``16 C`` for
    every 64 of its places, ``63 C`` numbers where planes are not whole blocks, and at most 96 bytes by which ranks hear
    of failures, and compare the arguments of a call, the settings and the mode: what is wrong or other on one of them
    is an error on all, before anything changes. A rank keeps, besides its planes three times, ``5 + 5 C / 64`` numbers
    for each place of the whole field, and all that is no field: weights and the library.

    `step`, `process_robot_cycle`, `reset`, `save`, `load` and `gather` are collective: every rank must call them, with
    the same arguments. `field` is this rank's planes; settings, train and eval are of each rank, and must be the same.
    Where a rank is lost, the others get a RuntimeError: at once from gloo, else when the timeout of the group is over;
    then, and where a cycle failed on a rank, the brain is used no more. A copy is in the same group. Not divided: the
    other learner, which reads and writes a few cells in less time than a message takes, and `eager` brains. Among
    ranks nothing is compiled, exported or replayed.

    Example:
        A field of 256 x 64 x 64 places on the ranks that torchrun started::

            torch.distributed.init_process_group("gloo")
            brain = field.SplitFieldBrain(16, 5, spatial=(256, 64, 64), seed=3)
            motor, state = brain.process_robot_cycle([0.1] * 16, reward=0.5)
    """

    _unsaved = FieldBrain._unsaved | {"_split._state"}

    def __init__(
        self,
        sensory_dim: int = 16,
        motor_dim: int = 5,
        spatial: int | Sequence[int] = 32,
        channels: int = 64,
        *,
        group: dist.ProcessGroup | None = None,
        seed: int | None = None,
        **settings: Unpack[BrainSettings],
    ) -> None:
        """Draws what `FieldBrain` draws, a slice at a time, of which a rank keeps its planes.

        Args:
            sensory_dim: As for `FieldBrain`, as are the others.
            motor_dim: Number of motors.
            spatial: Edge, or depth, height and width; depth is at least the number of ranks.
            channels: At least sensory_dim + motor_dim.
            group: None means the default one; one rank without any.
            seed: None draws one on the first rank.
            **settings: Others of `FieldBrain`; `device` is one that the group communicates from.

        Raises:
            TypeError, ValueError, RuntimeError: As `FieldBrain`; there are more ranks than planes.
            ValueError: Another rank's arguments are wrong, or are not these.
        """
        op = type(self).__name__
        self._ranks = Ranks(op, group)
        self._calls = Calls(self._ranks)
        drawn = given_or_drawn_seed(op, None) if seed is None else 0
        ((drawn,), *_) = self._ranks.gathered([drawn], self._ranks.device)

        def check() -> None:
            check_known(op, "settings", settings, [*_SETTINGS, "learner"], "arguments of FieldBrain(learner='imprint')")
            checked_share(op, _FOLDER.units, field_sizes(op, spatial)[0], self._ranks.rank, self._ranks.count)
            known: Any = settings
            FieldBrain.__init__(
                self, sensory_dim, motor_dim, spatial, channels, seed=drawn if seed is None else seed, **known
            )

        # With a device without memory on one rank the others would wait for it.
        self._calls.agreed(op, check, lambda _: f"{self._settings()}, on {self.device.type}", self._ranks.device)
        make = functools.partial(SplitField, self._start, self._ranks.group)
        self._split = self._ranks.together(op, make, self._ranks.device)
        self._split.requires_grad_(False)

    @property
    def field(self) -> Tensor:
        """This rank's planes, ``[d, H, W, C]``: a view; read it again after a cycle."""
        return self._split.planes

    def reset(self) -> None:
        """As `FieldBrain.reset`.

        Raises:
            ValueError: Another rank does not call it.
        """
        self._agreed("reset", lambda: None, lambda _: "")
        super().reset()

    def gather(self) -> FieldBrain:
        """A `FieldBrain` of the same state on every rank, which must have the memory for it.

        Raises:
            ValueError: Another rank does not call it.
        """
        self._agreed("gather", lambda: None, lambda _: "")
        tensors, settings = self._content()
        whole = {name: self._split._gathered(tensors[name]) for name in _DIVIDED}
        made = FieldBrain._from_content({**tensors, **whole}, dict(settings), self.device)
        for (_, module), (_, same) in zip(made.named_modules(), self._whole_modules(), strict=True):
            module.training = same.training
        return made

    # Files

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes the brain to a folder that all ranks see: a checked file of planes a rank, and one of all else.

        The latter is replaced last, so that whenever a rank is lost, the folder holds this brain or the one before; a
        folder is for one brain. ``gather().save(path)`` writes the one file of a `FieldBrain`.

        Args:
            path: The folder; it is made where there is none.
            key: As for `FieldBrain.save`, the same on every rank, and whenever this folder is saved to.

        Raises:
            TypeError, ValueError, OSError: As `FieldBrain.save`.
            ValueError: Another rank's arguments are wrong, or are not these.
            RuntimeError: Another rank could not write; the folder holds what it did before.
        """
        self._agreed("save", lambda: checked_save(_FOLDER, path, key), str)
        tensors, metadata = self._filed()
        planes = {name: tensors[name] for name in _DIVIDED}
        small = {name: tensor for name, tensor in tensors.items() if name not in planes}
        counts = self._split._counts
        write(_FOLDER, self._ranks, path, counts, planes, {}, lambda: metadata, self.device, key, small)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = None,
        group: dist.ProcessGroup | None = None,
        **options: Any,
    ) -> Self:
        """The brain that `save`, with any number of ranks, or `FieldBrain.save` wrote; a rank reads its planes.

        Args:
            path: The folder, or the file of a `FieldBrain`, which all ranks see.
            key: The key it was saved with.
            device: Of this rank's part, as for the class.
            group: As for the class.
            **options: There are no others.

        Raises:
            torch_hrr.IntegrityError: A file is damaged, holds something else, or does not fit the key.
            ValueError: There are more ranks than planes, or the brain is of the other learner; or another rank cannot
                read it, or reads another one.
            OSError: A file cannot be read; FileNotFoundError if there is none.
        """
        ranks = Ranks(cls.__name__, group)

        def found() -> tuple[torch.device | None, _Share]:
            cls._check_options(options)
            place, name = cls._resolved(device), checked_path("load", path)
            if os.path.isdir(name):
                return place, _of_folder(name, ranks, key)
            return place, _of_file(name, ranks, key)

        def said(held: tuple[torch.device | None, _Share]) -> str:
            _, (planes, tensors, metadata) = held
            shapes = [(name, part.dtype, part.shape[1:]) for name, part in planes.items()]
            return f"{digest(tensors, metadata)} {shapes}"

        place, (planes, tensors, metadata) = ranks.agreed("load", found, said, ranks.device)
        whole = {**tensors, **planes}
        return ranks.together(
            "load", lambda: cls._made(path, whole, dict(metadata), device=place, group=ranks.group), ranks.device
        )

    @classmethod
    def _shape_here(cls, settings: Mapping[str, Any], **options: Any) -> tuple[int, ...]:
        depth, *rest = super()._shape_here(settings)
        ranks = Ranks(cls.__name__, options["group"])
        own = share(depth, ranks.rank, ranks.count)
        # A depth that is no int, or beyond all, has no length.
        return own.stop - own.start, *rest

    # Ranks

    def _agreed(self, op: str, check: Callable[[], _Result], said: Callable[[_Result], str]) -> _Result:
        def checked() -> _Result:
            if self.eager:
                raise ValueError(f"{op}: eager must be False where a field is divided among ranks, got True")
            return check()

        def told(found: _Result) -> str:
            modes = [module.training for _, module in self._whole_modules()]
            place = f"threads={torch.get_num_threads()}, {torch.backends.cpu.get_cpu_capability()}"
            return f"{said(found)}, {self._settings()}, training={modes}, key={self.key.tolist()}, {place}"

        return self._calls.agreed(op, checked, told, self.device)

    def _whole_modules(self) -> list[tuple[str, torch.nn.Module]]:
        """Those that a `FieldBrain` has, too."""
        return [(name, module) for name, module in self.named_modules() if name != "_split"]

    def _told(self, work: Callable[[], Tensor], *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """What every rank works out, a tensor of the same shape: ``[ranks, *shape]``."""
        return self._ranks.exchanged(type(self).__name__, work, shape, dtype, self.device)

    def _places(self, rank: int) -> range:
        """The places in the planes of a rank."""
        plane = self.spatial[1] * self.spatial[2]
        planes = share(self.spatial[0], rank, self._ranks.count)
        return range(planes.start * plane, planes.stop * plane)

    @property
    def _planes(self) -> range:
        return share(self.spatial[0], self._ranks.rank, self._ranks.count)

    # A cycle

    @outside_graphs
    def _step(self, op: str, sensory: Tensor, reward: Tensor | float) -> Tensor:
        return super()._step(op, sensory, reward)

    def _checked_step(self, op: str, sensory: Tensor, reward: Tensor | float) -> tuple[Tensor, Tensor]:
        check = functools.partial(super()._checked_step, op, sensory, reward)
        # Copied to memory that lies alike on every rank, by which BLAS rounds.
        given = self._input.copy_(torch.cat(self._agreed(op, check, lambda both: _said(torch.cat(both)))))
        return given[: self.sensory_dim], given[self.sensory_dim :]

    def _checked(
        self, sensory: Sequence[float] | Tensor, reward: float, terminated: bool = False, truncated: bool = False
    ) -> Tensor:
        check = functools.partial(super()._checked, sensory, reward, terminated, truncated)
        return self._agreed("process_robot_cycle", check, _said)

    def _repeated_step(self, sensory: Tensor, reward: Tensor) -> Tensor:
        return self._advanced(sensory, reward)

    @torch.no_grad()
    def _advanced(self, sensory: Tensor, reward: Tensor) -> Tensor:
        with self._calls.changing():
            return super()._advanced(sensory, reward)

    def _field_memory(self, start: Tensor) -> dict[str, Tensor]:
        # A `SplitField` holds it.
        return {}

    def _memories(self) -> tuple[Tensor, Tensor]:
        fresh = self._split._beside().narrow(-4, self._split.halo, len(self._planes))
        return self.field, fresh

    def _best(self, rows: Tensor, content: Tensor, work: Tensor) -> Tensor:
        own = self._places(self._ranks.rank)

        def best() -> Tensor:
            place = super(SplitFieldBrain, self)._best(rows, content, work)
            # Exact, as are numbers of places below 2^53.
            return torch.cat((self.pool["match"].index_select(0, place).double(), (place + own.start).double()))

        values, places = self._told(best, 2, dtype=torch.float64).unbind(1)
        return places.index_select(0, values.argmax(0, keepdim=True)).long()

    def _add(self, rows: Tensor, around: Tensor, values: Tensor) -> None:
        own = self._places(self._ranks.rank)
        inside = ((around >= own.start) & (around < own.stop))[:, None]
        # With -0 any number stays what it is.
        super()._add(rows, (around - own.start).clamp(0, len(own) - 1), torch.where(inside, values, -0.0))

    def _evolve(self, field: Tensor, fresh: Tensor) -> None:
        key = self.key if self.noise else None
        self._split.evolve(self.decay, self.diffusion, 1, self.boundary, noise=self.noise, key=key)
        functional.advance_key_(self.key, self._split.numel)

    def _mean_and_row(self, rows: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        ranks, (depth, *plane) = self._ranks.count, self.spatial
        each = [len(self._places(rank)) for rank in range(ranks)]
        own, most = self._places(self._ranks.rank), max(each)

        def read() -> Tensor:
            sent = rows.new_zeros(most + self.channels, dtype=torch.float32)
            torch.mean(rows, 1, dtype=torch.float32, out=sent[: len(rows)])
            sent[most:] = rows.index_select(0, (place - own.start).clamp(0, len(own) - 1)).squeeze(0)
            return sent

        parts, mean = self._told(read, most + self.channels), self.pool["mean"]
        torch.cat([part[:count] for part, count in zip(parts, each, strict=True)], out=mean.view(-1))
        # The rank of a plane by `share`.
        owner = ((place // (plane[0] * plane[1]) + 1) * ranks - 1) // depth
        return mean, parts[:, most:].index_select(0, owner).squeeze(0)

    def _moments(self, rows: Tensor) -> Tensor:
        """A block is of the rank that has its first place."""
        everyone, own = [self._places(rank) for rank in range(self._ranks.count)], self._places(self._ranks.rank)
        counts = [-(-places.stop // BLOCK) - -(-places.start // BLOCK) for places in everyone]
        begin = min(-own.start % BLOCK, len(own))
        whole = (len(own) - begin) // BLOCK
        end = begin + whole * BLOCK
        rest = [rows[end:]]
        if any(places.start % BLOCK for places in everyone):
            heads = self._told(
                lambda: _padded(rows[: BLOCK - 1], BLOCK - 1), BLOCK - 1, self.channels, dtype=rows.dtype
            )
            rest += [head[: len(places)] for head, places in zip(heads, everyone, strict=True)][self._ranks.rank + 1 :]

        def moments() -> Tensor:
            made = rows.new_zeros(max(counts), 4, self.channels, dtype=torch.float32)
            if whole:
                torch.ops.torch_hrr._field_moments.out(rows[begin:end], SMALL, out=made[:whole])
            if end < len(own):
                torch.ops.torch_hrr._field_moments.out(torch.cat(rest)[:BLOCK], SMALL, out=made[whole : whole + 1])
            return made

        parts, gathered = self._told(moments, max(counts), 4, self.channels), self.pool["moments"]
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)], out=gathered)


def _padded(rows: Tensor, count: int) -> Tensor:
    """So many rows, with zeros at the end."""
    padded = rows.new_zeros(count, *rows.shape[1:])
    padded[: len(rows)] = rows
    return padded


def _said(given: Tensor) -> str:
    """Numbers in a few characters, other ones for other bits."""
    return f"sensory and reward {digest({'given': given}, {})[:16]}"


def _of_folder(path: str, ranks: Ranks, key: bytes | None) -> _Share:
    """One rank's share of a folder."""

    def are_planes(tensors: Mapping[str, Tensor], said: Mapping[str, Any], count: int) -> bool:
        shapes = [each.shape for each in tensors.values()]
        return not said and {*tensors} == {*_DIVIDED} and all(len(each) == 4 and each[0] == count for each in shapes)

    pieces, whole, metadata = read(_FOLDER, path, ranks.rank, ranks.count, are_planes, key)
    return {name: joined(pieces, name) for name in _DIVIDED}, whole, metadata


def _of_file(path: str, ranks: Ranks, key: bytes | None) -> _Share:
    """One rank's share of the file of a `FieldBrain`."""
    tensors, metadata = files.open_mapped(
        path, format=FieldBrain.file_format, version=FieldBrain.file_version, key=key, op="load"
    )
    if metadata.get("learner", FieldBrain.learner) != FieldBrain.learner:
        found = metadata["learner"]
        raise ValueError(f"load: learner must be {FieldBrain.learner!r} to be divided among ranks, got {found!r}")
    if any(name not in tensors or tensors[name].dim() != 4 for name in _DIVIDED):
        raise IntegrityError(f"load: {path} must describe a FieldBrain, got tensors {sorted(tensors)}")
    planes = {}
    for name in _DIVIDED:
        whole = tensors.pop(name)
        own = checked_share("load", _FOLDER.units, len(whole), ranks.rank, ranks.count)
        planes[name] = whole[own.start : own.stop]
    return planes, tensors, metadata
