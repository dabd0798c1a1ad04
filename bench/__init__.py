"""Benchmarks of torch_hrr against the libraries and torch forms users would pick instead."""
