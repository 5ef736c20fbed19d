"""The public surface: every callable says what it does, and nothing leaks into it by accident."""

import importlib
import subprocess
import sys
import types

import pytest

import fgrad

SURFACE = [
    "fgrad",
    "fgrad.numpy",
    "fgrad.lax",
    "fgrad.image",
    "fgrad.nn",
    "fgrad.nn.initializers",
    "fgrad.optim",
    "fgrad.optim.tree_utils",
    "fgrad.tree",
    "fgrad.tree_util",
    "fgrad.random",
    "fgrad.lax.linalg",
    "fgrad.numpy.fft",
    "fgrad.numpy.linalg",
    "fgrad.scipy.fft",
    "fgrad.scipy.linalg",
    "fgrad.scipy.special",
    "fgrad.scipy.stats",
    "fgrad.scipy.signal",
    "fgrad.scipy.ndimage",
    "fgrad.scipy.optimize",
    "fgrad.scipy.cluster.vq",
    "fgrad.scipy.sparse.linalg",
    "fgrad.scipy.interpolate",
    "fgrad.scipy.spatial.transform",
    "fgrad.example_libraries.optimizers",
    "fgrad.example_libraries.stax",
    "fgrad.experimental.ode",
    "fgrad.ops",
    "fgrad.debug",
    "fgrad.profiler",
    "fgrad.test_util",
    "fgrad.custom_derivatives",
    "fgrad.custom_batching",
    "fgrad.api_util",
    "fgrad.extend.backend",
    "fgrad.extend.core",
    "fgrad.extend.linear_util",
    "fgrad.interpreters.ad",
    "fgrad.interpreters.batching",
    "fgrad.interpreters.mlir",
    "fgrad.interpreters.xla",
    "fgrad.sharding",
]
WITH_EXAMPLES = """
    jit grad value_and_grad vjp jvp linearize linear_transpose vmap jacfwd jacrev hessian make_jaxpr eval_shape custom_jvp custom_vjp
    checkpoint closure_convert enable_x64 Array ShapeDtypeStruct device_put device_get
    lax.scan lax.while_loop lax.fori_loop lax.cond lax.switch lax.map lax.stop_gradient
    tree.map tree.flatten tree.reduce tree.register_dataclass
    optim.adamw nn.softmax random.split random.normal
""".split()


def callables(module):
    for name in sorted(vars(module)):
        value = getattr(module, name)
        if not name.startswith("_") and callable(value) and not isinstance(value, types.ModuleType):
            yield name, value


@pytest.mark.parametrize("name", SURFACE)
def test_every_public_callable_has_a_docstring(name):
    module = importlib.import_module(name)
    own = lambda v: vars(v).get("__doc__") if isinstance(v, type) else v.__doc__
    assert not [n for n, v in callables(module) if not own(v)]


def test_functions_of_numpy_are_its_own():
    """A star import must not put a primitive's function, which does not promote, in the place of NumPy's."""
    wrong = [n for n, v in callables(fgrad.numpy) if str(getattr(v, "__module__", "")).startswith(("fgrad.ops", "fgrad.lax"))]
    assert not wrong


@pytest.mark.parametrize("path", WITH_EXAMPLES)
def test_main_functions_have_an_example(path):
    value = fgrad
    for part in path.split("."):
        value = getattr(value, part)
    assert ">>>" in value.__doc__


def test_py_typed_is_shipped():
    from importlib.resources import files

    assert files("fgrad").joinpath("py.typed").is_file()


IMPORT = """
import gc
{before}
seen = []
gc.callbacks.append(lambda phase, info: seen.append(info["generation"]))
import fgrad
print(gc.isenabled(), max(seen, default=0), gc.get_freeze_count())
"""


@pytest.mark.parametrize("before, said", [("", "True 0 0"), ("gc.disable()", "False 0 0"), ("gc.freeze()", None)])
def test_import_leaves_the_collector_as_it_was(before, said):
    """And is not walked by it: no collection beyond the youngest objects, which the modules before the package's own may cause."""
    code = IMPORT.format(before=before)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    if said is not None:
        assert out == said
    else:
        assert out.startswith("True 0 ") and not out.endswith(" 0")  # what was frozen stays so
