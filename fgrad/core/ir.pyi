from typing import Any

def exclude_sources(path: str) -> None: ...

class AvalBase:
    shape: tuple
    dtype: Any
    weak_type: bool
    size: int
    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...
    def set_fields(self, shape: tuple, dtype: Any, weak_type: bool) -> None: ...

class Var:
    aval: Any
    def __init__(self, aval: Any) -> None: ...

class DropVar(Var): ...

class Literal:
    val: Any
    aval: Any
    def __init__(self, val: Any, aval: Any) -> None: ...

class Eqn:
    primitive: Any
    params: dict
    source: tuple | None
    invars: list
    outvars: list
    effects: frozenset
    def __init__(self, primitive: Any, invars: list, outvars: list, params: dict, source: Any = None) -> None: ...
    def replace(self, *, primitive: Any = None, invars: Any = None, outvars: Any = None, params: Any = None) -> Eqn: ...

class Zero:
    aval: Any
    def __init__(self, aval: Any) -> None: ...

class Linear:
    aval: Any
    def __init__(self, aval: Any) -> None: ...

replaying: Any
