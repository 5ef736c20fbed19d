from typing import Any

class Unit:
    nodes: list
    fused: bool
    shape: Any
    axes: Any
    id: int
    reads: set
    def __init__(self, node: Any, uid: int) -> None: ...

def live_nodes(nodes: list, outputs: list) -> list: ...
def in_register(v: Any, shape: tuple) -> bool: ...
def fuse(nodes: list) -> list: ...
