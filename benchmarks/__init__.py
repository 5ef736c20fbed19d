"""Benchmarks of fgrad beside JAX, PyTorch, NumPy and numexpr: `python -m benchmarks --help`."""
