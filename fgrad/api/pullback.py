"""What vjp gives beside the value: a function of cotangents that is a pytree of what it keeps of the forward pass."""

import dataclasses
import operator
from types import SimpleNamespace

from fgrad import array_tree as tree
from fgrad.core import Array, Tracer
from fgrad.core.refs import Ref
from fgrad.tree_util import register_dataclass, register_pytree_node


@register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class NotNeeded:
    """In `args_res`: the pullback does without this argument."""


@dataclasses.dataclass(frozen=True, slots=True)
class GradValue:
    """For `with_refs`: return this argument's cotangent."""


@register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class GradRef:
    """In place of a cotangent: it was added to a Ref."""


@dataclasses.dataclass(frozen=True, slots=True)
class DontWant:
    """For `with_refs`: leave this argument's cotangent out."""


@register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class DidntWant:
    """In place of a cotangent that was left out."""


ad = SimpleNamespace(DontWant=DontWant, DidntWant=DidntWant, GradRef=GradRef, GradValue=GradValue)
_NOT_NEEDED = NotNeeded()


def _is_mark(x):
    return isinstance(x, NotNeeded)


def _is_ref(x):
    return isinstance(x, Ref)


def _tuples(treedef, leaves):
    """The leaves, an iterator, as tuples of the tree's shape: containers of users might refuse what stands for a value."""
    return next(leaves) if treedef.is_leaf() else tuple(_tuples(t, leaves) for t in treedef.children())


class VJP:
    """A function of the cotangent of fun's result, which gives a tuple of cotangents, one per argument.

    `args_res` has the arguments that it needs as they were, one entry per argument, NotNeeded() for others; `opaque_residuals` what else
    it keeps of the forward pass. They are the leaves of the pytree that it is, and may be replaced by equal values.
    """

    __slots__ = ("__weakref__", "_apply", "_args", "_count", "_places", "args_res", "opaque_residuals")

    def __init__(self, apply, args, count, places, args_res, opaque_residuals):
        self._apply, self._args, self._count = apply, args, count
        self._places = places  # of each residual: its index among the opaque ones, or ~index among the arguments' leaves
        self.args_res, self.opaque_residuals = args_res, opaque_residuals

    def __call__(self, ct, *more):
        if more:
            raise TypeError(f"the pullback of vjp takes one argument, a cotangent of fun's result, got {1 + len(more)}")
        args = self.args_res
        if not all(type(x) is Array or type(x) is NotNeeded for x in args):
            args = tree.flatten(args, is_leaf=_is_mark)[0]
        if len(args) != self._count:
            raise ValueError(f"args_res has {len(args)} leaves, the arguments of the function have {self._count}")
        opaque = self.opaque_residuals
        return self._apply([opaque[i] if i >= 0 else args[~i] for i in self._places], ct)

    def with_refs(self, *refs):
        """A pullback that adds the cotangents to mutable arrays: an entry, or a tree of entries, per argument.

        An entry is a Ref (GradRef() is returned in place of the cotangent), `ad.GradValue()` or `ad.DontWant()` (DidntWant() is returned).

        >>> import fgrad
        >>> _, pullback = fgrad.vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> total = fgrad.new_ref(fgrad.numpy.float32(1))
        >>> pullback.with_refs(total, fgrad.ad.DontWant())(1.0)
        (GradRef(), DidntWant())
        >>> total
        Ref(4., dtype=float32)
        """
        entries, treedef = tree.flatten(refs, is_leaf=_is_ref)
        if treedef != self._args.children()[0]:
            raise ValueError(f"with_refs takes an entry per argument: got {treedef}, expected {self._args.children()[0]}")
        for x in entries:
            if not isinstance(x, (Ref, GradValue, DontWant)):
                raise TypeError(f"an entry of with_refs is a Ref, ad.GradValue() or ad.DontWant(), got {type(x).__name__}")

        def pullback(ct):
            out = []
            for entry, got in zip(entries, tree.flatten(self(ct))[0]):
                if isinstance(entry, Ref):
                    entry[...] += got
                out.append(GradRef() if isinstance(entry, Ref) else got if isinstance(entry, GradValue) else DidntWant())
            return tree.unflatten(treedef, out)

        return pullback


register_pytree_node(
    VJP,
    lambda f: ((f.args_res, f.opaque_residuals), (f._apply, f._args, f._count, f._places)),
    lambda static, children: VJP(*static, *children),
)


def pullback_of(apply, primals, args, leaves, residuals):
    """The VJP of apply(residuals, ct) for primals of the structure `args` ((primals, no keywords)) and their leaves."""
    where = {id(x): ~i for i, x in enumerate(leaves) if isinstance(x, (Array, Tracer))}
    places, opaque, used = [], [], set()
    for x in residuals:
        i = where.get(id(x))
        if i is None:
            i = len(opaque)
            opaque.append(x)
        else:
            used.add(id(x))
        places.append(i)
    kept = [x if id(x) in used else _NOT_NEEDED for x in leaves]
    if len(primals) != len(leaves) or not all(map(operator.is_, primals, leaves)):
        kept = list(_tuples(args.children()[0], iter(kept)))
    return VJP(apply, args, len(leaves), tuple(places), kept, opaque)
