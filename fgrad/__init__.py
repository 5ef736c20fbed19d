"""fgrad: JAX's programming model, made for the CPU."""

from fgrad import ad_checkpoint, core, debug, dlpack, dtypes, errors, lax, nn, numpy, optim, random, scipy, tree, tree_util
from fgrad import config as _config_module
from fgrad._kernels.memory import memory_stats, trim_memory
from fgrad._kernels.parallel import get_num_threads, set_num_threads
from fgrad.api import (
    ShapeDtypeStruct,
    block_until_ready,
    closure_convert,
    custom_jvp,
    custom_vjp,
    device_get,
    device_put,
    ensure_compile_time_eval,
    eval_shape,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    make_jaxpr,
    value_and_grad,
    vjp,
    vmap,
)
from fgrad.config import disable_jit, enable_x64
from fgrad.control.callback import effects_barrier, pure_callback
from fgrad.core import Array
from fgrad.dtypes import float0
from fgrad.transforms import checkpoint_policies
from fgrad.transforms.remat import checkpoint

config = _config_module.config
remat = checkpoint
__version__ = "0.1.0"
