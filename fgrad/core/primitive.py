"""Primitives.  A primitive is declared once, with all its rules beside each other."""

from fgrad.core.context import context
from fgrad.core.tracing import PrimitiveBase

registry: dict[str, "Primitive"] = {}


class Primitive(PrimitiveBase):
    """An operation that the IR knows.

    Rules, given at declaration or set right after it:
      abstract_eval(*avals, **params) -> aval (a list of avals with multiple_results)
      jvp(primals, tangents, **params) -> (primal_out, tangent_out); tangents may be Zero
      transpose(cts, *args, **params) -> a cotangent or None per arg; linear args arrive as Linear(aval)
      batch(axis, args, dims, **params) -> (outs, out_dims); dims are None where an argument has no batch axis
      lower(ctx, ins, params, out_avals) -> compiler values
      partial_eval(trace, args, params) -> outs, for higher-order primitives (see transforms.linearize)
      dce(eqn, used_outs) -> an equation of the used outputs only, for primitives with sub-jaxprs (see transforms.linearize)
      move(eqn) -> a closed jaxpr that computes the same with less inside its loop, or None, for loops (see control.motion)
      impl(*args, **params) -> outs: only for primitives that are not run as a compiled one-equation program
    """

    call_primitive = map_primitive = False  # as JAX's that interpreters of jaxprs may look into are told
    linear: "Primitive"  # of a custom vjp: the linear primitive that stands for its derivative

    def __init__(
        self,
        name,
        *,
        multiple_results=False,
        abstract_eval=None,
        jvp=None,
        transpose=None,
        batch=None,
        lower=None,
        partial_eval=None,
        impl=None,
        effects=None,
        kind="kernel",
        listed=True,
    ):
        self.name = name
        self.multiple_results = multiple_results
        self.abstract_eval, self.jvp, self.transpose, self.batch = abstract_eval, jvp, transpose, batch
        self.lower, self.partial_eval, self.impl, self.effects = lower, partial_eval, impl, effects
        self.bind_eqn = self._bind_eqn
        self.dce = self.move = None
        self.kind = kind  # "kernel", "call" (has sub-jaxprs), or "collective"
        if listed:  # one of fgrad's, whose rules and tests must be complete
            if name in registry:
                raise ValueError(f"primitive {name!r} is declared twice")
            registry[name] = self

    def __repr__(self):
        return self.name

    def _bind_eqn(self, eqn, args):
        """Interpret an equation of this primitive on `args`; custom derivatives hand their functions on instead."""
        return context.trace.process_primitive(self, args, eqn.params)

    def get_bind_params(self, params):
        """The keyword arguments for `bind` of an equation with `params`, for interpreters of jaxprs, which may change them."""
        return dict(params)

    def effects_of(self, params):
        if self.effects is None:
            return frozenset()
        return self.effects(params)
