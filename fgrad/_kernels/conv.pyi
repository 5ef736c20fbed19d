from collections.abc import Sequence

PAIRS: bool
KERNELS: dict[str, tuple[int, int]]

def in_halves(x: tuple, w: tuple, out: Sequence[int], ip: Sequence[int]) -> bool: ...
