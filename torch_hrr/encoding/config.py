"""The configuration of a sinusoidal embedder, checked when it is made and saved to files."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._checks import check_elements
from torch_hrr._repr import Described
from torch_hrr._spec import Bool, Choice, Instance, Int, Real, takes
from torch_hrr.encoding.acceleration import GPUConfig
from torch_hrr.encoding.conventions import CONVENTIONS, ConventionName
from torch_hrr.encoding.functional import check_settings
from torch_hrr.encoding.rotary import LAYOUTS
from torch_hrr.io import Saveable

PRECISIONS = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


@takes(
    vocab_size=Int(1),
    embedding_dim=Int(1),
    max_sequence_length=Int(1),
    base_frequency=Real(0, open_left=True),
    frequency_scaling=Real(),
    phase_shift=Real(),
    layout=Choice(LAYOUTS),
    temperature=Real(),
    padding_id=Int(0).or_none(),
    learnable_frequencies=Bool(),
    log_frequency=Bool(),
    use_relative_position=Bool(),
    relative_position_window=Int(1),
    precision=Choice(PRECISIONS),
    use_mixed_precision=Bool(),
    gradient_checkpointing=Bool(),
    enable_gpu_acceleration=Bool(),
    use_vectorized_operations=Bool(),
    enable_xla_compilation=Bool(),
    gpu_config=Instance(GPUConfig).or_none(),
    convention=ConventionName().or_none(),
)
@dataclass(frozen=True, repr=False)
class SinusoidalConfig(Described, Saveable):
    """The settings of a `ConfigurableSinusoidalEmbedder`; every field is checked when the object is made.

    Attributes:
        vocab_size: Number of tokens V, at least 1.
        embedding_dim: Width of a row, at least 1.
        max_sequence_length: The length assumed in advice on batch sizes. Longer sequences are embedded as well: there
            is no table of positions.
        base_frequency: Ratio of the ladder ``f_i = frequency_scaling base_frequency^(-2i/dim)``, above 0.
        frequency_scaling: Factor of all frequencies.
        phase_shift: Added to every angle, in radians.
        layout: "interleaved" or "half", as for `sinusoidal_encoding`.
        temperature: Divisor of token plus encoding, not 0.
        padding_id: The token whose rows are zero; None means none.
        learnable_frequencies: Whether the frequencies are a parameter, which starts at the ladder. By default they stay
            on the ladder: the gradient with respect to a frequency grows with the position.
        log_frequency: Whether that parameter is the logarithm, so that a step changes a frequency by a factor; needs
            ``frequency_scaling`` above 0.
        use_relative_position: Whether the embedder has a learned bias by i - j, which its `attention_weights` adds.
        relative_position_window: The largest distance with a weight of its own.
        precision: Dtype of table and results: "float32", "float64", "float16" or "bfloat16".
        use_mixed_precision: Whether results are in the half type of the policy of ``gpu_config``.
        gradient_checkpointing: Whether a backward pass recomputes the embedding instead of keeping what it needs. The
            fused operator keeps only token ids; plain torch keeps sinusoids. Under torch.func everything is kept.
        enable_gpu_acceleration: Whether the embedder is made on the current device if that is an accelerator, else on
            the CPU.
        use_vectorized_operations: Whether to use the fused operators; False uses their definitions in plain torch.
        enable_xla_compilation: Whether the embedder runs through torch.compile.
        gpu_config: Further settings of the GPU; None means `GPUConfig()`.
        convention: A key of `CONVENTIONS` for sequences: the encoding is that of this library, in place of the four
            fields that describe one, which then stay as they are by default, like ``learnable_frequencies``. Where
            the library counts positions from its padding, the first one is ``padding_id + 1``.
    """

    file_format = "torch_hrr.sinusoidal_config"

    vocab_size: int = 10000
    embedding_dim: int = 128
    max_sequence_length: int = 512
    base_frequency: float = 10000.0
    frequency_scaling: float = 1.0
    phase_shift: float = 0.0
    layout: str = "interleaved"
    temperature: float = 1.0
    padding_id: int | None = 0
    learnable_frequencies: bool = False
    log_frequency: bool = False
    use_relative_position: bool = False
    relative_position_window: int = 64
    precision: str = "float32"
    use_mixed_precision: bool = False
    gradient_checkpointing: bool = False
    enable_gpu_acceleration: bool = True
    use_vectorized_operations: bool = True
    enable_xla_compilation: bool = False
    gpu_config: GPUConfig | None = None
    convention: str | None = None

    def __post_init__(self) -> None:
        """What fields ask of one another; ValueError."""
        op = "SinusoidalConfig"
        wide = torch.float64 if self.precision == "float64" else torch.float32
        divisor = torch.tensor(self.temperature, dtype=wide, device="cpu").item()
        if not 0 < abs(divisor) < math.inf:
            raise ValueError(f"{op}: temperature must be finite and not 0 in {wide}, got {self.temperature}")
        check_elements(op, "the table", (self.vocab_size, self.embedding_dim))
        check_settings(op, self.embedding_dim, self.base_frequency, self.frequency_scaling, self.phase_shift)
        if self.padding_id is not None and self.padding_id >= self.vocab_size:
            raise ValueError(f"{op}: padding_id must be below vocab_size = {self.vocab_size}, got {self.padding_id}")
        if self.log_frequency and not self.learnable_frequencies:
            raise ValueError(f"{op}: log_frequency must be False without learnable_frequencies, got True")
        if self.log_frequency and self.frequency_scaling <= 0:
            raise ValueError(
                f"{op}: frequency_scaling must be above 0 with log_frequency, got {self.frequency_scaling}"
            )
        if self.convention is not None:
            self._check_convention(op, self.convention)

    def _check_convention(self, op: str, name: str) -> None:
        entry = CONVENTIONS[name]
        if len(entry.axes) > 1:
            raise ValueError(f"{op}: convention must be one of sequences, got {name!r}, whose axes are {entry.axes}")
        for field in ("base_frequency", "frequency_scaling", "phase_shift", "layout", "learnable_frequencies"):
            usual, got = getattr(type(self), field), getattr(self, field)
            if got != usual:
                raise ValueError(f"{op}: {field} must be {usual!r} with a convention, got {got!r}")
        if self.embedding_dim % 2 and entry.odd in ("error", "more", "fewer"):
            raise ValueError(f"{op}: embedding_dim must be even in {name}, got {self.embedding_dim}")

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype of ``precision``."""
        return PRECISIONS[self.precision]

    def acceleration(self) -> GPUConfig:
        """``gpu_config`` together with the switches of this configuration."""
        given = self.gpu_config or GPUConfig()
        return dataclasses.replace(
            given,
            enable_gpu=given.enable_gpu and self.enable_gpu_acceleration,
            enable_mixed_precision=given.enable_mixed_precision or self.use_mixed_precision,
            enable_xla=given.enable_xla or self.enable_xla_compilation,
            vectorize=given.vectorize and self.use_vectorized_operations,
        )

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, self.to_metadata()

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        if tensors:
            raise ValueError("tensors")
        return cls.from_metadata(metadata)

    def to_metadata(self) -> dict[str, Any]:
        """The fields as JSON can hold them, for the metadata of a file."""
        fields = dataclasses.asdict(self)
        # So that versions of before read what they know.
        return {name: value for name, value in fields.items() if name != "convention" or value is not None}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> Self:
        """The configuration from which `to_metadata` made this; TypeError or ValueError if there is none."""
        fields = dict(metadata)
        if fields.get("gpu_config") is not None:
            fields["gpu_config"] = GPUConfig(**fields["gpu_config"])
        return cls(**fields)
