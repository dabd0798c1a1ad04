"""Rows as int8 codes, which tell what cannot be among the nearest: an exact cleanup that reads few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import values_decide
from torch_hrr._ops import ops as _ops

# Elements of codes or rows, and estimates of cosines, that are worked on at a time.
_ELEMENTS, _ESTIMATES = 1 << 18, 1 << 24
# More than the rounding of a cosine.
_MARGIN = 1e-6


def quantize(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and bounds of rows, ``[N, D]``: int8 ``[N, D]`` and float32 ``[N, 2]``, of the row alone.

    ``u = x / norm2(x)``, ``s = max|u| / 127``, ``c = round(u / s)``; the bounds are s and an upper bound of
    ``norm2(u - s c)``, so that ``|<v, u> - s <v, c>|`` is below it for every v of norm 1. A zero row has bounds 0; one
    that holds NaN or infinity has codes 0 and the bound infinity, so that nothing excludes it.
    """
    with torch.inference_mode(False), torch.no_grad():
        codes, bounds = _ops.quantize_rows.default(rows)
        return codes, bounds


def check_codes(rows: Tensor, codes: Tensor, bounds: Tensor) -> None:
    """Raises ValueError for what `quantize` can have given for no rows of that shape."""
    shapes = (codes.dtype, codes.shape) == (torch.int8, rows.shape), (bounds.dtype, bounds.shape) == (
        torch.float32, (len(rows), 2),
    )  # fmt: skip
    if not all(shapes) or not (bounds.is_meta or bool((bounds >= 0).all())):
        raise ValueError("codes and bounds that no vectors have")


def nearest(
    query: Tensor, rows: Tensor, codes: Tensor, bounds: Tensor, places: Tensor | None, top_k: int
) -> tuple[Tensor, Tensor]:
    """The ``top_k`` largest cosines of ``[..., D]`` with ``[N, D]`` and the numbers of these rows, best first.

    Of equal cosines the lower place comes first, and rows with the place -1 do not count; None: the rows as they are.
    """
    values, numbers = _ops.quantized_cleanup.default(query, rows, codes, bounds, places, top_k)
    return values, numbers


