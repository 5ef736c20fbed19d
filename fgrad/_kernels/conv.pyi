KERNELS: dict[str, tuple[int, int]]
