"""Counts of what CUDA kernels need and ask, from compiled code and from the host, and the bounds on them."""
