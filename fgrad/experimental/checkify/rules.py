"""The interpreter that carries errors through a jaxpr: a rule per primitive that checks or that has a program inside."""

import numpy as np

import fgrad.numpy as jnp
from fgrad.control.common import hoist, leaf_avals, run
from fgrad.control.cond import _bind as bind_cond
from fgrad.control.cond import cond_p
from fgrad.control.jit import jit_p
from fgrad.control.scan_rules import scan_p
from fgrad.control.while_loop import _bind as bind_while
from fgrad.control.while_loop import while_p
from fgrad.core import get_aval
from fgrad.core.jaxpr import Literal, replaying, source_inside
from fgrad.core.primitive import registry
from fgrad.dtypes import is_inexact
from fgrad.experimental.checkify.errors import DivisionByZeroError, NaNError, OOBError, Site, State, check_p
from fgrad.ops.rules import zero_of
from fgrad.transforms.custom import custom_jvp_call, custom_vjp_call
from fgrad.transforms.remat import remat_p

RULES = {}  # primitive -> rule(state, errors, args, eqn) -> outs

# Primitives whose results are computed: a NaN in them is theirs. (The others move values.)
_COMPUTING = """
    acos acosh add asin asinh atan atan2 atanh attention bessel_i0e bessel_i1e beta betainc betaln cbrt conv_general_dilated cos cosh
    cross_entropy cumlogsumexp cumprod cumsum custom_linear_solve digamma div dot_general erf erf_inv erfc exp exp2 expm1 fft fma
    gamma gelu gelu_exact hypot igamma igamma_grad_a igammac integer_pow layer_norm ldexp lgamma log log10 log1p log2 log_ndtr
    log_softmax logistic logit logsumexp mul ndtr ndtri pad polygamma pow psum reduce_prod reduce_sum reduce_window_sum rel_entr rem
    rms_norm rsqrt sin sinh softmax softplus sqrt square sub swiglu tan tanh zeta
""".split()


def interpret(state, errors, closed, args):
    """The outputs of a closed jaxpr; what it checks goes to `state`. errors: kinds of exceptions that are looked for."""
    jaxpr = closed.jaxpr
    env = {**dict(zip(jaxpr.constvars, closed.consts)), **dict(zip(jaxpr.invars, args))}
    read = lambda v: v.val if type(v) is Literal else env[v]  # noqa: E731
    before = replaying.source
    try:
        for eqn in jaxpr.eqns:
            replaying.source = source_inside(eqn)
            ins, rule = [read(v) for v in eqn.invars], RULES.get(eqn.primitive)
            out = eqn.primitive.bind_eqn(eqn, ins) if rule is None else rule(state, errors, ins, eqn)
            outs = out if eqn.primitive.multiple_results else [out]
            env.update(zip(eqn.outvars, outs))
            if NaNError in errors and eqn.primitive.name in _COMPUTING:
                _check_nans(state, eqn.primitive.name, outs)
    finally:
        replaying.source = before
    return [read(v) for v in jaxpr.outvars]


# --- automatic checks -------------------------------------------------------------------------------------------------------


def _check_nans(state, name, outs):
    bad = [jnp.any(jnp.isnan(x)) for x in outs if is_inexact(get_aval(x).dtype)]
    if bad:
        site = Site(NaNError, lambda _: NaNError(name))
        state.add(site, bad[0] if len(bad) == 1 else jnp.any(jnp.stack(bad)))


def _div(state, errors, args, eqn):
    if DivisionByZeroError in errors:
        state.add(Site(DivisionByZeroError, lambda _: DivisionByZeroError()), jnp.any(jnp.equal(args[1], 0)))
    return eqn.primitive.bind_eqn(eqn, args)


def _check_indices(state, indices, limits, axes, shape):
    """indices: (..., k), of `axes` of an array of `shape`; each must be in 0 .. limit."""
    indices, sizes = jnp.asarray(indices), np.asarray(shape, np.int32)[list(axes)]
    outside = (indices < 0) | (indices > np.asarray(limits, indices.dtype))
    if not outside.size:
        return
    first = jnp.argmax(outside.ravel())
    k = first % len(axes)
    parts = [indices.ravel()[first], jnp.asarray(tuple(axes))[k], jnp.asarray(sizes)[k]]
    values = jnp.stack([p.astype(np.int32) for p in parts])
    site = Site(OOBError, lambda xs: OOBError(tuple(shape), xs[0]), [get_aval(values)])
    state.add(site, jnp.any(outside), [values])


