"""Layers of a level: one that never learns and one that learns by a local rule."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch._jit_internal import is_scripting

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_elements, check_finite, check_floating, check_vectors, placed, resolve_dtype
from torch_hrr._compile import outside_graphs
from torch_hrr._plain.hierarchy import activated, outputs_of
from torch_hrr._progress import interrupts_held_back
from torch_hrr._random import given_or_drawn_seed, seeded_generator
from torch_hrr._repr import DescribedModule
from torch_hrr._sharding import fill, write
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Bool, Choice, Device, Dtype, Int, Real, Seed, Spec, takes
from torch_hrr.hierarchy.functional import ACTIVATIONS, RULES, plastic_scan
from torch_hrr.runtime import resolve_device

_FAST_THETA = 1.0
"""lr tau of bcm from which theta lags behind what it should bound."""
_FACTORS = ("lr", "decay", "temperature", "losers", "power")
"""Settings that are computed with."""
# How weights are drawn.
DRAWN: dict[str, Spec] = {"seed": Seed().or_none(), "device": Device(), "dtype": Dtype().or_none()}
SIZES: dict[str, Spec] = {"input_size": Int(1), "output_size": Int(1)}
LEARN = Bool().or_none()
"""Whether a call learns; None leaves it to the mode of the modules."""


def drawn_weights(output_size: int, input_size: int, seed: int) -> Tensor:
    """``[m, n]`` from N(0, 1/n) in float32, on the CPU: the same for every device."""
    generator = seeded_generator(seed)
    drawn = torch.randn(output_size, input_size, generator=generator, device="cpu", dtype=torch.float32)
    weight: Tensor = drawn / input_size**0.5
    return weight


def rows_for(op: str, x: Tensor, weight: Tensor) -> Tensor:
    """Rows ``[..., n]`` for weights ``[m, n]``; a NumPy array's go to their device and dtype.

    ValueError for another shape, TypeError for a tensor of another dtype, RuntimeError for one on another device.
    """
    if not is_scripting():
        given = placed(op, "x", x, weight.device)
        x = given if isinstance(x, Tensor) else given.to(weight.dtype)
        check_floating(op, "x", x)
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(weight.device.type):
            raise TypeError(f"{op}: x must be {weight.dtype} as the weights, got {x.dtype}")
        if x.device != weight.device:
            raise RuntimeError(f"{op}: x must be on {weight.device} as the weights, got {x.device}")
    if x.dim() == 0 or x.shape[-1] != weight.shape[-1]:
        raise ValueError(f"{op}: x must have shape [..., {weight.shape[-1]}], got {list(x.shape)}")
    return x


def writable(module: nn.Module, name: str) -> Tensor:
    """A buffer to write to; one made in inference mode is replaced first, since nothing may write it outside."""
    buffer: Tensor = getattr(module, name)
    if buffer.is_inference() and not torch.is_inference_mode_enabled():
        buffer = buffer.clone()
        setattr(module, name, buffer)
    return buffer


@outside_graphs
@torch.no_grad()
def keep(changes: Iterable[tuple[nn.Module, Mapping[str, Any]]]) -> None:
    """Takes over what buffers and numbers of modules are to become: all of them, since SIGINT waits."""
    with interrupts_held_back():
        for module, values in changes:
            for name, value in values.items():
                if isinstance(value, Tensor):
                    write(writable(module, name), value)
                else:
                    setattr(module, name, value)


def told(module: nn.Module, learn: bool | None) -> bool | None:
    """What a module tells those in it: in eval mode not to learn, unless the call says."""
    return False if learn is None and not module.training else learn


def steady(weight: Tensor, x: Tensor) -> Tensor:
    """The weights, copied if a backward pass will read them: by then the layer may have learned."""
    return weight.clone() if x.requires_grad else weight


class Layer(DescribedModule):
    """What a level needs of a layer: sizes, and outputs for all ticks of a call.

    Attributes:
        input_size, in_features: n.
        output_size, out_features: m.
        learns: Whether `process` can change it.
        seed: Of the weights; one that was drawn if none was given.
    """

    learns = True
    _own: ClassVar[dict[str, Spec]] = {}
    """Settings of the class, which are attributes that may be written."""
    _tick_seconds = 1e-7
    """What a tick takes beside its arithmetic."""

    @takes(**SIZES, **DRAWN)
    def __init__(
        self,
        input_size: int,
        output_size: int,
        seed: int | None = None,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws ``weight``; errors bear the name of the class."""
        super().__init__()
        op = type(self).__name__
        self.in_features = self.input_size = input_size
        self.out_features = self.output_size = output_size
        self.seed = given_or_drawn_seed(op, seed)
        place, kind = resolve_device(device, op=op), resolve_dtype(op, dtype)
        check_elements(op, "the weights", (output_size, input_size))
        self.register_buffer("weight", torch.empty(output_size, input_size, device=place, dtype=kind))
        Layer.reset_parameters(self)

    def reset_parameters(self) -> None:
        """Draws the weights of the seed again, as after ``to_empty``; the layer is as a new one."""
        fill(self.weight, drawn_weights(self.output_size, self.input_size, self.seed))

    @takes(learn=LEARN)
    def process(self, ticks: Any, learn: bool | None = None) -> Tensor:
        """Outputs ``[T, m]`` or ``[T, B, m]`` for inputs ``[T, n]`` or ``[T, B, n]``, of the layer's dtype.

        With `learn`, which None leaves to the mode (`train` or `eval`), a layer that can learn does so at every tick,
        in its own dtype under autocast too.

        Raises:
            TypeError: ticks are not a floating tensor or array.
            ValueError: A shape that does not fit, NaN or infinity to learn from, or a setting or a theta that was
                changed to one that is none. The layer is unchanged.
            RuntimeError: ticks are on another device.
        """
        op = "process"
        learns = self.learning(learn)
        self.check(op)
        rows = check_vectors(op, "ticks", ticks, self.input_size, self.device, 2)
        if rows.dim() > 3 or (rows.dim() == 3 and rows.shape[1] == 0):
            shape = f"[T, {self.input_size}] or [T, B, {self.input_size}] with at least one sample"
            raise ValueError(f"{op}: ticks must have shape {shape}, got {list(rows.shape)}")
        rows = rows.to(self.dtype)
        if learns and not rows.is_meta:
            check_finite(op, "ticks", rows)
        outputs, learned = self._run(rows, learns)
        if learned:
            keep([(self, learned)])
        return outputs

    def learning(self, learn: bool | None) -> bool:
        """Whether a call learns: a layer that can, as the call says, and where it says nothing, in train mode."""
        return self.learns and (self.training if learn is None else learn)

    def _run(self, ticks: Tensor, learn: bool) -> tuple[Tensor, Mapping[str, Tensor]]:
        """`outputs`, which changes nothing yet."""
        with full_precision(ticks.device):
            return self.outputs(ticks, learn)

    def outputs(self, ticks: Tensor, learn: bool) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Of checked ticks, without autocast: the outputs, and by name what tensors of the layer are to become."""
        raise NotImplementedError

    def check(self, op: str) -> None:
        """TypeError or ValueError if a setting or the state, which may be written, would be an error in `process`."""
        for name, spec in self._own.items():
            given = getattr(self, name)
            value = spec(op, name, given)
            # Half types are computed in float32.
            if name in _FACTORS and self.dtype != torch.float64 and abs(value) > torch.finfo(torch.float32).max:
                raise ValueError(f"{op}: {name} must be finite in float32, got {value:g}")
            if value is not given:
                setattr(self, name, value)

    @property
    def dtype(self) -> torch.dtype:
        """That of the weights."""
        return self.weight.dtype

    @property
    def device(self) -> torch.device:
        """That of the weights."""
        return self.weight.device

    weight: Tensor

    def _summary(self) -> dict[str, Any]:
        return self.settings()

    def settings(self) -> dict[str, int | float | str | bool]:
        """The arguments that it was made with, but for device and dtype."""
        names = ("input_size", "output_size", "seed", *self._own)
        return {name: getattr(self, name) for name in names}


class ReactiveLayer(Layer):
    """A layer that never learns: ``y = f(W x + b)``, with W from N(0, 1/n) and b of zeros.

    Attributes:
        weight: ``[m, n]``.
        bias: ``[m]``.
        activation: f.
    """

    bias: Tensor
    learns = False
    _own: ClassVar[dict[str, Spec]] = {"activation": Choice(ACTIVATIONS)}

    @takes(**SIZES, **_own, **DRAWN)
    @writable_anywhere
    def __init__(
        self,
        input_size: int,
        output_size: int,
        activation: str = "tanh",
        seed: int | None = None,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the weights.

        Args:
            input_size: n, at least 1.
            output_size: m, at least 1.
            activation: "linear", "relu" or "tanh".
            seed: Of the weights, which are the same on every device; None draws one from torch's default generator on
                the CPU, which `torch.manual_seed` sets.
            device: None means the current one, `runtime.get_device()`.
            dtype: None means torch's default one.
        """
        super().__init__(input_size, output_size, seed, device=device, dtype=dtype)
        self.activation = activation
        self.register_buffer("bias", self.weight.new_zeros(self.output_size))

    def reset_parameters(self) -> None:
        """As of any layer; biases are 0."""
        super().reset_parameters()
        self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """``f(x W^T + b)``, ``[..., m]``; errors as of `rows_for`."""
        x = rows_for("ReactiveLayer", x, self.weight)
        return activated(nn.functional.linear(x, self.weight, self.bias), self.activation)

    def outputs(self, ticks: Tensor, learn: bool) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Outputs for all ticks, by one matrix product."""
        return self.forward(ticks), {}


class HebbianCore(Layer):
    """A layer that learns by a local rule at every tick: ``y = f(W x)`` and a rule of `plastic_scan`.

    Attributes:
        weight: ``[m, n]``, from N(0, 1/n) at first.
        theta: ``[m]`` of rule "bcm", 1 at first; empty for other rules.
        rule, lr, activation, tau, decay, normalize: As given.
    """

    theta: Tensor
    _own: ClassVar[dict[str, Spec]] = {
        "rule": Choice(tuple(rule for rule in RULES if rule != "softhebb")),
        "lr": Real(0),
        "activation": Choice(ACTIVATIONS),
        "tau": Real(1, open_left=True),
        "decay": Real(0),
        "normalize": Bool(),
    }

    @takes(**SIZES, **_own, **DRAWN)
    @writable_anywhere
    def __init__(
        self,
        input_size: int,
        output_size: int,
        rule: str = "oja",
        lr: float = 1e-3,
        activation: str = "tanh",
        seed: int | None = None,
        *,
        tau: float = 100.0,
        decay: float = 0.0,
        normalize: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the weights.

        Args:
            input_size: n, at least 1.
            output_size: m, at least 1.
            rule: "hebb", "oja", "gha", "subspace" or "bcm".
            lr: Learning rate, at least 0.
            activation: "linear", "relu" or "tanh".
            seed: Of the weights, which are the same on every device; None draws one from torch's default generator on
                the CPU, which `torch.manual_seed` sets.
            tau: Time constant of theta in ticks, above 1. From lr tau = 1 on theta lags behind the weights, which may
                oscillate: a warning.
            decay: Share of the weights, times lr, that is lost at every tick; at least 0.
            normalize: Whether rows are scaled to norm 1 after every update.
            device: None means the current one, `runtime.get_device()`.
            dtype: None means torch's default one.

        Raises:
            ValueError: ``lr`` or ``decay`` is not finite in the dtype that is computed in.
        """
        super().__init__(input_size, output_size, seed, device=device, dtype=dtype)
        self.rule, self.lr, self.activation = rule, lr, activation
        self.tau, self.decay, self.normalize = tau, decay, normalize
        super().check("HebbianCore")
        self.register_buffer("theta", self.weight.new_ones(self.output_size if self.rule == "bcm" else 0))
        self._scale_rows()
        if self.rule == "bcm" and self.lr * self.tau >= _FAST_THETA:
            warnings.warn(
                f"HebbianCore: lr * tau = {self.lr * self.tau:g} is not below {_FAST_THETA:g}: theta lags behind the "
                "weights, which may oscillate or diverge",
                RuntimeWarning,
                stacklevel=4,
            )

    def _scale_rows(self) -> None:
        if self.normalize:
            self.weight /= self.weight.norm(dim=1, keepdim=True)

    def reset_parameters(self) -> None:
        """As of any layer; theta is 1."""
        super().reset_parameters()
        self._scale_rows()
        self.theta.fill_(1)

    def forward(self, x: Tensor) -> Tensor:
        """``f(x W^T)``, ``[..., m]``, without learning; of bcm never negative. Errors as of `rows_for`."""
        x = rows_for("HebbianCore", x, self.weight)
        return outputs_of(x, steady(self.weight, x), self.rule, self.activation)

    def check(self, op: str) -> None:
        """As for a new layer; ValueError unless theta is finite and above 0, if the CPU holds it and nothing traces."""
        super().check(op)
        if self.rule != "bcm" or self.theta.device.type != "cpu" or torch.compiler.is_compiling():
            return
        if not bool(((self.theta > 0) & self.theta.isfinite()).all()):
            raise ValueError(f"{op}: theta must be finite and above 0, got {self.theta.min().item():g}")

    def outputs(self, ticks: Tensor, learn: bool) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Outputs for all ticks; with `learn` weights and theta change at every one of them, else nothing does."""
        if not learn:
            return self.forward(ticks), {}
        with torch.no_grad():
            outputs, weight, theta = plastic_scan(
                ticks,
                self.weight,
                self.rule,
                self.lr,
                self.activation,
                1,
                self.theta if self.rule == "bcm" else None,
                self.tau,
                self.decay,
                self.normalize,
            )
        return outputs, {"weight": weight, "theta": theta}
