"""Jaxprs and pytrees as JSON: equations by the names of their primitives, arrays as their bytes.

There are no functions in it: reading runs nothing but what nodes of one's own are registered with.
"""

import base64
import enum
import importlib
from collections import OrderedDict
from typing import Any

import numpy as np
import optree

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.control.jit import jit_p
from fgrad.core import Array, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Var, from_numpy, registry
from fgrad.random.keys import KeyArray
from fgrad.tree import ARRAYS_NS

# Primitives that are a call with rules of the user's, which are functions: the call remains. Derivatives are programs of their own.
_CALLS = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vmap_call": "call_jaxpr", "checkpoint": "jaxpr"}

_names: dict = {}  # serialized name -> (class, to bytes, from bytes, from children), for nodes and named tuples
_classes: dict = {}  # class -> serialized name


def _name_of(prim):
    if registry.get(prim.name) is not prim:
        raise ValueError(f"primitive {prim.name!r} is not one of fgrad's: a program that has it cannot be serialized")
    return prim.name


def _primitive(name):
    if name not in registry:
        raise ValueError(f"primitive {name!r} is not known here: import the module of fgrad that has it, or update fgrad")
    return registry[name]


# --- values ---------------------------------------------------------------------------------------------------------------


def _array(x):
    data = np.asarray(x)
    return {"array": [data.dtype.name, list(data.shape), base64.b64encode(np.ascontiguousarray(data).tobytes()).decode()]}


def _read_array(name, shape, data):
    return np.frombuffer(base64.b64decode(data), dtype_of(name)).reshape(shape)


