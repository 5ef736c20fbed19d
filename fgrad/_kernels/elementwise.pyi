from typing import Any

FUSED: bool
OPCODES: dict[str, int]
ARITY: dict[str, int]
SUPPORTED: dict[str, frozenset[int]]
RESULT: dict[str, str]
WEIGHTS: dict[str, int]
REDUCTIONS: dict[str, int]
KERNELS: dict[str, tuple[int, int]]

def __getattr__(name: str) -> Any: ...
