from typing import Any

class Buf:
    kind: str
    index: Any
    dtype: Any
    base: Any
    offset: Any
    size: int
    node: Any
    strided: bool
    nbytes: int
    def __init__(self, kind: str, dtype: Any, size: int, node: Any = None, index: int = 0, strided: bool = False) -> None: ...

class Value:
    buf: Any
    shape: tuple
    strides: tuple
    offset: int
    dtype: Any
    scalar: Any
    tag: Any
    box: Any
    aval: Any
    size: int
    contiguous: bool
    def __init__(
        self, buf: Buf | None, shape: tuple, strides: tuple, offset: int, dtype: Any, scalar: Any = None, tag: int = 0, box: Any = None
    ) -> None: ...
    def key(self) -> Any: ...
    def whole(self) -> bool: ...

class Node:
    kind: str
    op: str
    ins: list
    outs: list
    shape: Any
    ip: tuple
    fp: tuple
    children: tuple
    obj: Any
    group: Any
    type_code: Any
    axes: Any
    effects: bool
    def __init__(
        self,
        kind: str,
        op: str,
        ins: list,
        outs: list,
        shape: Any = None,
        ip: tuple = (),
        fp: tuple = (),
        children: tuple = (),
        obj: Any = None,
        type_code: Any = None,
        axes: Any = None,
    ) -> None: ...

def row_major(shape: tuple) -> tuple: ...
def view_reshape(shape: tuple, strides: tuple, new_shape: tuple) -> Any: ...
def release(nodes: list) -> None: ...
def forget(nodes: list) -> None: ...
