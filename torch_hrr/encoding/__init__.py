"""Sinusoidal encodings: positions, time stamps and tokens as sinusoids, exact at any position."""

from torch_hrr.encoding.functional import embed_positions, sinusoidal_encoding, sinusoidal_features

__all__ = ["embed_positions", "sinusoidal_encoding", "sinusoidal_features"]
