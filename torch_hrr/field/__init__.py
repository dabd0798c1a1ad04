"""Fields in three dimensions: many channels that decay, diffuse and are spontaneously active."""

from torch_hrr.field.functional import (
    advance_key,
    advance_key_,
    evolve,
    gradient,
    gradient_magnitude,
    random_key,
)

__all__ = ["advance_key", "advance_key_", "evolve", "gradient", "gradient_magnitude", "random_key"]
