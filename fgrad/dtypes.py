"""Dtypes, JAX's promotion lattice and weak types (https://docs.jax.dev/en/latest/type_promotion.html)."""

import functools

import ml_dtypes
import numpy as np

from fgrad.config import config
from fgrad.errors import TypePromotionError

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
bfloat16 = ml_dtypes.bfloat16
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128
float0 = np.dtype([("float0", np.void, 0)])

SUPPORTED = tuple(
    np.dtype(t)
    for t in (bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128)
)
# A byte an element, as in NumPy: kernels move the bytes, and compute in float32 and int32 (compile/narrow.py).
NARROW_FLOATS = tuple(
    np.dtype(getattr(ml_dtypes, name))
    for name in """float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz
    float8_e8m0fnu float4_e2m1fn""".split()
)
NARROW_INTS = tuple(np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4"))
NARROW = frozenset(NARROW_FLOATS + NARROW_INTS)
_NARROW_FLOATS, _NARROW_INTS, _NARROW_SIGNED = frozenset(NARROW_FLOATS), frozenset(NARROW_INTS), frozenset(NARROW_INTS[:2])
narrow_seen: set = set()  # those that an array or a tracer has had: without any, programs need not be looked through for them
_SUPPORTED_SET = frozenset(SUPPORTED) | NARROW
BOOL, INT32, INT64, UINT32, FLOAT32, FLOAT64, COMPLEX64 = (np.dtype(t) for t in (bool_, int32, int64, uint32, float32, float64, complex64))
BFLOAT16, FLOAT16 = np.dtype(bfloat16), np.dtype(float16)
SHORT_NAMES = {
    np.dtype(t): s
    for t, s in (
        (bool_, "bool"),
        (int8, "i8"),
        (int16, "i16"),
        (int32, "i32"),
        (int64, "i64"),
        (uint8, "u8"),
        (uint16, "u16"),
        (uint32, "u32"),
        (uint64, "u64"),
        (float16, "f16"),
        (bfloat16, "bf16"),
        (float32, "f32"),
        (float64, "f64"),
        (complex64, "c64"),
        (complex128, "c128"),
    )
} | {float0: "float0"}
SHORT_NAMES |= {d: d.name.replace("float", "f").replace("uint", "u").replace("int", "i") for d in NARROW}
_HALVED = {np.dtype(a): np.dtype(b) for a, b in ((int64, int32), (uint64, uint32), (float64, float32), (complex128, complex64))}
_LASTING = {d: d for d in SUPPORTED if d not in _HALVED}  # with and without x64
_PYTHON = {bool: BOOL, int: INT64, float: FLOAT64, complex: np.dtype(complex128)}


def canonicalize_dtype(dtype, allow_extended_dtype: bool = False) -> np.dtype:
    """The dtype that arrays of `dtype` really have: 64-bit ones become 32-bit unless x64 is enabled.

    allow_extended_dtype: the dtype of random keys is one, and itself. Raises TypeError for a dtype that fgrad has no arrays of.
    """
    if isinstance(dtype, np.dtype) and dtype in _LASTING:
        return _LASTING[dtype]
    if allow_extended_dtype and issubdtype(dtype, extended):
        return dtype
    dtype = _PYTHON.get(dtype) or np.dtype(dtype)
    if not dtype.isnative:
        dtype = dtype.newbyteorder("=")
    if dtype in _HALVED and not config.enable_x64:
        return _HALVED[dtype]
    if dtype not in _SUPPORTED_SET and dtype != float0:
        raise TypeError(f"dtype {dtype!r} is not a valid array type. Only arrays of numeric types are supported.")
    return dtype


def int_dtype() -> np.dtype:
    """What Python integers become: int32, or int64 with x64."""
    return INT64 if config.enable_x64 else INT32


def float_dtype() -> np.dtype:
    """What Python floats become: float32, or float64 with x64."""
    return FLOAT64 if config.enable_x64 else FLOAT32


@functools.lru_cache(1000)
def is_float(dtype) -> bool:
    """Whether values are real floating-point numbers (bfloat16 among them)."""
    dtype = np.dtype(dtype)
    return dtype.kind == "f" or dtype == BFLOAT16 or dtype in _NARROW_FLOATS


@functools.lru_cache(1000)
def is_complex(dtype) -> bool:
    """Whether values are complex numbers."""
    return np.dtype(dtype).kind == "c"


@functools.lru_cache(1000)
def is_inexact(dtype) -> bool:
    """Whether values are floating-point or complex numbers: those that have derivatives."""
    return np.dtype(dtype).kind == "c" or is_float(dtype)


@functools.lru_cache(1000)
def is_integer(dtype) -> bool:
    """Whether values are integers, signed or not."""
    return np.dtype(dtype).kind in "iu" or np.dtype(dtype) in _NARROW_INTS


def is_signed(dtype) -> bool:
    """Whether values are signed integers."""
    return np.dtype(dtype).kind == "i" or np.dtype(dtype) in _NARROW_SIGNED


@functools.lru_cache(1000)
def kind_of(dtype) -> str:
    """b, i, u, f or c: NumPy's letter of a dtype's kind, also of those that NumPy takes for raw bytes."""
    dtype = np.dtype(dtype)
    if dtype in _NARROW_INTS:
        return "i" if dtype in _NARROW_SIGNED else "u"
    return "f" if is_float(dtype) else dtype.kind


@functools.lru_cache(1000)
def is_bool(dtype) -> bool:
    """Whether values are booleans."""
    return np.dtype(dtype) == BOOL


class extended(np.generic):
    """The abstract type of dtypes beyond NumPy's: prng_key's."""


class prng_key(extended):
    """The abstract type of typed random keys' dtype: issubdtype(key.dtype, prng_key)."""


def _is_extra(dtype):
    """Whether it is one of ml_dtypes', which NumPy takes for raw bytes: bfloat16, float8 and integers of less than 8 bits."""
    try:
        return np.dtype(dtype).type.__module__ == "ml_dtypes"
    except TypeError:
        return False


def issubdtype(a, b) -> bool:
    """np.issubdtype that knows bfloat16 as a floating type, Python's scalar types and the dtype of random keys."""
    if b is prng_key or b is extended or getattr(a, "type", None) is prng_key:
        return getattr(a, "type", a) is prng_key and isinstance(b, type) and issubclass(prng_key, b)
    a = _PYTHON.get(a, a)
    if _is_extra(b):
        return _is_extra(a) and np.dtype(a) == np.dtype(b)
    if _is_extra(a):
        kind = np.dtype(a).name
        return np.issubdtype(np.int8 if kind.startswith("int") else np.uint8 if kind.startswith("uint") else np.float16, b) and (
            isinstance(b, type) and b.__subclasses__() != []
        )
    return np.issubdtype(a, b)


def finfo(dtype):
    """Machine limits of a floating dtype (np.finfo, with bfloat16 and narrower ones)."""
    dtype = np.dtype(dtype)
    return np.finfo(dtype) if dtype.isbuiltin == 1 else ml_dtypes.finfo(dtype)


def iinfo(int_type):
    """Limits of an integer dtype (np.iinfo, with those of less than 8 bits)."""
    dtype = np.dtype(int_type)
    return np.iinfo(dtype) if dtype.isbuiltin == 1 else ml_dtypes.iinfo(dtype)


def to_real(dtype) -> np.dtype:
    """The dtype of the real part."""
    dtype = np.dtype(dtype)
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def to_inexact(dtype) -> np.dtype:
    """Integers of 64 bits become the default float, narrower ones and bools float32 (with x64 too), inexact dtypes stay."""
    dtype = np.dtype(dtype)
    if is_inexact(dtype):
        return dtype
    return float_dtype() if dtype.itemsize == 8 else FLOAT32


def to_complex(dtype) -> np.dtype:
    """The complex dtype that holds values of `dtype`."""
    dtype = to_inexact(dtype)
    if dtype.kind == "c":
        return dtype
    return np.dtype(complex128 if dtype == FLOAT64 else complex64)


_WEAK = {"i": "i*", "u": "i*", "f": "f*", "c": "c*"}
_WIDEST = {"i*": INT64, "f*": FLOAT64, "c*": np.dtype(complex128)}
_EDGES = {
    "bool": ["i*"],
    "u8": ["i16", "u16"],
    "u16": ["i32", "u32"],
    "u32": ["i64", "u64"],
    "u64": ["f*"],
    "i*": ["u8", "i8", *(SHORT_NAMES[d] for d in NARROW_INTS)],
    "i8": ["i16"],
    "i16": ["i32"],
    "i32": ["i64"],
    "i64": ["f*"],
    "f*": ["c*", "bf16", "f16", *(SHORT_NAMES[d] for d in NARROW_FLOATS)],
    "bf16": ["f32"],
    "f16": ["f32"],
    "f32": ["f64", "c64"],
    "f64": ["c128"],
    "c*": ["c64"],
    "c64": ["c128"],
    "c128": [],
} | {SHORT_NAMES[d]: [] for d in NARROW}


def _uppers(node):
    out = {node}
    for up in _EDGES[node]:
        out |= _uppers(up)
    return out


_UPPERS = {node: frozenset(_uppers(node)) for node in _EDGES}
_BY_SHORT = {s: d for d, s in SHORT_NAMES.items()}


@functools.cache
def _join(nodes: frozenset) -> str:
    common = frozenset.intersection(*(_UPPERS[n] for n in nodes))
    for n in common:
        if _UPPERS[n] == common:
            return n
    names = ", ".join(_BY_SHORT[n].name if n in _BY_SHORT else n for n in sorted(nodes))
    raise TypePromotionError(
        f"Input dtypes ({names}) have no available implicit dtype promotion path: "
        "floats of 8 bits and integers of less than 8 do not promote. Cast with astype."
    )


def _node(dtype, weak):
    if weak and dtype != BOOL:
        return _WEAK[kind_of(dtype)]
    try:
        return SHORT_NAMES[dtype]
    except KeyError:
        raise TypeError(f"dtype {dtype} takes no part in type promotion") from None


def _from_node(node):
    if node == "i*":
        return int_dtype()
    if node == "f*":
        return float_dtype()
    if node == "c*":
        return np.dtype(complex128 if config.enable_x64 else complex64)
    return _BY_SHORT[node]


_KIND_RANK = {"b": -1, "i": 0, "u": 0, "f": 1, "c": 2}


def _check_strict(pairs):
    """Strict promotion: one dtype, and Python's numbers only where they lose nothing in it."""
    strong = {d for d, w in pairs if not w}
    highest = max((_KIND_RANK[kind_of(d)] for d, w in pairs if w), default=-1)
    if len(strong) > 1 or any(_KIND_RANK[kind_of(d)] < highest for d in strong):
        names = ", ".join(sorted(d.name + ("*" if w else "") for d, w in pairs))
        raise TypePromotionError(
            f"Input dtypes ({names}) have no available implicit dtype promotion path when jax_numpy_dtype_promotion=strict. "
            "Cast with astype, or use jax_numpy_dtype_promotion=standard."
        )


def promote(pairs) -> tuple[np.dtype, bool]:
    """The dtype and weak type of a result, from the (dtype, weak_type) pairs of its operands."""
    pairs = list(pairs)
    if config.numpy_dtype_promotion == "strict":
        _check_strict(pairs)
    dtypes = {d for d, _ in pairs}
    all_weak = all(w for _, w in pairs)
    if len(pairs) == 1:
        out, weak = pairs[0]
    elif len(dtypes) == 1 and not all_weak:
        out, weak = pairs[0][0], False
    elif all_weak:
        out, weak = _from_node(_join(frozenset(_node(d, False) for d in dtypes))), True
    else:
        node = _join(frozenset(_node(d, w) for d, w in pairs))
        out, weak = _from_node(node), node.endswith("*")
    out = canonicalize_dtype(out)
    return out, weak and out != BOOL


def _remembered(fun):
    """Decorator: what came before of dtypes, and of arrays and numbers by theirs, is looked up."""
    known: dict = {}

    @functools.wraps(fun)
    def looked_up(*args):
        try:
            key = (config.key(), *[_type_of(a) for a in args])
            out = known.get(key)
        except TypeError:  # what has no hash, or is something else
            return fun(*args)
        if out is None:
            if len(known) > 4096:
                known.clear()
            out = known[key] = fun(*args)
        return out

    return looked_up


def _type_of(a):
    """What tells an operand's part in promotion apart; TypeError for what is no array, number, dtype or name of one."""
    t = type(a)
    if t in _PYTHON:
        return t
    if t is np.ndarray:
        return a.dtype
    aval = getattr(a, "aval", None)
    if aval is not None:
        return aval.dtype, aval.weak_type
    if isinstance(a, (type, str, np.dtype)):
        return t, a
    raise TypeError(t)


@_remembered
def promote_types(a, b) -> np.dtype:
    """JAX's binary promotion of dtypes, 64-bit ones among them without x64 too, where uint32 and a signed integer are int32; Python's
    int, float and complex count as weak.

    >>> import fgrad.numpy as jnp
    >>> jnp.promote_types("int32", "bfloat16")
    dtype(bfloat16)
    >>> jnp.promote_types("int8", "uint32")
    dtype('int32')
    """

    def pair(t):
        weak = t is int or t is float or t is complex  # not ==, which np.dtype("float64") answers with True
        canonicalize_dtype(t)  # refuses what arrays cannot have
        return np.dtype(t).newbyteorder("="), weak

    pairs = [pair(a), pair(b)]
    if config.numpy_dtype_promotion == "strict":
        _check_strict(pairs)
    node = _join(frozenset(_node(d, w) for d, w in pairs))
    dtype = _WIDEST.get(node) or _BY_SHORT[node]
    if dtype == int64 and not config.enable_x64 and not any(w or d.itemsize == 8 for d, w in pairs):
        return np.dtype(int32)
    return dtype


def scalar_dtype(x) -> np.dtype:
    """The dtype of a Python scalar."""
    t = type(x)
    if t is bool:
        return BOOL
    if t is int:
        return int_dtype()
    if t is float:
        return float_dtype()
    if t is complex:
        return np.dtype(complex128 if config.enable_x64 else complex64)
    raise TypeError(f"{x!r} is not a Python scalar")


def check_user_dtype(dtype, name="dtype"):
    """canonicalize a dtype argument of a public function."""
    try:
        return canonicalize_dtype(dtype)
    except TypeError as e:
        raise TypeError(f"{name}: {e}") from None


def itemsize_bits(dtype) -> int:
    """Bits per element, of what may take a byte in memory too."""
    dtype = np.dtype(dtype)
    return (iinfo(dtype) if is_integer(dtype) else finfo(dtype)).bits if dtype in NARROW else dtype.itemsize * 8


def scalar_type_of(x) -> type:
    """The Python scalar type (bool, int, float or complex) that values of x's dtype are of."""
    dtype = np.dtype(getattr(x, "dtype", None) or _PYTHON.get(type(x)) or x)
    return bool if is_bool(dtype) else int if is_integer(dtype) else complex if is_complex(dtype) else float


def _extended_type(args):
    """The one dtype beyond NumPy's of all of `args`."""
    first, *others = [getattr(a, "dtype", a) for a in args]
    if any(d != first for d in others):
        raise ValueError(f"dtypes {first} and {', '.join(map(str, others))} do not promote")
    return first


@_remembered
def _promoted(*args):
    """(dtype, whether it is weak) of what these operands promote to."""
    if not args:
        raise ValueError("at least one array or dtype is required")
    pairs = []
    for a in args:
        aval = getattr(a, "aval", None)
        if aval is not None and isinstance(aval.dtype, np.dtype):
            pairs.append((aval.dtype, aval.weak_type))
        elif type(a) in (bool, int, float, complex):
            pairs.append((scalar_dtype(a), type(a) is not bool))
        elif issubclass(getattr(getattr(a, "dtype", a), "type", object), extended):
            return _extended_type(args), False
        elif hasattr(a, "dtype") and not (isinstance(a, type) and issubclass(a, np.generic)):
            pairs.append((canonicalize_dtype(a.dtype), False))
        elif isinstance(a, (int, float, complex)):  # of a subclass, as of enum.IntEnum
            kind = next(kind for kind in (int, float, complex) if isinstance(a, kind))
            pairs.append((scalar_dtype(kind(a)), True))
        else:
            pairs.append((canonicalize_dtype(a), a in (int, float, complex)))
    return promote(pairs)


def result_type(*args, return_weak_type_flag=False):
    """The dtype that these operands (arrays, scalars, dtypes) promote to; with return_weak_type_flag, and whether it is weak."""
    out = _promoted(*args)
    return out if return_weak_type_flag else out[0]
