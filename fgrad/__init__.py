"""fgrad: JAX's programming model, made for the CPU."""

from fgrad import (
    ad_checkpoint,
    core,
    debug,
    dlpack,
    dtypes,
    errors,
    ggml,
    image,
    lax,
    nn,
    numpy,
    ops,
    optim,
    random,
    scipy,
    tree,
    tree_util,
)
from fgrad import config as _config_module
from fgrad._absent import why as _why_absent
from fgrad._kernels.memory import memory_stats, trim_memory
from fgrad._kernels.parallel import get_num_threads, set_num_threads
from fgrad.api import (
    ShapeDtypeStruct,
    block_until_ready,
    clear_caches,
    closure_convert,
    copy_to_host_async,
    custom_jvp,
    custom_vjp,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    ensure_compile_time_eval,
    eval_shape,
    fwd_and_bwd,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jit,
    jvp,
    linear_transpose,
    linearize,
    local_device_count,
    local_devices,
    make_jaxpr,
    named_call,
    named_scope,
    pmap,
    print_environment_info,
    process_count,
    process_index,
    process_indices,
    value_and_grad,
    vjp,
    vmap,
)
from fgrad.config import (
    check_tracer_leaks,
    checking_leaks,
    debug_infs,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_checks,
    enable_x64,
    explain_cache_misses,
    log_compiles,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    transfer_guard,
)
from fgrad.control.callback import effects_barrier, pure_callback
from fgrad.core import Array
from fgrad.core import get_aval as typeof
from fgrad.core.device import Device
from fgrad.dtypes import float0
from fgrad.transforms import checkpoint_policies
from fgrad.transforms.remat import checkpoint

# These import the package itself.
from fgrad import (  # isort: skip
    custom_batching,
    custom_derivatives,
    example_libraries,
    experimental,
    extend,
    flatten_util,
    profiler,
    stages,
    test_util,
    typing,
)
from fgrad.custom_derivatives import custom_gradient  # isort: skip

config = _config_module.config
remat = checkpoint
host_count, host_id, host_ids = process_count, process_index, process_indices
__version__ = version = "0.1.0"
__version_info__ = (0, 1, 0)


def __getattr__(name):
    raise AttributeError(f"module 'fgrad' has no attribute {name!r}{_why_absent(name)}")
