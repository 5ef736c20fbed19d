"""The transformations as users call them: over pytrees, with JAX's names and signatures."""

from fgrad.api.common import ShapeDtypeStruct
from fgrad.api.custom import custom_jvp, custom_vjp
from fgrad.api.derivatives import grad, jvp, linear_transpose, linearize, value_and_grad, vjp
from fgrad.api.device import block_until_ready, device_get, device_put, ensure_compile_time_eval
from fgrad.api.jacobians import hessian, jacfwd, jacobian, jacrev
from fgrad.api.jit import JitFunction, jit
from fgrad.api.staging import closure_convert, eval_shape, make_jaxpr
from fgrad.api.vmap import vmap