class QuantizedRows:
    """Codes of rows that somebody else owns, slot by slot, and the place of every row in an order.

    A slot without a row has the place -1. Slots are made as they are needed, twice as many each time; a change costs
    what its rows cost. Not locked: whoever shares one does it.

    Attributes:
        codes: int8 ``[C, D]``.
        bounds: float32 ``[C, 2]``.
        places: int64 ``[C]``: the index that a search gives for the row of a slot, -1 for none.
    """

    def __init__(self, dim: int, capacity: int = 0, device: torch.device | None = None) -> None:
        """Makes room for rows of ``dim`` elements."""
        with torch.inference_mode(False):
            self.codes = torch.zeros(capacity, dim, dtype=torch.int8, device=device)
            self.bounds = torch.zeros(capacity, 2, dtype=torch.float32, device=device)
            self.places = torch.full((capacity,), -1, dtype=torch.int64, device=device)

    def __len__(self) -> int:
        """Number of rows; waits for the device."""
        return int((self.places >= 0).sum())

    def put(self, slots: Sequence[int], rows: Tensor, places: Sequence[int] | None = None) -> None:
        """Codes rows ``[K, D]`` in slots, with their places; None leaves the places that these have."""
        self.put_codes(slots, *quantize(rows), places)

    def put_codes(
        self, slots: Sequence[int], codes: Tensor, bounds: Tensor, places: Sequence[int] | None = None
    ) -> None:
        """As `put`, with what `quantize` gave for the rows before."""
        at = self._index(slots)
        if len(slots):
            self.grow(max(slots) + 1)
        self.codes.index_copy_(0, at, codes)
        self.bounds.index_copy_(0, at, bounds)
        if places is not None:
            self.places.index_copy_(0, at, self._index(places))

    def remove(self, slots: Sequence[int]) -> None:
        """Forgets the rows of slots; the places of others stay as they are."""
        at = self._index(slots)
        self.codes.index_fill_(0, at, 0)
        self.bounds.index_fill_(0, at, 0)
        self.places.index_fill_(0, at, -1)

    def take_out(self, slot: int) -> None:
        """Forgets the row of a slot; all places above its own become one less."""
        place = self.places[slot].clone()
        self.remove([slot])
        self.places.sub_((self.places > place).long())

    def grow(self, capacity: int) -> None:
        """Makes room for that many slots, or twice as many as there are, if they are fewer."""
        have = len(self.codes)
        if capacity > have:
            larger = QuantizedRows(self.codes.shape[1], max(capacity, 2 * have), self.codes.device)
            for name, value in vars(self).items():
                getattr(larger, name)[:have].copy_(value)
            self.__dict__.update(vars(larger))

    def nearest(self, query: Tensor, rows: Tensor | Callable[[Tensor], Tensor], top_k: int) -> tuple[Tensor, Tensor]:
        """The ``top_k`` largest cosines of queries with the rows, and the places of these, best first.

        Values are within 1e-6 of the exact cosine; of equal ones the lower place comes first, and NaN comes last.
        Their bits depend on the query and the row alone. Differentiable in ``query`` if ``rows`` is a tensor.

        Args:
            query: ``[..., D]``, floating point, on the device of the codes.
            rows: the rows of all slots ``[C, D]``, whose places are below C; or what gives the rows of some places,
                an int64 tensor ``[K]`` in ascending order, as ``[K, D]``. It is asked for the few rows that the codes
                cannot exclude, and for all others in blocks where these are nearly equal.
            top_k: 1 to the number of rows.

        Returns:
            Cosines ``[..., top_k]`` in the wider dtype of query and rows, at least float32, and int64 places.
        """
        if isinstance(rows, Tensor):
            values, slots = nearest(query, rows, self.codes, self.bounds, self.places, top_k)
            if values.requires_grad and values.numel() and values_decide():
                # For the graph again among those found: the table may change before the gradient is asked for.
                found = self._in_order(slots.unique())
                return self._exactly(query, lambda _: rows[found], found, top_k)
            return values, self.places[slots]
        with torch.no_grad(), full_precision(query.device):
            flat = query.reshape(-1, query.shape[-1])
            # Of no queries one more, since rows tell the dtype; few at a time, whose estimates for all rows have room.
            asked = flat if len(flat) else flat.new_zeros(1, flat.shape[1])
            parts = asked.split(max(1, _ESTIMATES // max(1, len(self.codes))))
            results = [self._fetched(part, rows, top_k) for part in parts]
            values, places = (torch.cat(each)[: len(flat)] for each in zip(*results, strict=True))
            return values.reshape(*query.shape[:-1], top_k), places.reshape(*query.shape[:-1], top_k)

    def _fetched(self, query: Tensor, fetch: Callable[[Tensor], Tensor], top_k: int) -> tuple[Tensor, Tensor]:
        lower, upper = self._limits(query, top_k)
        # The rows that seem best are computed first: the worst of these says what the others must reach.
        wanted = torch.zeros_like(self.places, dtype=torch.bool)
        wanted[lower.topk(top_k, -1).indices] = True
        first = best_of(self._exact(query, fetch, wanted, top_k), top_k)
        least = first[0][:, -1:].nan_to_num(-torch.inf).to(upper.dtype)
        others = (upper >= least).any(0) & (self.places >= 0) & ~wanted
        return best_of([first, *self._exact(query, fetch, others, top_k)], top_k)

    def _limits(self, query: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
        """What the cosines with the rows of all slots are not below and not above, ``[B, C]``."""
        scale, rest = self.bounds.unbind(-1)
        dim = self.codes.shape[1]
        wide = query.to(torch.promote_types(query.dtype, torch.float32))
        wide = wide / wide.abs().amax(-1, keepdim=True)
        unit = (wide / torch.linalg.vector_norm(wide, dim=-1, keepdim=True)).float()
        # Blocks that caches hold, in one piece of memory: fresh ones would cost more than the product.
        blocks = self.codes.split(max(1, _ELEMENTS // dim))
        room = torch.empty_like(blocks[0], dtype=torch.float32)
        products = torch.cat([unit @ room[: len(block)].copy_(block).mT for block in blocks], -1) * scale
        # The product may round the query to bfloat16, if torch's settings allow it, and rounds every sum.
        error = rest + (1 + rest) * (2**-9 + dim * 2**-23) + _MARGIN
        lower, upper = products - error, products + error
        # What may hold NaN comes last, but must be looked at.
        lower = lower.masked_fill(rest.isinf(), -3)
        lost = ~unit.isfinite().all(-1)
        if bool(lost.any()):
            # To a zero query all rows are equal but those that hold NaN, to one that holds NaN all: the first count.
            whole = (self.places >= 0) & ~rest.isinf()
            ranks = self.places.masked_fill(~whole, torch.iinfo(torch.int64).max)
            first = ~whole
            first[ranks.topk(top_k, largest=False).indices] = True
            lower[lost] = torch.zeros_like(scale).masked_fill(~first, -3)
            upper[lost] = torch.full_like(scale, 3).masked_fill(~first, -torch.inf)
        absent = self.places < 0
        return lower.masked_fill(absent, -torch.inf), upper.masked_fill(absent, -torch.inf)

    def _exact(
        self, query: Tensor, fetch: Callable[[Tensor], Tensor], wanted: Tensor, top_k: int
    ) -> list[tuple[Tensor, Tensor]]:
        """The best of every block of the slots that are marked, at most `top_k` each."""
        slots = self._in_order(wanted.nonzero().squeeze(-1))
        blocks = slots.split(max(1, _ELEMENTS // query.shape[-1])) if len(slots) else ()
        return [self._exactly(query, fetch, block, top_k) for block in blocks]

    def _exactly(
        self, query: Tensor, fetch: Callable[[Tensor], Tensor], slots: Tensor, top_k: int
    ) -> tuple[Tensor, Tensor]:
        codes, bounds, places = self.codes[slots], self.bounds[slots], self.places[slots]
        values, numbers = nearest(query, fetch(places), codes, bounds, None, min(top_k, len(slots)))
        return values, places[numbers]

    def _in_order(self, slots: Tensor) -> Tensor:
        return slots[self.places[slots].argsort()]

    def _index(self, numbers: Sequence[int]) -> Tensor:
        return torch.as_tensor(numbers, dtype=torch.int64, device=self.codes.device)


def best_of(found: Sequence[tuple[Tensor, Tensor]], top_k: int) -> tuple[Tensor, Tensor]:
    """The best of several answers, each ``[B, K]``: larger values first, of equals the lower place, NaN last."""
    values, places = (torch.cat(each, -1) for each in zip(*found, strict=True))
    order = places.argsort(-1)
    keys = values.gather(-1, order).nan_to_num(-2)
    order = order.gather(-1, keys.sort(dim=-1, descending=True, stable=True).indices[:, :top_k])
    return values.gather(-1, order), places.gather(-1, order)
