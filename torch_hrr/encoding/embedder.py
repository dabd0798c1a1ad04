"""Tokens and their positions as vectors: a table of rows plus sinusoids, configured, saved and measured."""

import copy
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._jit_internal import is_scripting
from torch.utils.checkpoint import checkpoint

from torch_hrr._checks import check_data, integer, named, positive, strided
from torch_hrr._plain import encoding as plain_encoding
from torch_hrr._repr import DescribedModule
from torch_hrr._sharding import beside, fill, is_divided, rows_on_every_rank
from torch_hrr._spec import Bool, Dtype, Generator, Instance, Int, Real, takes
from torch_hrr.encoding.acceleration import Accelerator, ladder
from torch_hrr.encoding.config import SinusoidalConfig
from torch_hrr.encoding.conventions import CONVENTIONS, ConventionName, counted, rows_of
from torch_hrr.encoding.relative import RelativePositionBias, attention_weights
from torch_hrr.encoding.tables import MappedTable
from torch_hrr.io import Saveable
from torch_hrr.io.saveable import check_shape
from torch_hrr.runtime.device import resolve_device_or_cpu

_MEGABYTE = 2**20


class LearnableFrequencies(DescribedModule):
    """Frequencies as a parameter, which starts at the ladder ``scale base^(-2i/dim)`` and is never in a half type.

    Attributes:
        weight: ``[ceil(dim / 2)]``, the frequencies or their logarithms.
    """

    log: Final[bool]

    @takes(dim=Int(0), base=Real(0, open_left=True), scale=Real(), log=Bool(), dtype=Dtype())
    def __init__(self, dim: int, base: float, scale: float, log: bool, dtype: torch.dtype) -> None:
        """Starts at ``scale base^(-2i/dim)``; ValueError for the logarithm of a scale that is not above 0."""
        super().__init__()
        self.log = log
        self._ladder = dim, base, positive(type(self).__name__, "scale", scale) if log else scale
        self.weight = nn.Parameter(torch.empty((dim + 1) // 2, dtype=dtype, device="cpu"))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The frequencies of the ladder again, as after ``to_empty``."""
        start = ladder(*self._ladder, torch.float64)
        fill(self.weight, start.log() if self.log else start)

    def _summary(self) -> dict[str, Any]:
        return {"frequencies": self.weight.shape[0], "log": self.log}

    def forward(self) -> Tensor:
        """The frequencies."""
        # In double: an error of the exponential would be one of the frequency, times the position.
        return self.weight.double().exp() if self.log else self.weight

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves and converts as `nn.Module` does, but never to a half type, which would change the frequencies."""

        def widened(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            halved = changed.dtype in (torch.float16, torch.bfloat16)
            return tensor.to(changed.device) if halved else changed

        nn.Module._apply(self, widened, recurse)
        return self


class ConfigurableSinusoidalEmbedder(Saveable, DescribedModule):
    """Embeds tokens: ``(table[token] + sinusoidal_encoding(position)) / temperature``, zero rows for padding.

    By default it is one fused pass, `embed_positions`, whose encoding is exact at any position and in any dtype;
    positions count from 0 along the last dimension of the ids unless they are given. Input ``[..., L]``, int32 or
    int64, from any device; output ``[..., L, dim]`` on the module's device. Angles are never computed in a half type,
    whatever the dtype of the module, its table or autocast. It is an ordinary module: it can be trained, compiled,
    exported and, unless its table is mapped, scripted; `torch.func.vmap` maps the parameters of an ensemble and, unless
    the table is mapped, ids.

    Attributes:
        config: Its configuration.
        accelerator: Device, precision, memory and profile.
        weight: The table ``[V, dim]``, a parameter drawn from N(0, 1) with zeros at padding; None with a mapped table.
        table: The mapped table or None.
        frequencies: `LearnableFrequencies` or None.
        relative_bias: `RelativePositionBias` or None.

    Source: Vaswani et al., Attention is all you need, NeurIPS 2017, sections 3.4 and 3.5.
    """

    file_format = "torch_hrr.sinusoidal_embedder"

    weight: Tensor | None
    result_dtype: torch.dtype | None
    # So that a script leaves out what is not used.
    __constants__ = ("vectorized",)

    @takes(
        config=Instance(SinusoidalConfig).or_none(),
        table=Instance(MappedTable).or_none(),
        generator=Generator(),
        convention=ConventionName().or_none(),
    )
    def __init__(
        self,
        config: SinusoidalConfig | None = None,
        table: MappedTable | None = None,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | int | None = None,
        convention: str | None = None,
    ) -> None:
        """Draws the table, on the CPU, so that a generator gives the same one on every device.

        Args:
            config: None means `SinusoidalConfig()`.
            table: A table in a file in place of the parameter; its shape must be the configuration's.
            generator: A CPU generator; None draws from torch's default one.
            device: The device, as for `runtime.set_device`; None means a GPU, if the configuration allows one, one
                works and the library has kernels for it, else the CPU.
            convention: That of the configuration; None leaves it as it is.

        Raises:
            ValueError: The table's shape is not ``[vocab_size, embedding_dim]``, or torch does not know the device.
        """
        super().__init__()
        name = type(self).__name__
        config = SinusoidalConfig() if config is None else config
        config = config if convention is None else replace(config, convention=convention)
        if table is not None:
            if table.shape != (config.vocab_size, config.embedding_dim):
                wanted = [config.vocab_size, config.embedding_dim]
                raise ValueError(f"{name}: table must have shape {wanted}, got {list(table.shape)}")
            device = table.device if device is None else device
        where = None if device is None else resolve_device_or_cpu(device, op=name)
        self.accelerator = Accelerator(config.acceleration(), where)
        self.table = table
        self._configure(config)
        weight, place = None, "meta" if self.accelerator.device.type == "meta" else "cpu"
        if table is None:
            weight = self._drawn(config, config.dtype, generator, place)
        self.register_parameter("weight", None if weight is None else nn.Parameter(weight))
        self.frequencies = self._new_frequencies()
        window = config.relative_position_window
        self.relative_bias = RelativePositionBias(window, device=place) if config.use_relative_position else None
        self.to(self.accelerator.device)
        self._compile_if_asked()

    @takes(generator=Generator())
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the table anew, as after ``to_empty``; frequencies are the ladder again, and biases 0."""
        if self.weight is not None:
            fill(self.weight, self._drawn(self.config, self.config.dtype, generator))
        if self.frequencies is not None:
            self.frequencies.reset_parameters()
        if self.relative_bias is not None:
            self.relative_bias.reset_parameters()

    def forward(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """Embeds.

        Args:
            ids: ``[..., L]``, int32 or int64, 0 to V - 1.
            positions: Any integer or floating dtype, broadcast with ``ids``; None means 0 to L - 1.

        Returns:
            ``[..., L, dim]``, in the module's dtype; with mixed precision in the half type of the policy; under
            autocast in its dtype.

        Raises:
            IndexError: A token is outside 0 to V - 1, on the CPU. On a GPU its row is NaN.
            TypeError, ValueError, RuntimeError: An argument that is not a tensor, ids without a dimension; else as for
                `embed_positions`.
        """
        if not is_scripting():
            checked: Tensor = self._checked(ids, positions)
            return checked
        return self._embed(ids, positions)

    def embed(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        """The same as calling the module."""
        embedded: Tensor = self(ids, positions)
        return embedded

    @torch.jit.unused
    def _checked(self, ids: Any, positions: Any) -> Tensor:
        """`_embed` of tensors or arrays, whose errors are in the name of `embed`."""
        op, device = "embed", self._device()
        ids = strided(op, "ids", ids)
        if ids.dim() == 0:
            raise ValueError(f"{op}: ids must have shape [..., L], got a number")
        if positions is not None:
            positions = strided(op, "positions", positions)
        if device.type != "meta":
            check_data(op, "ids", ids)
            if positions is not None:
                check_data(op, "positions", positions)
        with named("embed_positions", op, tokens="ids"):
            # The transforms of torch.func refuse checkpoints: they have ended when a backward pass would compute again.
            # torch cannot export a checkpoint strictly, and otherwise leaves it out.
            refused = torch._C._are_functorch_transforms_active() or torch.compiler.is_exporting()
            if self.checkpointed and torch.is_grad_enabled() and not refused:
                again: Tensor = checkpoint(self._embed, ids, positions, use_reentrant=False)
                return again
            return self._embed(ids, positions)

    def _embed(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        padding, weight = self.padding, self.weight
        if self.table is not None:
            # The different rows of this call are a small table, and the ids numbers of its rows.
            tokens, weight, ids = self.table._gathered("embed", ids)
            padding = _place_of(padding, tokens)
            if self.result_dtype is None:
                weight = weight.to(self.config.dtype)
        assert weight is not None
        if not is_scripting():
            if is_divided(weight):
                tokens, weight, ids = rows_on_every_rank("embed", ids, weight)
                padding = _place_of(padding, tokens)
        ids = ids.to(weight.device)
        if positions is not None:
            positions = positions.to(weight.device)
        # Who gives positions may give that of padding to another token.
        whole = self.whole and not (self.pads and positions is not None)
        if self.conventional:
            positions = self._places(ids, positions, padding)
        if self.vectorized and self.frequencies is None and whole:
            return self._fused(ids, weight, positions, padding)
        return self._composed(ids, weight, positions, padding)

    def _places(self, ids: Tensor, positions: Tensor | None, padding: int) -> Tensor:
        """Positions as the convention counts them; padding is one before the first."""
        if positions is not None:
            return positions if self.first == 0 else counted(positions, self.first)
        if self.skips and padding >= 0:
            held = ids != padding
            return held.cumsum(-1) * held + (self.first - 1)
        return self._steps(ids, self.first)

    def _steps(self, ids: Tensor, first: int) -> Tensor:
        """Positions along the last dimension of the ids."""
        steps = torch.arange(first, first + ids.shape[-1], device=ids.device)
        if not is_scripting():
            distributed: Tensor = beside(steps, ids)
            return distributed
        return steps

    def _fused(self, ids: Tensor, weight: Tensor, positions: Tensor | None, padding: int) -> Tensor:
        """`embed_positions` with this embedder's settings."""
        embedded: Tensor = torch.ops.torch_hrr.embed_positions(
            ids,
            weight,
            positions,
            padding,
            self.temperature,
            self.base,
            self.scale,
            self.phase,
            self.layout,
            self.result_dtype,
        )
        return embedded

    def _composed(self, ids: Tensor, weight: Tensor, positions: Tensor | None, padding: int) -> Tensor:
        """The definition step by step: with frequencies of its own, or in plain torch."""
        # What the operator checks, and its dtype, under autocast too: it is asked for no columns.
        dtype = self._fused(ids, weight[:, :0], positions, padding).dtype
        if positions is None:
            positions = self._steps(ids, 0)
        wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
        dim = weight.shape[-1]
        if self.frequencies is None:
            if self.vectorized:
                waves = torch.ops.torch_hrr.sinusoidal_encoding(
                    positions, self.columns, self.base, self.scale, self.phase, self.layout, wide
                )
            else:
                waves = plain_encoding.sinusoidal_encoding(
                    positions, self.columns, self.base, self.scale, self.phase, self.layout, wide
                )
            if self.columns < dim:
                waves = F.pad(waves, (0, dim - self.columns))
            if self.amplitude != 1.0:
                waves = waves * self.amplitude
            if self.pads:
                waves = waves.masked_fill((positions == self.first - 1).unsqueeze(-1), 0.0)
        else:
            held = self.frequencies()
            shift = torch.full_like(held, self.phase) if self.phase != 0.0 else None
            if self.vectorized:
                waves = torch.ops.torch_hrr.sinusoidal_features(positions, held, shift, self.layout, wide)
            else:
                waves = plain_encoding.sinusoidal_features(positions, held, shift, self.layout, wide)
        # An odd width has no last cosine.
        waves = waves[..., :dim]
        embedded = F.embedding(ids, weight).to(wide) + waves
        if self.temperature != 1.0:
            embedded = embedded / self.temperature
        if padding >= 0:
            embedded = embedded.masked_fill((ids == padding).unsqueeze(-1), 0.0)
        result: Tensor = embedded.to(dtype)
        return result

    def attention_weights(self, query: Tensor, key: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """`attention_weights` with this embedder's bias by i - j, if it has one; the last query is at the last key.

        Arguments and errors as there. Leading dimensions of queries and keys are the batch.
        """
        bias = None
        if self.relative_bias is not None:
            query, key = strided("attention_weights", "query", query), strided("attention_weights", "key", key)
            if query.dim() >= 2 and key.dim() >= 2:
                queries, keys = query.shape[-2], key.shape[-2]
                bias = self.relative_bias(queries, keys, keys - queries)[0]
        return attention_weights(query, key, mask, bias, causal)

    @takes(vocab_size=Int(1), generator=Generator())
    def adapt_to_vocabulary(self, vocab_size: int, generator: torch.Generator | None = None) -> None:
        """Changes the number of tokens: kept tokens keep their rows, rows of new tokens are drawn.

        The parameter is a new one, which existing optimizers do not know.

        Raises:
            ValueError: ``vocab_size`` leaves padding out, or the table is mapped, divided among ranks or without data.
        """
        op = "adapt_to_vocabulary"
        least = 1 if self.config.padding_id is None else self.config.padding_id + 1
        self._adapt({"vocab_size": integer(op, "vocab_size", vocab_size, least)}, op, generator)

    @takes(embedding_dim=Int(1), generator=Generator())
    def adapt_embedding_dimension(self, embedding_dim: int, generator: torch.Generator | None = None) -> None:
        """Changes the width: rows keep their first elements, new ones are drawn.

        Frequencies depend on the width and start at the new ladder. Parameters are new ones, and errors are as for
        `adapt_to_vocabulary`.
        """
        self._adapt({"embedding_dim": embedding_dim}, "adapt_embedding_dimension", generator)

    def _adapt(self, sizes: dict[str, Any], op: str, generator: torch.Generator | None) -> None:
        if self.weight is None:
            raise ValueError(f"{op}: table must be a parameter, got a mapped one")
        if hasattr(self.weight, "placements"):
            raise ValueError(f"{op}: table must be on one rank, got a DTensor")
        check_data(op, "table", self.weight)
        with named("SinusoidalConfig", op):
            config = replace(self.config, **sizes)
        before = self.weight.detach()
        weight = self._drawn(config, before.dtype, generator)
        rows, columns = (min(both) for both in zip(weight.shape, before.shape, strict=True))
        weight[:rows, :columns] = before[:rows, :columns].to("cpu")
        same_width = config.embedding_dim == self.config.embedding_dim
        self._configure(config)
        self.weight = nn.Parameter(weight.to(before.device), requires_grad=self.weight.requires_grad)
        fresh = None if same_width else self._new_frequencies()
        if fresh is not None and self.frequencies is not None:
            known = self.frequencies.weight
            self.frequencies = fresh.to(known.device, known.dtype).requires_grad_(known.requires_grad)

    def get_gpu_acceleration_info(self) -> dict[str, Any]:
        """What the embedder uses: `Accelerator.info`, the device and the bytes of its parameters.

        ``gpu_acceleration_enabled`` says whether the embedder is on a GPU now, ``mixed_precision`` whether results are
        in another dtype than the table's.
        """
        device = self._device()
        return {
            **self.accelerator.info(),
            "gpu_acceleration_enabled": device.type == "cuda",
            "device": str(device),
            "mixed_precision": self.result_dtype not in (None, self._table_dtype()),
            "parameter_bytes": sum(parameter.nbytes for parameter in self.parameters()),
            "cache_hit_rate": None if self.table is None else self.table.hit_rate,
        }

    @takes(batch_size=Int(1), seq_length=Int(1), num_iterations=Int(1))
    def benchmark_gpu_performance(
        self, batch_size: int = 32, seq_length: int = 128, num_iterations: int = 100
    ) -> dict[str, Any]:
        """Times forward passes of random tokens, and the same in plain torch on the same device.

        Both run without gradients; plain torch computes angles in float64, as it must to be right at large positions.
        Torch's default generator is not used.

        Returns:
            ``ms`` per pass, ``tokens_per_second``, ``plain_ms``, ``speedup`` = plain_ms / ms, ``batch_size``,
            ``seq_length``, ``device``, ``gpu_acceleration_enabled``; with ``enable_profiling``, ``profile`` as
            `Accelerator.stop_profiling` returns it, unless a recording is under way, which then holds these passes.
        """
        # Imported here: it looks for CUDA's compiler, and warns on every machine that has one but no GPU.
        from torch.utils import benchmark

        device = self._device()
        generator = torch.Generator().manual_seed(0)
        size = (batch_size, seq_length)
        ids = torch.randint(self.config.vocab_size, size, generator=generator, device="cpu").to(device)

        def milliseconds(function: Callable[[Tensor], Tensor]) -> float:
            arguments = {"function": function, "ids": ids}
            timer = benchmark.Timer("function(ids)", globals=arguments, num_threads=torch.get_num_threads())
            return 1e3 * timer.timeit(num_iterations).mean

        peer = copy.copy(self)
        peer.vectorized = False
        peer._compiled_call_impl = None
        with torch.no_grad():
            self(ids)
            fused, plain = milliseconds(self), milliseconds(peer)
            result: dict[str, Any] = {
                "ms": fused,
                "tokens_per_second": 1e3 * batch_size * seq_length / fused,
                "plain_ms": plain,
                "speedup": plain / fused,
                "batch_size": batch_size,
                "seq_length": seq_length,
                "device": str(device),
                "gpu_acceleration_enabled": device.type == "cuda",
            }
            if self.accelerator.config.enable_profiling and not self.accelerator.profiling:
                self.accelerator.start_profiling()
                self(ids)
                result["profile"] = self.accelerator.stop_profiling()
        return result

    @takes(available_memory_mb=Real(0).or_none(), sequence_length=Int(1).or_none(), training=Bool())
    def optimize_for_gpu(
        self, available_memory_mb: float | None = None, sequence_length: int | None = None, training: bool = True
    ) -> dict[str, Any]:
        """Advice on batch sizes: how many sequences fit, computed from length, width and dtype.

        This counts ids, results, temporaries of the forward pass and, in training, of the backward pass, and the
        parameters with their gradients, but not the rest of a model nor an optimizer's state.

        Args:
            available_memory_mb: Memory to count on, in units of 2^20 bytes; None means the memory actually free now.
            sequence_length: None means ``max_sequence_length``.
            training: Whether gradients are needed.

        Returns:
            ``optimal_batch_size`` (0 if not one sequence fits), ``sequence_bytes``, ``fixed_bytes``,
            ``available_memory_mb``, ``sequence_length``, ``dtype``, and ``recommendations``: settings that would let
            more fit, in words.
        """
        length = self.config.max_sequence_length if sequence_length is None else sequence_length
        fixed = sum(p.nbytes * (2 if training and p.requires_grad else 1) for p in self.parameters())
        dtype = self.result_dtype or self._table_dtype()
        sequence = self._sequence_bytes(length, dtype, training)
        if available_memory_mb is None:
            memory = self.accelerator.available_memory()
        else:
            memory = int(min(available_memory_mb, 2.0**42) * _MEGABYTE)
        batch = self.accelerator.optimal_batch_size(sequence, fixed, memory)
        advice = []
        if not self.vectorized:
            advice.append("use_vectorized_operations=True computes in one pass without temporaries")
        if dtype == torch.float32:
            halved = self._sequence_bytes(length, torch.bfloat16, training)
            more = self.accelerator.optimal_batch_size(halved, fixed, memory)
            advice.append(f"use_mixed_precision=True lets {more} sequences fit in place of {batch}")
        return {
            "optimal_batch_size": batch,
            "sequence_bytes": sequence,
            "fixed_bytes": fixed,
            "available_memory_mb": memory / _MEGABYTE,
            "sequence_length": length,
            "dtype": str(dtype).removeprefix("torch."),
            "recommendations": advice,
        }

    def _sequence_bytes(self, length: int, dtype: torch.dtype, training: bool) -> int:
        """Ids, results and what is live beside them at the most, as measured: a test holds it."""
        wide = 8 if self._table_dtype() == torch.float64 else 4
        if training:
            # The result, its gradient, and two steps on the way back.
            element = 2 * dtype.itemsize + 2 * wide
        else:
            fused = self.vectorized and self.whole and self.frequencies is None
            element = dtype.itemsize if fused else 2 * wide
        return length * (8 + self.config.embedding_dim * element)

    def enable_gpu_profiling(self) -> None:
        """Records every operator from now on, until `disable_gpu_profiling`."""
        self.accelerator.start_profiling()

    def disable_gpu_profiling(self, trace: str | os.PathLike[str] | None = None) -> dict[str, dict[str, float]]:
        """What was recorded since `enable_gpu_profiling`, as `Accelerator.stop_profiling` returns it."""
        return self.accelerator._profiled("disable_gpu_profiling", trace)

    def save_config(self, path: str | os.PathLike[str]) -> None:
        """Writes the configuration to a file that `SinusoidalConfig.load` and `load_config` read.

        Errors as of `save`.
        """
        if self.table is not None:
            self.table.check_apart("save_config", path)
        with named("save", "save_config"):
            self.config.save(path)

    @classmethod
    def load_config(
        cls,
        path: str | os.PathLike[str],
        table: MappedTable | None = None,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | int | None = None,
    ) -> Self:
        """A new embedder with the configuration in a file, its table drawn anew; errors as `SinusoidalConfig.load`."""
        with named("load", "load_config"):
            config = SinusoidalConfig.load(path)
        return cls(config, table, generator=generator, device=device)

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """As `Saveable.save`; a mapped table stays in its own file, and its path is a ValueError."""
        if self.table is not None:
            self.table.check_apart("save", path)
        super().save(path, key)

    def _settings(self) -> dict[str, Any]:
        return {"config": self.config.to_metadata()}

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = None,
        table: MappedTable | None = None,
        **options: Any,
    ) -> Self:
        """As `Saveable.load`; ``table`` is the mapped table, if the embedder had one, which stays in its own file."""
        return super().load(path, key, device=device, table=table, **options)

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        table: MappedTable | None = options["table"]
        if ("weight" in tensors) is not (table is None):
            raise ValueError(
                "no table: give the mapped one as table=" if table is None else "a table beside the given one"
            )
        config = SinusoidalConfig.from_metadata(metadata["config"])
        if table is None:
            check_shape(tensors, "weight", (config.vocab_size, config.embedding_dim))
        embedder = cls(config, table, device="meta")
        embedder.load_state_dict(tensors, assign=True)
        embedder.accelerator = Accelerator(config.acceleration(), device if table is None else table.device)
        return embedder.to(embedder.accelerator.device)

    def _summary(self) -> dict[str, Any]:
        own = {"vocab_size": self.config.vocab_size, "embedding_dim": self.config.embedding_dim, "layout": self.layout}
        return own | ({} if self.table is None else {"mapped": True})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What was compiled is not part of a copy."""
        nn.Module.__setstate__(self, state)
        self._compile_if_asked()

    def _configure(self, config: SinusoidalConfig) -> None:
        """Fields that the forward pass reads, as TorchScript can."""
        acceleration = self.accelerator.config
        self.config = config
        self.vectorized = acceleration.vectorize
        self.checkpointed = config.gradient_checkpointing
        self.padding = -1 if config.padding_id is None else config.padding_id
        self.temperature = config.temperature
        self.columns, self.base = config.embedding_dim, config.base_frequency
        self.scale, self.phase, self.layout = config.frequency_scaling, config.phase_shift, config.layout
        self.conventional, self.first, self.amplitude = config.convention is not None, 0, 1.0
        self.pads = self.skips = False
        if config.convention is not None:
            entry = CONVENTIONS[config.convention]
            [(self.columns, self.base)] = rows_of(type(self).__name__, entry, config.embedding_dim)
            self.scale, self.phase, self.layout = entry.scale, entry.phase, entry.layout
            self.pads, self.skips = entry.padding != "", entry.padding == "skipped"
            self.first = config.padding_id + 1 if self.pads and config.padding_id is not None else int(entry.first)
            self.amplitude = config.embedding_dim**-0.5 if entry.scaled else 1.0
        # What the fused pass adds.
        self.whole = self.columns == config.embedding_dim and self.amplitude == 1.0
        # None leaves it to the table, and to autocast.
        self.result_dtype = None if config.precision == "float64" else acceleration.compute_dtype
        if self.table is not None and self.result_dtype is None and config.dtype.itemsize < 4:
            self.result_dtype = config.dtype

    def _new_frequencies(self) -> LearnableFrequencies | None:
        config = self.config
        if not config.learnable_frequencies:
            return None
        dtype = torch.float64 if config.precision == "float64" else torch.float32
        scale, log = config.frequency_scaling, config.log_frequency
        return LearnableFrequencies(config.embedding_dim, config.base_frequency, scale, log, dtype)

    @staticmethod
    def _drawn(
        config: SinusoidalConfig, dtype: torch.dtype, generator: torch.Generator | None, place: str = "cpu"
    ) -> Tensor:
        """A table from N(0, 1), without numbers on the meta device; the row of the padding is 0."""
        table = torch.empty(config.vocab_size, config.embedding_dim, dtype=dtype, device=place)
        if place != "meta":
            table.normal_(generator=generator)
            if config.padding_id is not None and config.padding_id < len(table):
                table[config.padding_id] = 0
        return table

    def _compile_if_asked(self) -> None:
        if self.accelerator.config.enable_xla:
            self.compile()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """The accelerator goes where the table goes."""
        nn.Module._apply(self, fn, recurse)
        if self.weight is not None and self.weight.device not in (self.accelerator.device, torch.device("meta")):
            self.accelerator._work_on(self.weight.device)
        return self

    def _table_dtype(self) -> torch.dtype:
        return self.config.dtype if self.weight is None else self.weight.dtype

    def _device(self) -> torch.device:
        return self.accelerator.device if self.weight is None else self.weight.device


def _place_of(padding: int, tokens: Tensor) -> int:
    """The place of the padding among the different tokens of a call; -1 for none."""
    place = (tokens == padding).nonzero()
    return int(place[0, 0]) if len(place) else -1
