"""The transformations as users call them: over pytrees, with JAX's names and signatures."""

from fgrad.api.common import ShapeDtypeStruct
from fgrad.api.custom import custom_jvp, custom_vjp
from fgrad.api.custom_vmap import custom_vmap, sequential_vmap
from fgrad.api.derivatives import fwd_and_bwd, grad, jvp, linear_transpose, linearize, value_and_grad, vjp
from fgrad.api.device import (
    block_until_ready,
    copy_to_host_async,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    local_device_count,
    local_devices,
    print_environment_info,
    process_count,
    process_index,
    process_indices,
)
from fgrad.api.jacobians import hessian, jacfwd, jacobian, jacrev
from fgrad.api.jit import JitFunction, clear_caches, jit
from fgrad.api.parallel import named_call, named_scope, pmap
from fgrad.api.pullback import ad
from fgrad.api.sharding import (
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
    make_mesh,
    set_mesh,
    shard_map,
)
from fgrad.api.staging import closure_convert, eval_shape, make_jaxpr, typeof
from fgrad.api.vmap import vmap
from fgrad.core import ensure_compile_time_eval