def _dynamic_slice(state, errors, args, eqn):
    return _checked_box(state, errors, args, eqn, args[1:], eqn.params["slice_sizes"])


def _dynamic_update_slice(state, errors, args, eqn):
    return _checked_box(state, errors, args, eqn, args[2:], get_aval(args[1]).shape)


def _checked_box(state, errors, args, eqn, starts, sizes):
    shape = get_aval(args[0]).shape
    if OOBError in errors and shape:
        limits = [n - k for n, k in zip(shape, sizes)]
        _check_indices(state, jnp.stack([jnp.asarray(s) for s in starts]), limits, range(len(shape)), shape)
    return eqn.primitive.bind_eqn(eqn, args)


def _gather(state, errors, args, eqn):
    axes, shape = eqn.params["dimension_numbers"].start_index_map, get_aval(args[0]).shape
    if OOBError in errors and axes:
        _check_indices(state, args[1], [shape[a] - eqn.params["slice_sizes"][a] for a in axes], axes, shape)
    return eqn.primitive.bind_eqn(eqn, args)


def _scatter(state, errors, args, eqn):
    d, shape, updates = eqn.params["dimension_numbers"], get_aval(args[0]).shape, get_aval(args[2]).shape
    axes = d.scatter_dims_to_operand_dims
    if OOBError in errors and axes:
        window = iter(d.update_window_dims)
        outside = (*d.inserted_window_dims, *d.operand_batching_dims)
        sizes = [1 if a in outside else updates[next(window)] for a in range(len(shape))]
        _check_indices(state, args[1], [shape[a] - sizes[a] for a in axes], axes, shape)
    return eqn.primitive.bind_eqn(eqn, args)


def _along(state, errors, args, eqn):
    axis, shape = eqn.params["axis"], get_aval(args[0]).shape
    if OOBError in errors:
        size = eqn.params.get("size", shape[axis])
        _check_indices(state, jnp.asarray(args[1])[..., None], [size - 1], [axis], shape)
    return eqn.primitive.bind_eqn(eqn, args)


def _index_bounds(state, errors, args, eqn):
    p = eqn.params
    if OOBError in errors:
        _check_indices(state, jnp.stack([jnp.asarray(i) for i in args], -1), p["limits"], p["axes"], p["shape"])
    return []


def _check(state, errors, args, eqn):
    code, *payload = args
    values, sites = iter(payload), eqn.params["sites"]
    given = {s: [next(values) for _ in s.avals] for s in sites}
    kept = {s: xs for s, xs in given.items() if s.kind in errors}
    if kept:
        if len(kept) < len(given):
            code = jnp.where(jnp.isin(code, np.asarray([s.code for s in kept], np.int32)), code, 0)
        state.merge(code, kept)
    return []


# --- programs inside --------------------------------------------------------------------------------------------------------


class _Checked:
    """A closed jaxpr that also gives its error: run(*args) -> [*outs, code, *values] (only outs where nothing is checked)."""

    def __init__(self, closed, errors):
        def flat(*args):
            inner = State()  # its tracers end with the staging
            outs = interpret(inner, errors, closed, args)
            self.sites = inner.sites
            return outs if inner.code is None else [*outs, *inner.flat()]

        self.consts, self.jaxpr = hoist(flat, closed.in_avals, closed.jaxpr.debug_name)
        self.n = len(closed.out_avals)

    def run(self, *args):
        return run(self.jaxpr, *self.consts, *args)

    def take(self, state, outs):
        """The outputs proper of run's; the error goes to `state`."""
        if self.sites:
            inner = State.of(self.sites, outs[self.n :])
            state.merge(inner.code, inner.payload)
        return outs[: self.n]


def _all_sites(*parts):
    return tuple(dict.fromkeys(s for p in parts for s in p.sites))


def _jit(state, errors, args, eqn):
    inner = _Checked(eqn.params["jaxpr"], errors)
    return inner.take(state, jit_p.bind(*inner.consts, *args, jaxpr=inner.jaxpr, name=eqn.params["name"], donated=()))


def _remat(state, errors, args, eqn):
    inner = _Checked(eqn.params["jaxpr"], errors)
    return inner.take(state, remat_p.bind(*inner.consts, *args, **{**eqn.params, "jaxpr": inner.jaxpr}))


