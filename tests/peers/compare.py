"""Comparing pytrees of two libraries: structure, shapes, dtypes, weak types, values."""

import dataclasses

import numpy as np

PYTHON = {bool: "bool[]", int: "~int32[]", float: "~float32[]", complex: "~complex64[]"}
TOLERANCE = {"bfloat16": 2e-2, "float16": 4e-3}


def described(x, path=""):
    """[(path, leaf)] of a pytree of either library; the paths tell the types of the containers."""
    if x is None:
        return [(path + ":None", None)]
    if isinstance(x, dict):
        return [p for k in sorted(x) for p in described(x[k], f"{path}{type(x).__name__}[{k!r}]")] or [(path + ":{}", None)]
    if isinstance(x, (list, tuple)):
        return [p for i, v in enumerate(x) for p in described(v, f"{path}{type(x).__name__}[{i}]")] or [
            (f"{path}:{type(x).__name__}()", None)
        ]
    if dataclasses.is_dataclass(x) and not hasattr(x, "dtype"):
        return [p for f in dataclasses.fields(x) for p in described(getattr(x, f.name), f"{path}{type(x).__name__}.{f.name}")]
    return [(path, x)]


def kind(x):
    """Type of a leaf as text: dtype, shape and weak type; Python scalars are what jit makes of them."""
    if x is None or type(x) in PYTHON:
        return PYTHON.get(type(x), "None")
    weak = "~" if getattr(x, "weak_type", False) else ""
    dtype = "float0" if x.dtype == np.dtype([("float0", "V")]) else x.dtype.name
    return f"{weak}{dtype}{list(x.shape)}"


def assert_same(got, want, label, rtol=1e-4):
    """Fail with `label` and the path of the first difference."""
    got, want = described(got), described(want)
    assert [p for p, _ in got] == [p for p, _ in want], f"{label}: structure {[p for p, _ in got]}, JAX has {[p for p, _ in want]}"
    for (path, g), (_, w) in zip(got, want):
        assert kind(g) == kind(w), f"{label}: at {path or 'the result'}: {kind(g)}, JAX has {kind(w)}"
        if w is None or kind(w).startswith("float0"):
            continue
        a, b = np.asarray(g), np.asarray(w)
        if b.dtype.kind in "biu":
            assert np.array_equal(a, b), f"{label}: at {path or 'the result'}:\n{a}\nJAX has\n{b}"
            continue
        wide = np.complex128 if b.dtype.kind == "c" else np.float64
        tol = max(rtol, TOLERANCE.get(b.dtype.name, 0))
        a, b = a.astype(wide), b.astype(wide)
        scale = np.abs(b[np.isfinite(b)]).max(initial=0)
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(scale, 1e-3), err_msg=f"{label}: at {path or 'the result'}")
