PAIRS: bool
KERNELS: dict[str, tuple[int, int]]