def _cond(state, errors, args, eqn):
    branches = [_Checked(b, errors) for b in eqn.params["branches"]]
    sites = _all_sites(*branches)

    def fun(branch):
        def flat(*xs):
            own = State.clean(sites)
            outs = branch.take(own, branch.run(*xs))
            return [*outs, *(own.flat() if sites else [])]

        return flat

    outs = bind_cond(args[0], args[1:], [fun(b) for b in branches], "cond")
    return _split(state, sites, outs, branches[0].n)


def _split(state, sites, outs, n):
    if sites:
        inner = State.of(sites, outs[n:])
        state.merge(inner.code, inner.payload)
    return outs[:n]


def _scan(state, errors, args, eqn):
    p, inner = eqn.params, _Checked(eqn.params["jaxpr"], errors)
    nk, nc = p["num_consts"], p["num_carry"]
    sites = inner.sites
    start = State.clean(sites).flat() if sites else []
    ns = len(start)

    def body(*a):
        own = State.of(sites, a[nk + nc : nk + nc + ns]) if sites else State()
        outs = inner.take(own, inner.run(*a[: nk + nc], *a[nk + nc + ns :]))
        return [*outs[:nc], *(own.flat() if sites else []), *outs[nc:]]

    avals = p["jaxpr"].in_avals
    ks, jaxpr = hoist(body, [*avals[: nk + nc], *leaf_avals(start), *avals[nk + nc :]], p["jaxpr"].jaxpr.debug_name)
    ins = [*ks, *args[: nk + nc], *start, *args[nk + nc :]]
    outs = scan_p.bind(*ins, **{**p, "jaxpr": jaxpr, "num_consts": len(ks) + nk, "num_carry": nc + ns})
    return _split(state, sites, [*outs[:nc], *outs[nc + ns :], *outs[nc : nc + ns]], len(outs) - ns)


def _while(state, errors, args, eqn):
    p, a, b = eqn.params, eqn.params["cond_nconsts"], eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
    cond, body = _Checked(p["cond_jaxpr"], errors), _Checked(p["body_jaxpr"], errors)
    ck, bk, carry, sites = args[:a], args[a:b], args[b:], _all_sites(cond, body)
    n = len(carry)
    if not sites:
        return bind_while(carry, lambda *c: cond.run(*ck, *c), lambda *c: body.run(*bk, *c))
    start = State.clean(sites)
    cond.take(start, cond.run(*ck, *carry))

    def step(*c):
        own = State.of(sites, c[n:])
        outs = body.take(own, body.run(*bk, *c[:n]))
        cond.take(own, cond.run(*ck, *outs))
        return [*outs, *own.flat()]

    outs = bind_while([*carry, *start.flat()], lambda *c: cond.run(*ck, *c[:n])[:1], step)
    return _split(state, sites, outs, n)


def _custom_jvp(state, errors, args, eqn):
    p = eqn.params
    inner, n = _Checked(p["call_jaxpr"], errors), p["num_consts"]
    base = lambda *xs: inner.run(*args[:n], *xs)  # noqa: E731

    def jvp(primals, tangents):
        outs, out_tangents = p["jvp"](primals, tangents)
        rest = base(*primals)[inner.n :]
        return [*outs, *rest], [*out_tangents, *map(zero_of, rest)]

    return inner.take(state, custom_jvp_call(base, jvp, args[n:], p["name"]))


def _custom_vjp(state, errors, args, eqn):
    p = eqn.params
    inner, n = _Checked(p["call_jaxpr"], errors), p["num_consts"]
    base = lambda *xs: inner.run(*args[:n], *xs)  # noqa: E731

    def fwd(perturbed, *primals):
        outs, residuals = p["fwd"](perturbed, *primals)
        return [*outs, *base(*primals)[inner.n :]], residuals

    return inner.take(state, custom_vjp_call(base, fwd, lambda res, cts: p["bwd"](res, cts[: inner.n]), args[n:], p["name"]))


RULES.update({check_p: _check, jit_p: _jit, remat_p: _remat, cond_p: _cond, scan_p: _scan, while_p: _while})
for _name, _rule in {
    "div": _div,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "take_along": _along,
    "put_along": _along,
    "index_bounds": _index_bounds,
    "custom_jvp_call": _custom_jvp,
    "custom_vjp_call": _custom_vjp,
    **{f"scatter{kind}": _scatter for kind in ("", "_add", "_mul", "_min", "_max")},
}.items():
    RULES[registry[_name]] = _rule
