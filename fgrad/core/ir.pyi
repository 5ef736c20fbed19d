from typing import Any

def exclude_sources(path: str) -> None: ...

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
    def __init__(self, primitive: Any, invars: list, outvars: list, params: dict, source: Any = None) -> None: ...
    def replace(self, *, primitive: Any = None, invars: Any = None, outvars: Any = None, params: Any = None) -> Eqn: ...

class Zero:
    aval: Any
    def __init__(self, aval: Any) -> None: ...

class Linear:
    aval: Any
    def __init__(self, aval: Any) -> None: ...

replaying: Any
