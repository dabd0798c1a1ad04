"""The recurrent weights of a reservoir: drawn or given, kept as the same number of connections for every unit."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_data, check_finite, check_strided, tensor
from torch_hrr._random import seeded_generator

# Elements of rows that are drawn or read at a time.
_ELEMENTS = 2**20
# Below so many units, and above so many connections a unit, a dense product takes less time than a sparse one.
DENSE_UNITS, DENSE_SHARE = 256, 0.2
# Units up to which all eigenvalues are computed; beyond, a Krylov space grows by as many until two agree to so much.
_ALL_EIGENVALUES, _AGREEMENT = 256, 1e-9


def draw(
    units: int, input_dim: int, density: float, radius: float, input_scaling: float, seed: int
) -> dict[str, Tensor]:
    """The reservoir of a seed, on the CPU in float64 but for its scale, whose 24 bits are the same everywhere."""
    generator = seeded_generator(seed)

    # Uniform numbers are integers divided by a power of two; normal ones would depend on the instruction set.
    def uniform(*shape: int) -> Tensor:
        return 2 * torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu") - 1

    count = per_unit(units, density)
    rows = max(1, _ELEMENTS // units)
    columns = torch.cat([
        uniform(min(rows, units - row), units).argsort(dim=1, stable=True)[:, :count].sort(1).values
        for row in range(0, units, rows)
    ])  # fmt: skip
    values = uniform(units, count)
    input_weights, bias = input_scaling * uniform(units, input_dim), uniform(units) / 2
    scale = torch.tensor(radius / spectral_radius(columns, values), dtype=torch.float32, device="cpu")
    return {
        "columns": columns.to(torch.int32),
        "values": values * scale.double(),
        "input_weights": input_weights,
        "bias": bias,
    }


def per_unit(units: int, density: float) -> int:
    """How many units a unit hears: at least one, maybe itself, so that W has a cycle and a spectral radius above 0."""
    return max(1, round(density * units))


def given_matrix(op: str, argument: str, given: Any) -> Any:
    """A matrix of finite real numbers as its rows can be taken: a dense tensor on the CPU, or a sparse one in CSR.

    Args:
        op: The user's call.
        argument: Its argument.
        given: A tensor of any layout, a NumPy array, or a matrix or array of scipy.sparse.

    Raises:
        TypeError: Something else, or numbers that are not real.
        ValueError: No matrix, or a number that is not finite.
    """
    if getattr(given, "ndim", 2) != 2:
        raise ValueError(f"{op}: {argument} must have two dimensions, got shape {list(given.shape)}")
    if hasattr(given, "tocsr") and not isinstance(given, Tensor):
        # Of scipy.sparse, whose canonical form adds up what is given twice.
        rows = given.tocsr(copy=True)
        rows.sum_duplicates()
        ends, columns, values = (tensor(op, argument, each) for each in (rows.indptr, rows.indices, rows.data))
        with _without_warning():
            made = torch.sparse_csr_tensor(ends, columns, values, rows.shape, device="cpu", check_invariants=True)
    elif isinstance(given, Tensor) and given.layout is not torch.strided:
        if given.layout not in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
            raise TypeError(f"{op}: {argument} must be dense or sparse in COO, CSR or CSC, got {given.layout}")
        check_data(op, argument, given)
        with _without_warning():
            made = given.detach().cpu().to_sparse_coo().coalesce().to_sparse_csr()
    else:
        made = tensor(op, argument, given)
        check_data(op, argument, made)
        check_strided(op, argument, made)
        made = made.detach().cpu()
    if made.is_complex() or made.dtype is torch.bool:
        raise TypeError(f"{op}: {argument} must hold real numbers, got {made.dtype}")
    check_finite(op, argument, made if made.layout is torch.strided else made.values())
    return made


def dense_rows(matrix: Tensor) -> Iterator[Tensor]:
    """The rows of what `given_matrix` gives, dense and in float64, some at a time."""
    units, width = matrix.shape
    rows = max(1, _ELEMENTS // max(1, width))
    if matrix.layout is torch.strided:
        yield from (matrix[row : row + rows].double() for row in range(0, units, rows))
        return
    ends, columns, values = matrix.crow_indices().long(), matrix.col_indices().long(), matrix.values().double()
    for row in range(0, units, rows):
        part = ends[row : row + rows + 1]
        within = slice(int(part[0]), int(part[-1]))
        block = values.new_zeros(len(part) - 1, width)
        place = torch.repeat_interleave(torch.arange(len(block), device="cpu"), part.diff())
        block[place, columns[within]] = values[within]
        yield block


def as_connections(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Columns ``[units, k]``, ascending, and values of the k connections that the unit with the most of them has.

    Units of fewer connections hear others with a weight of 0.
    """
    count = max(1, max(int((rows != 0).sum(1).amax()) for rows in dense_rows(matrix)))
    columns, values = [], []
    for rows in dense_rows(matrix):
        first = (rows == 0).to(torch.int8).argsort(dim=1, stable=True)[:, :count].sort(1).values
        columns.append(first.to(torch.int32))
        values.append(rows.gather(1, first))
    return torch.cat(columns), torch.cat(values)


