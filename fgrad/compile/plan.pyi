from typing import Any

def plan(
    units: list, in_memory: set, outs: list, modes: list, donated: Any, in_avals: Any, takes: Any = None
) -> tuple[int, dict[int, int]]: ...
