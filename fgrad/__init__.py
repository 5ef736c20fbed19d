"""fgrad: JAX's programming model, made for the CPU."""

from importlib import import_module

from fgrad import _einops, _loaded, core, debug, dtypes, errors, lax, numpy, tree, version
from fgrad import config as _config_module
from fgrad._absent import why as _why_absent
from fgrad._kernels.memory import memory_stats, trim_memory
from fgrad._kernels.parallel import get_num_threads, set_num_threads
from fgrad.api import (
    ShapeDtypeStruct,
    ad,
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
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
    make_jaxpr,
    make_mesh,
    named_call,
    named_scope,
    pmap,
    print_environment_info,
    process_count,
    process_index,
    process_indices,
    set_mesh,
    shard_map,
    typeof,
    value_and_grad,
    vjp,
    vmap,
)
from fgrad.config import (
    check_tracer_leaks,
    checking_leaks,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_checks,
    enable_custom_prng,
    enable_x64,
    explain_cache_misses,
    legacy_prng_key,
    log_compiles,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from fgrad.control.callback import effects_barrier, pure_callback
from fgrad.core import Array
from fgrad.core.device import Device
from fgrad.core.refs import Ref, empty_ref, free_ref, freeze, new_ref
from fgrad.core.sharding import NamedSharding
from fgrad.core.sharding import PartitionSpec as P
from fgrad.dtypes import float0
from fgrad.numpy.slices import dslice as ds
from fgrad.transforms import checkpoint_policies
from fgrad.transforms.remat import checkpoint
from fgrad.version import __version__, __version_info__

config = _config_module.config
remat = checkpoint
host_count, host_id, host_ids = process_count, process_index, process_indices


# Submodules that are imported when first asked for: `import fgrad` stays quick.
_SUBMODULES = """
    ad_checkpoint api_util custom_batching custom_derivatives differential distributed dlpack example_libraries experimental export extend
    flatten_util ggml image interpreters memory monitoring nn ops optim profiler random ref scipy sharding stages test_util tree_util typing
""".split()
_DIFFERENTIAL = """
    deriv elementwise_grad grad_and_aux grad_named hessian_tensor_product hessian_vector_product holomorphic_grad make_ggnvp make_hvp
    make_jvp make_vjp tensor_jacobian_product vector_jacobian_product
""".split()
_PRODUCTS = ("einsum", "tensordot", "transpose")
_FROM = {"custom_gradient": "custom_derivatives", "reshard": "sharding", **dict.fromkeys(_DIFFERENTIAL, "differential")}


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_FROM})


def __getattr__(name):
    if name in _SUBMODULES:
        return import_module(f"fgrad.{name}")
    if name in _PRODUCTS:  # opt_einsum asks the package that an array's class comes from
        return getattr(numpy, name)
    if name in _FROM:
        return getattr(import_module(f"fgrad.{_FROM[name]}"), name)
    raise AttributeError(f"module 'fgrad' has no attribute {name!r}{_why_absent(name)}")