def spectral_radius(columns: Tensor, values: Tensor) -> float:
    """The largest modulus of the eigenvalues of a matrix with ``values`` ``[n, k]`` in ``columns`` of each row.

    All eigenvalues for small matrices. Else those of its projections on Krylov spaces of growing dimension (Arnoldi),
    until two agree: the extreme ones come first.
    """
    n = len(columns)
    if n <= _ALL_EIGENVALUES:
        return float(torch.linalg.eigvals(dense(columns, values)).abs().max())
    matrix = fastest(columns.to(torch.int32), values)
    basis = values.new_zeros(n + 1, n)
    # Neither an eigenvector nor orthogonal to one but by chance.
    basis[0] = torch.arange(1, n + 1, dtype=values.dtype, device=values.device).sqrt().frac() - 0.5
    basis[0] /= basis[0].norm()
    projected = values.new_zeros(n + 1, n)
    previous = math.inf
    for step in range(n):
        vector = torch.mv(matrix, basis[step])
        # Twice, so that the basis stays orthogonal to rounding.
        for _ in range(2):
            components = basis[: step + 1] @ vector
            vector -= basis[: step + 1].mT @ components
            projected[: step + 1, step] += components
        size = vector.norm()
        projected[step + 1, step] = size
        closed = float(size) < 1e-12
        if closed or (step + 1) % 100 == 0 or step + 1 == n:
            radius = float(torch.linalg.eigvals(projected[: step + 1, : step + 1]).abs().max())
            if closed or abs(radius - previous) <= _AGREEMENT * radius:
                return radius
            previous = radius
        basis[step + 1] = vector / size
    return previous


def dense(columns: Tensor, values: Tensor) -> Tensor:
    """W, ``[units, units]``."""
    return values.new_zeros(len(values), len(values)).scatter_(1, columns.long(), values)


def fastest(columns: Tensor, values: Tensor) -> Tensor:
    """W in the form whose products are fastest."""
    units, count = values.shape
    # torch multiplies sparse matrices on the CPU through MKL alone.
    supported = values.is_cuda or (values.device.type == "cpu" and torch.backends.mkl.is_available())
    if not supported or units < DENSE_UNITS or count > DENSE_SHARE * units:
        return dense(columns, values)
    rows = torch.arange(units + 1, dtype=torch.int32, device=values.device) * count
    with _without_warning():
        # 32-bit indices, which MKL takes as they are: a step then costs three quarters of one with 64-bit ones.
        return torch.sparse_csr_tensor(
            rows, columns.flatten(), values.flatten(), (units, units), check_invariants=False
        )


@contextlib.contextmanager
def _without_warning() -> Iterator[None]:
    """Without torch's, that a sparse layout is in beta, once per process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
