from typing import Any

PLAIN_KINDS: tuple[str, ...]

def install(array_class: Any, to_array: Any, leak_message: Any) -> None: ...
def install_tracers(*, stage: Any = None, jvp: Any = None) -> None: ...
def set_apply(fun: Any) -> None: ...
def may_refuse(prim: PrimitiveBase, params: dict) -> bool: ...

class TracerBase:
    _trace: Any
    aval: Any

class StageTracerBase(TracerBase):
    _var: Any
    source: Any

class JVPTracerBase(TracerBase):
    primal: Any
    tangent: Any

class TraceBase:
    done: bool
    fun: Any

class PrimitiveBase:
    name: str
    kind: str
    multiple_results: bool
    constant: bool
    refuses: Any
    abstract_eval: Any
    jvp: Any
    transpose: Any
    batch: Any
    lower: Any
    impl: Any
    partial_eval: Any
    effects: Any
    dce: Any
    move: Any
    bind_eqn: Any
    opcode: Any
    small_body: Any
    def bind(self, *args: Any, **params: Any) -> Any: ...

class EvalBase(TraceBase):
    def process_primitive(self, prim: Any, args: Any, params: dict) -> Any: ...

class StageBase(TraceBase):
    eqns: list
    consts: list
    invars: list
    const_vars: dict
    keeps_arrays: bool
    name: Any
    parent: Any
    def __init__(self, name: Any = "f", parent: Any = None, fun: Any = None, keeps_arrays: bool = False) -> None: ...
    def new_arg(self, aval: Any) -> Any: ...
    def atom(self, x: Any) -> Any: ...
    def process_primitive(self, prim: Any, args: Any, params: dict) -> Any: ...

class TangentBase(StageBase):
    def is_unknown(self, x: Any) -> bool: ...
    def unknown(self, args: Any) -> bool: ...
    def stage_eqn(self, prim: Any, args: Any, params: dict) -> Any: ...

class Lookup(TraceBase):
    parent: Any
    def __init__(self, parent: Any) -> None: ...
    def expect(self, prim: Any, args: list, params: dict, out: Any) -> None: ...

class Recording:
    values: list
    records: list
    key: list
    tracers: list
    n_args: int

class JVPBase(TraceBase):
    parent: Any
    recording: Recording | None
    def start_recording(self, arrays: list) -> list: ...
    def number(self, x: Any) -> int: ...
    def settle(self) -> None: ...
    def __init__(self, parent: Any, fun: Any = None) -> None: ...
    def wrap(self, primal: Any, tangent: Any) -> Any: ...
    def unzip(self, args: Any) -> Any: ...
    def process_primitive(self, prim: Any, args: Any, params: dict) -> Any: ...