def dtype_of(name):
    """The dtype of a name, bfloat16 and float0 included."""
    if name == "float0":
        return dtypes.float0
    return np.dtype(dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def encode(v) -> Any:
    """A parameter, static value or constant as JSON has it. Raises ValueError for what is not data."""
    if v is None or type(v) in (bool, int, str):
        return v
    if type(v) is float:
        return {"float": v.hex()}
    if type(v) is complex:
        return {"complex": [v.real.hex(), v.imag.hex()]}
    if type(v) in (tuple, list):
        return {type(v).__name__: [encode(x) for x in v]}
    if isinstance(v, tuple) and hasattr(v, "_fields"):
        return {"record": [*_own_class(type(v)), [encode(x) for x in v]]}
    if type(v) is dict:
        return {"dict": [[encode(k), encode(x)] for k, x in v.items()]}
    if isinstance(v, enum.Enum):
        return {"enum": [*_own_class(type(v)), v.name]}
    if isinstance(v, ClosedJaxpr):
        return {"closed": [_encode_jaxpr(v.jaxpr), [encode(c) for c in v.consts]]}
    if isinstance(v, Jaxpr):
        return {"jaxpr": _encode_jaxpr(v)}
    if isinstance(v, Primitive):
        return {"primitive": _name_of(v)}
    if isinstance(v, ShapedArray):
        return {"aval": encode_aval(v)}
    if isinstance(v, np.dtype):
        return {"dtype": "float0" if v == dtypes.float0 else v.name}
    if isinstance(v, Array):
        return {"const": [_array(v)["array"], v.weak_type]}
    if isinstance(v, (np.ndarray, np.generic)) and v.dtype.kind not in "OSU":
        return _array(v)
    raise ValueError(f"a value of type {type(v).__name__} cannot be serialized: {v!r:.80}")


def decode(v) -> Any:
    """What `encode` was given."""
    if not isinstance(v, dict):
        return v
    ((kind, x),) = v.items()
    return _DECODE[kind](x)


def _own_class(cls):
    if not cls.__module__.startswith("fgrad."):
        raise ValueError(f"a value of type {cls.__module__}.{cls.__name__} cannot be serialized")
    return cls.__module__, cls.__name__


def _find_class(module, name, base):
    if not module.startswith("fgrad."):
        raise ValueError(f"{module}.{name} is no type of a serialized program")
    cls = getattr(importlib.import_module(module), name)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise ValueError(f"{module}.{name} is no type of a serialized program")
    return cls


_DECODE = {
    "float": float.fromhex,
    "complex": lambda x: complex(*map(float.fromhex, x)),
    "tuple": lambda x: tuple(map(decode, x)),
    "list": lambda x: list(map(decode, x)),
    "record": lambda x: _find_class(x[0], x[1], tuple)(*map(decode, x[2])),
    "dict": lambda x: {decode(k): decode(v) for k, v in x},
    "enum": lambda x: _find_class(x[0], x[1], enum.Enum)[x[2]],
    "closed": lambda x: ClosedJaxpr(_decode_jaxpr(x[0]), [decode(c) for c in x[1]]),
    "jaxpr": lambda x: _decode_jaxpr(x),
    "aval": lambda x: decode_aval(x),
    "primitive": _primitive,
    "dtype": dtype_of,
    "const": lambda x: _const(_read_array(*x[0]), x[1]),
    "array": lambda x: _read_array(*x),
}


def _const(x, weak):
    return from_numpy(x, ShapedArray(x.shape, x.dtype, weak), copy=True)


# --- jaxprs ---------------------------------------------------------------------------------------------------------------


def encode_aval(aval):
    """[shape, dtype, weak type]."""
    if type(aval) is not ShapedArray:
        raise ValueError(f"an array of type {aval} cannot be serialized")
    return [list(aval.shape), "float0" if aval.dtype == dtypes.float0 else aval.dtype.name, aval.weak_type]


def decode_aval(x):
    """The aval of encode_aval's list."""
    return ShapedArray(tuple(x[0]), dtype_of(x[1]), x[2])


def _plain(eqn):
    """(primitive, parameters) of an equation without functions of the user's."""
    if registry.get(eqn.primitive.name) is eqn.primitive and eqn.primitive.name in _CALLS:
        inner = eqn.params[_CALLS[eqn.primitive.name]]
        if isinstance(inner, Jaxpr):
            inner = ClosedJaxpr(inner, [])
        return jit_p, {"jaxpr": inner, "name": str(eqn.params.get("name", eqn.primitive.name)), "donated": ()}
    return eqn.primitive, eqn.params


def _encode_jaxpr(jaxpr):
    number: dict = {}

    def bind(v):
        if type(v) is not DropVar:
            number[v] = len(number)
        return [type(v) is DropVar, encode_aval(v.aval)]

    def atom(v):
        if type(v) is not Literal:
            return number[v]
        number_of_python = type(v.val) in (bool, int, float, complex)
        return {"literal": [encode(v.val if number_of_python else np.asarray(v.val)), encode_aval(v.aval)]}

    heads = [[bind(v) for v in vs] for vs in (jaxpr.constvars, jaxpr.invars)]
    eqns = []
    for e in jaxpr.eqns:
        prim, params = _plain(e)
        name = _name_of(prim)
        ins = [atom(v) for v in e.invars]
        try:
            eqns.append([name, ins, {k: encode(v) for k, v in params.items()}, [bind(v) for v in e.outvars]])
        except ValueError as err:
            raise ValueError(f"{prim.name}: {err}") from None
    return [*heads, eqns, [atom(v) for v in jaxpr.outvars], jaxpr.debug_name]


def _decode_jaxpr(data):
    constvars, invars, eqns, outs, name = data
    variables: list = []

    def bind(x):
        v = (DropVar if x[0] else Var)(decode_aval(x[1]))
        if not x[0]:
            variables.append(v)
        return v

    def atom(x):
        if not isinstance(x, dict):
            return variables[x]
        value, aval = decode(x["literal"][0]), decode_aval(x["literal"][1])
        return Literal(value[()] if isinstance(value, np.ndarray) else value, aval)

    consts, ins = [bind(v) for v in constvars], [bind(v) for v in invars]
    read = []
    for prim, args, params, results in eqns:
        read.append(Eqn(_primitive(prim), [atom(x) for x in args], [bind(v) for v in results], {k: decode(v) for k, v in params.items()}))
    return Jaxpr(consts, ins, [atom(x) for x in outs], read, debug_name=name)


# --- pytrees --------------------------------------------------------------------------------------------------------------


def register_namedtuple_serialization(nodetype, *, serialized_name):
    """Let programs with this named tuple among their arguments and results be serialized; they have this name where they are read."""
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(f"Use `register_pytree_node_serialization` for {nodetype}, which is no named tuple")
    return _register(nodetype, serialized_name, lambda aux: b"", lambda data: None, lambda aux, children: nodetype(*children))


def register_pytree_node_serialization(nodetype, *, serialized_name, serialize_auxdata, deserialize_auxdata, from_children=None):
    """Let programs with this node type among their arguments and results be serialized.

    serialize_auxdata(aux) -> bytes and deserialize_auxdata(bytes) -> aux are for its static data; from_children(aux, children) makes an
    instance (by default as it was registered as a node).
    """
    if from_children is None:
        entry = optree.register_pytree_node.get(nodetype, namespace="fgrad")
        if entry is None:
            raise ValueError(f"{nodetype} is not registered as a pytree node; see tree_util.register_pytree_node")
        from_children = entry.unflatten_func
    return _register(nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, from_children)


def _register(nodetype, name, *functions):
    if name in _names or nodetype in _classes:
        raise ValueError(f"Duplicate serialization registration: {name!r} for {nodetype}")
    _names[name], _classes[nodetype] = (nodetype, *functions), name
    return nodetype


_register(KeyArray, "key", lambda aux: b"", lambda data: None, lambda aux, words: KeyArray(*words))


def encode_tree(treedef):
    """A pytree's structure."""
    return _encode_node(tree.unflatten(treedef, [_LEAF] * treedef.num_leaves))


_LEAF = object()


def _encode_node(x) -> Any:
    if x is _LEAF:
        return "leaf"
    if x is None:
        return None
    if type(x) in (tuple, list):
        return {type(x).__name__: [_encode_node(c) for c in x]}
    if type(x) in (dict, OrderedDict):
        return {type(x).__name__: [[encode(k), _encode_node(c)] for k, c in x.items()]}
    if type(x) not in _classes:
        raise ValueError(
            f"pytrees of {type(x).__name__} cannot be serialized: see export.register_namedtuple_serialization and "
            "export.register_pytree_node_serialization"
        )
    children, aux, _, _ = optree.tree_flatten_one_level(x, none_is_leaf=False, namespace=ARRAYS_NS)
    name = _classes[type(x)]
    return {"node": [name, base64.b64encode(_names[name][1](aux)).decode(), [_encode_node(c) for c in children]]}


def decode_tree(data):
    """The structure of encode_tree's data."""
    return tree.structure(_decode_node(data))


def _decode_node(data) -> Any:
    if data is None:
        return None
    if data == "leaf":
        return 0
    ((kind, x),) = data.items()
    if kind == "node":
        name, aux, children = x
        if name not in _names:
            raise ValueError(f"the program has nodes called {name!r}: register them under that name before it is deserialized")
        return _names[name][3](_names[name][2](base64.b64decode(aux)), [_decode_node(c) for c in children])
    if kind in ("dict", "OrderedDict"):
        return {"dict": dict, "OrderedDict": OrderedDict}[kind]([(decode(k), _decode_node(c)) for k, c in x])
    return {"tuple": tuple, "list": list}[kind](map(_decode_node, x))
