"""`TorchBrain`: a brain under the names of an older program, trained by gradients of losses on assemblies."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from torch_hrr._checks import listed
from torch_hrr._repr import Described, DescribedModule
from torch_hrr._shared import CopiedWhole, lock_public_calls, locked
from torch_hrr._spec import Bool, Choice, Instance, Real, Seed, takes
from torch_hrr.assembly import Brain, assembly_loss, k_winners
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly import _external as rounding
from torch_hrr.assembly._checkpoint import unchanged_by_errors
from torch_hrr.assembly._memory import ConnectomeMemory, UsageSamples, memory_usage
from torch_hrr.assembly._network import Projections
from torch_hrr.assembly.losses import AssemblyLoss, check_loss
from torch_hrr.io import Saveable
from torch_hrr.runtime.device import resolve_device_or_cpu

__all__ = ["CupyBrain", "TorchBrain"]

_PRECISIONS = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
Inputs = Mapping[str, Tensor]


@lock_public_calls
class TorchBrain(CopiedWhole, Saveable, DescribedModule):
    """`Brain` with external inputs and biases: real tensors ``[n]`` added to what an area receives from other areas.

    Rounds are those of `Brain.project` with ``external``: external inputs and biases are summed in ``precision`` before
    they are rounded to the fixed point, and biases set no winners by themselves. `enable_learning` makes the biases,
    zero at first.

    With learning enabled (``learning=True``) `compute_assembly_loss` is differentiable in the external inputs of the
    last `project` and in the biases, which are the parameters of this module. Gradients end at the area. Synapses learn
    by Hebb's rule alone, which strengthens those onto the winners of every projection by 1 + beta, wanted or not, so
    most training goes better between `disable_plasticity` and `enable_plasticity`. Gradients of a loss on k targets are
    about 0.1 / k: in fp16, scale the loss from k = 1e4 on.

    Args:
        device: as for `Brain`; one that cannot be used is the CPU, after a RuntimeWarning each time.
        precision: "fp32", "fp16" or "bf16", of external inputs and of soft winners; weights and biases are always
            float32, even after `half` or `double`.
        jit: whether the differentiable part goes through torch.compile; winners are the same.
        learning: whether learning is enabled from the start, as by `enable_learning`.
        p: density of the connectomes.
        seed: 64 bits (modulo 2^64).

    Attributes:
        brain: the `Brain`, with all its methods.
        memory_manager: `allocate_connectome` and `optimize_layout`.
        biases: a float32 parameter ``[n]`` for each area in the order of declaration, or none before learning.
        kernels: what `create_custom_kernel` compiled, by name.

    A round costs one of `Brain` and, for each area with an external input (with learning, each that is reached in the
    last round), a pass over its n neurons and over the potentiated synapses of what fires into it.
    """

    file_format = "torch_hrr.assembly.TorchBrain"
    _reads_values = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Threads may share one, as they may its brain."""
        super().__init_subclass__(**kwargs)
        lock_public_calls(cls)

    @takes(precision=Choice(_PRECISIONS), jit=Bool(), learning=Bool(), p=Real(0, 1), seed=Seed())
    def __init__(
        self,
        device: str | int | torch.device | None = "cpu",
        precision: str = "fp32",
        jit: bool = False,
        learning: bool = False,
        p: float = 0.01,
        seed: int = 0,
    ) -> None:
        """See the class."""
        super().__init__()
        self.precision, self._dtype = precision, _PRECISIONS[precision]
        self.brain = Brain(p, seed, device=resolve_device_or_cpu(device, op=type(self).__name__))
        self.memory_manager = ConnectomeMemory(self.brain)
        self.jit = jit
        self.kernels: dict[str, Callable[..., None]] = {}
        self._samples: UsageSamples | None = None
        self.biases = nn.ParameterList()
        self.learning = False
        # Of the last projection: what an area received without its external input, that input, and who fired where.
        self._received: dict[str, Tensor | None] = {}
        self._given: dict[str, Tensor] = {}
        self._projections: dict[str, list[str]] = {}
        # The external inputs of the last projection.
        self._repeated: Mapping[str, Any] = {}
        if learning:
            self.enable_learning()

    @property
    def _lock(self) -> Any:
        """The brain's: threads may share both."""
        return self.brain._lock

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        # Devices change, dtypes do not, as of a brain: biases are float32 whatever the model that holds them becomes.
        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        module: Any = super()
        return module._apply(moved, recurse)

    def _summary(self) -> dict[str, Any]:
        return {"precision": self.precision, "learning": self.learning, "jit": self.jit, **self.brain._summary()}

    __repr__ = Described.__repr__
    _summary_rows = Described._summary_rows

    def add_area(self, name: str, n: int, k: int, beta: float = 0.05, **options: Any) -> None:
        """Declares an area of n neurons of which k win; arguments and errors as for `Brain.add_area`."""
        self.brain.add_area(name, n, k, beta, **options)
        self._make_biases()

    def project(
        self, external_inputs: Inputs | None = None, projections: Projections | None = None, rounds: int = 1
    ) -> None:
        """`Brain.project` with ``external``; without inputs and projections, those of the last call that returned.

        Args:
            external_inputs: ``{area: tensor or array [n]}``, real numbers of at most 2^20, the same in every round.
            projections: ``{source: targets}``, areas that fire into areas.
            rounds: how many, >= 0.

        Raises:
            RuntimeError: there was no call to repeat. Others, TypeError and ValueError as for `Brain.project`.
        """
        rounds = checks.rounds("project", rounds)
        if external_inputs is None and projections is None:
            external_inputs, projections = self._repeated, self._projections
            if not (external_inputs or projections):
                raise RuntimeError("project: a call must have come before to be repeated, got nothing to fire either")
        given = rounding.checked(
            self.brain, "project", "external_inputs", {} if external_inputs is None else external_inputs
        )
        areas = self.brain.areas
        wanted = {} if projections is None else projections
        wanted = checks.projections("project", "projections", wanted, areas, areas, "area")
        targets = [target for listed in wanted.values() for target in listed]
        joined = {name: self._external(name, given.get(name)) for name in dict.fromkeys((*given, *targets))}
        external = {name: each for name, each in joined.items() if each is not None}
        how: dict[str, Any] = {
            "lasting": external.keys() - given,
            "record": self.learning,
            "what": "external input and bias",
        }
        received = rounding.run(self.brain, "project", {}, wanted, external, rounds, **how)
        if received is not None:
            self._given, self._received = given if self.learning else {}, received
            self._projections, self._repeated = wanted, given

    def _external(self, area: str, given: Tensor | None) -> Tensor | None:
        """The external input with the bias, in the precision of both; None where there is neither."""
        bias = self._bias(area)
        if bias is not None and (given is not None or bool(bias.any())):
            given = bias if given is None else given + bias
        return None if given is None else given.to(self._dtype)

    def _bias(self, area: str) -> nn.Parameter | None:
        """Biases stand in the order in which areas were declared; None before there is one."""
        return dict(zip(self.brain.areas, self.biases, strict=False)).get(area)

    @locked
    def _select_winners(self, inputs: Tensor | None = None, k: int | None = None) -> Tensor | dict[str, Tensor]:
        """The indices of the k largest inputs ``[..., n]``; without arguments, of what the next round would bring.

        That round has the projections of the last call, no external inputs or biases, and no fixed area.
        """
        if inputs is None:
            return rounding.winners_to_come(self.brain, self._projections)
        inputs = checks.tensor("_select_winners", "inputs", inputs)
        return k_winners(inputs, checks.integer("_select_winners", "k", k, 0, inputs.shape[-1], "n"))[1]

    @locked
    def _update_connectomes(self, projections: Projections | None = None) -> None:
        """One step of plasticity from the present winners to the present winners, which stay.

        ``projections`` are ``{source: targets}``, by default those of the last `project`.
        """
        wanted = self._projections if projections is None else projections
        areas = self.brain.areas
        wanted = checks.projections("_update_connectomes", "projections", wanted, areas, areas, "area")
        pairs = rounding.open_pairs(self.brain, wanted)
        for name in rounding.silent(self.brain, dict.fromkeys(name for pair in pairs for name in pair)):
            raise ValueError(f"_update_connectomes: area must have winners, got none in {name!r}")
        free = [name for name in dict.fromkeys(target for _, target in pairs) if not areas[name].fixed]
        try:
            for name in free:
                self.brain.fix_assembly(name)
            self.brain.project({}, wanted)
        finally:
            for name in free:
                self.brain.unfix_assembly(name)

    # Reading

    def winners(self, area: str) -> Tensor:
        """The winners: int64 ``[k]`` ascending; none before the first projection."""
        return self.brain.winners(area)

    def support(self, area: str) -> int:
        """How many neurons ever won."""
        return int(self.brain.support(area))

    def get_memory_usage(self) -> dict[str, float]:
        """The memory of the brain's tensors, ``allocated_mb``, and with spare room, ``reserved_mb``, in 2^20 bytes.

        Also ``edges``, the synapses in these tables (all others take no memory), and ``bytes_per_neuron``, the memory
        reserved for each neuron of an area.
        """
        return memory_usage(self.brain)

    # Learning

    def enable_learning(self) -> None:
        """Makes projections keep what `compute_assembly_loss` needs, and gives every area a bias, zero at first."""
        self.learning = True
        self._make_biases(first=True)

    def disable_learning(self) -> None:
        """Makes projections keep nothing for losses; biases keep their values and are still added to inputs."""
        self.learning = False
        self._received, self._given = {}, {}

    def enable_plasticity(self) -> None:
        """Synapses grow again: `Brain.enable_plasticity`."""
        self.brain.enable_plasticity()

    def disable_plasticity(self) -> None:
        """Synapses keep their weights: `Brain.disable_plasticity`."""
        self.brain.disable_plasticity()

    def compute_assembly_loss(
        self,
        target_assemblies: Mapping[str, Tensor | Sequence[int]],
        loss: str | AssemblyLoss = "overlap",
        *,
        temperature: float = 1.0,
        surrogate: str = "sigmoid",
        margin: float = 1.0,
    ) -> Tensor:
        """How far areas are from wanted assemblies, differentiable in external inputs and biases: a float32 scalar.

        For every area: x, its inputs of the last round with its external input as it was then and its bias as it is now
        (inputs are 0 where it took no part), ``y = k_cap(x, k, temperature, surrogate, soft=True)``, sum y = k, and of
        y and the targets the loss; then the mean over the areas.

        Args:
            target_assemblies: ``{area: 1 to k distinct neurons}``.
            loss: "overlap", "margin" or a function of y ``[n]`` and the targets ``[m]``, ascending, as for
                `losses.assembly_loss`.
            temperature: width of the soft winners' transition, in units of a fresh synapse.
            surrogate: "sigmoid" or "laplace".
            margin: of the margin loss.

        Raises:
            RuntimeError: learning is not enabled.
            TypeError, ValueError, IndexError: no area, an unknown one, neurons that it does not have, or an option that
                is out of range.
        """
        if not self.learning:
            raise RuntimeError("compute_assembly_loss: learning must be enabled, got a brain that does not learn")
        op = "compute_assembly_loss"
        wanted = "a mapping of areas to neurons"
        if not isinstance(target_assemblies, Mapping):
            raise TypeError(f"{op}: target_assemblies must be {wanted}, got {type(target_assemblies).__name__}")
        if not target_assemblies:
            raise ValueError(f"{op}: target_assemblies must be {wanted} with at least one, got none")
        check_loss(op, loss, temperature, surrogate, margin)
        areas, targets = self.brain.areas, {}
        for name, indices in target_assemblies.items():
            area = areas[checks.declared(op, "area", name, areas)]
            targets[name] = checks.neurons(op, indices, area.n, area.k, None, "target_assemblies")
        self._make_biases(first=True)
        shifted = _compiled_loss() if self.jit else _shifted_loss
        losses = []
        for name, neurons in targets.items():
            bias = self._bias(name)
            assert bias is not None
            # Since the last round the brain may have moved to another device.
            given = self._given.get(name)
            external = (bias if given is None else given.to(bias.device) + bias).to(self._dtype)
            received = self._received.get(name)
            nothing = torch.zeros_like(external, dtype=torch.float64)
            constant = nothing if received is None else received.to(bias.device)
            # Soft winners are those of x + c too: around the threshold the half types are finest.
            shift = constant - k_winners(constant + external.detach().double(), areas[name].k)[0].min()
            one = shifted(
                shift, external, neurons.to(external.device), areas[name].k, loss, temperature, surrogate, margin
            )
            losses.append(one.float())
        return torch.stack(losses).mean()

    def _make_biases(self, first: bool = False) -> None:
        if not (first or self.learning or len(self.biases)):
            return
        self._append_biases([area.n for area in self.brain.areas.values()])

    # Also in inference mode, they are parameters that training outside of it changes.
    @torch.inference_mode(False)
    def _append_biases(self, sizes: Sequence[int]) -> None:
        for n in sizes[len(self.biases) :]:
            self.biases.append(nn.Parameter(torch.zeros(n, dtype=torch.float32, device=self.brain.device)))

    def __getstate__(self) -> dict[str, Any]:
        """Of copies and pickles, whose last external inputs are numbers without a graph."""
        inputs = {name: each.detach() if isinstance(each, Tensor) else each for name, each in self._repeated.items()}
        given = {name: external.detach() for name, external in self._given.items()}
        return {**nn.Module.__getstate__(self), "_given": given, "_repeated": inputs}

    def get_extra_state(self) -> dict[str, Any]:
        """Whether it learns, and the sizes of its biases."""
        return {"learning": self.learning, "biases": [len(bias) for bias in self.biases]}

    def set_extra_state(self, state: Any) -> None:
        """Makes the biases that a state_dict describes, unless they are there."""
        op = "load_state_dict"
        if not isinstance(state, Mapping) or not {"learning", "biases"} <= state.keys():
            raise ValueError(f"{op}: _extra_state must hold learning and biases, got {checks.brief(state)}")
        learning = checks.check_bool(op, "learning", state["learning"])
        given = listed(op, "biases", state["biases"], "a list of ints")
        sizes = [checks.integer(op, "biases", n, 1, 2**31 - 2) for n in given]
        self.learning = learning
        if sizes != [len(bias) for bias in self.biases]:
            self.biases = nn.ParameterList()
        self._append_biases(sizes)

    @takes(state_dict=Instance(Mapping), strict=Bool(), assign=Bool())
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As of any module, but after an error the brain and its biases are unchanged."""
        module: Any = super()
        with unchanged_by_errors(self, "biases"):
            return module.load_state_dict(state_dict, strict=strict, assign=assign)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = "cpu",
        jit: bool = False,
        **options: Any,
    ) -> Self:
        """As `Saveable.load`, onto the CPU unless another device is given; ``jit`` is as for the class.

        The inputs of the last `project` are not in the file: until the next one losses take inputs as 0.
        """
        return super().load(path, key, device=device, jit=jit, **options)

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, brain = self.brain._content()
        tensors = {f"brain.{name}": tensor for name, tensor in tensors.items()}
        tensors |= {f"biases.{index}": bias.detach().cpu() for index, bias in enumerate(self.biases)}
        return tensors, {"brain": brain, "precision": self.precision, "learning": self.learning}

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        config, learning = metadata["brain"], metadata["learning"]
        result = cls(device, precision=metadata["precision"], jit=options["jit"], p=config["p"], seed=config["seed"])
        if len(metadata) != 3 or type(learning) is not bool or (config["mode"], config["batch"]) != ("exact", None):
            raise ValueError("entries that no TorchBrain has")
        inner = {name.removeprefix("brain."): each for name, each in tensors.items() if name.startswith("brain.")}
        result.brain = Brain._from_content(inner, config, device)
        result.memory_manager = ConnectomeMemory(result.brain)
        result.learning = learning
        sizes = [area.n for area in result.brain.areas.values()][: len(tensors) - len(inner)]
        biases = [tensors.get(f"biases.{index}") for index in range(len(tensors) - len(inner))]
        given = [len(bias) for bias in biases if bias is not None and bias.dtype == torch.float32 and bias.dim() == 1]
        if given != sizes or len(given) != len(biases):
            raise ValueError(f"other biases than float32 ones of areas {sizes}")
        result._append_biases(sizes)
        result.biases.load_state_dict({str(index): bias for index, bias in enumerate(biases)})
        return result

    # Monitoring and user-defined kernels

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Samples time and memory after a round, at most once in `interval` seconds, until `stop_monitoring`.

        Meanwhile rounds run one by one, with the same bits. The last 10 000 samples are kept. RuntimeError if it is on.
        """
        if self._samples is not None:
            raise RuntimeError("start_monitoring: monitoring must be stopped first, got a brain being monitored")
        self._samples = UsageSamples(self.brain, interval)

    def stop_monitoring(self) -> list[dict[str, Any]]:
        """Ends monitoring; a list of dicts, the last sample taken now, empty if there was no monitoring.

        Each has ``seconds`` and ``rounds`` since the start, and `get_memory_usage`.
        """
        samples, self._samples = self._samples, None
        return [] if samples is None else samples.stop()

    def create_custom_kernel(self, name: str, code: str) -> Callable[..., None]:
        """Compiles CUDA source with NVRTC through torch: the `extern "C" __global__` function of this name.

        It is called with ``grid``, ``block`` and ``args``, as in `torch.cuda`; nothing checks what the kernel does.
        RuntimeError where there is no CUDA device, torch cannot compile kernels, or the source does not compile.
        """
        checks.name("create_custom_kernel", name)
        if not isinstance(code, str):
            raise TypeError(f"create_custom_kernel: code must be a str, got {type(code).__name__}")
        if not torch.cuda.is_available():
            raise RuntimeError("create_custom_kernel: a CUDA device must be available, got none")
        compiler = getattr(torch.cuda, "_compile_kernel", None)
        if compiler is None:
            raise RuntimeError(f"create_custom_kernel: torch must be able to compile kernels, got {torch.__version__}")
        kernel: Callable[..., None] = compiler(code, name)
        self.kernels[name] = kernel
        return kernel


class CupyBrain(TorchBrain):
    """`TorchBrain` under the name of its first version, whose default device is the first GPU; CuPy is not used."""

    def __init__(self, device: str | int | torch.device | None = 0, **options: Any) -> None:
        """See the class."""
        super().__init__(device, **options)


def _shifted_loss(
    shift: Tensor,
    external: Tensor,
    targets: Tensor,
    k: int,
    loss: str | AssemblyLoss,
    temperature: float,
    surrogate: str,
    margin: float,
) -> Tensor:
    """The loss of inputs shift + external, computed in the precision of the external input."""
    inputs = (shift + external.double()).to(external.dtype)
    return assembly_loss(inputs, targets, k, loss, temperature=temperature, surrogate=surrogate, margin=margin)


@functools.cache
def _compiled_loss() -> Callable[..., Tensor]:
    # Not an attribute: what torch.compile returns cannot be pickled.
    return torch.compile(_shifted_loss)
