"""Functions in the wrapper that JAX's libraries pass between transformations."""

import functools

__all__ = [
    "StoreException",
    "WrappedFun",
    "transformation",
    "transformation2",
    "transformation_with_aux",
    "transformation_with_aux2",
    "wrap_init",
]


class StoreException(Exception):
    """An auxiliary result was asked for before the function was called."""


class WrappedFun:
    """A function: `call_wrapped` calls it with its transformations, `f` is it without them."""

    def __init__(self, f, transformed=None):
        self.f, self.call_wrapped = f, transformed or f
        self.__name__ = getattr(f, "__name__", type(f).__name__)

    def wrap(self, gen, static_args):
        """This function f transformed: called with args it is gen(f, *static_args, *args)."""
        return WrappedFun(self.f, functools.partial(gen, self.call_wrapped, *static_args))


def wrap_init(f, params=None, *, debug_info=None):
    """A function as a WrappedFun, with keyword arguments `params` bound."""
    return WrappedFun(functools.partial(f, **params) if params else f)


def _through(gen):
    """A generator as a function: it yields (args, kwargs) for f, is sent f's result, and yields its own."""

    def call(f, *args, **kwargs):
        steps = gen(*args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        return steps.send(f(*inner_args, **inner_kwargs))

    return call


def transformation2(gen):
    """A transformation of WrappedFuns, t(fun, *static_args): the result calls gen(f, *static_args, *args) for fun's function f."""

    @functools.wraps(gen)
    def transform(fun, *static_args):
        return fun.wrap(gen, static_args)

    return transform


def transformation(gen):
    """transformation2 of a generator: gen(*static_args, *args) yields (args, kwargs) for f, is sent f's result, and yields its own.

    >>> @transformation
    ... def doubled(*args):
    ...     out = yield args, {}
    ...     yield 2 * out
    >>> doubled(wrap_init(lambda x: x + 1)).call_wrapped(3)
    8
    """
    return functools.wraps(gen)(transformation2(_through(gen)))


def transformation_with_aux2(gen):
    """transformation2 for gen(f, store, *static_args, *args): t gives (the transformed function, a function that gives what was stored).

    `store.store(x)` stores; what it gives raises StoreException before.
    """

    @functools.wraps(gen)
    def transform(fun, *static_args):
        store = _Store()
        return fun.wrap(gen, (store, *static_args)), store.read

    return transform


def transformation_with_aux(gen):
    """`transformation` of a generator that yields (its result, an auxiliary one): t gives (the function, what gives the latter)."""

    def call(f, store, *args, **kwargs):
        out, aux = _through(gen)(f, *args, **kwargs)
        store.store(aux)
        return out

    return functools.wraps(gen)(transformation_with_aux2(call))


class _Store:
    def __init__(self):
        self._values = []

    def store(self, x):
        self._values[:] = [x]

    def read(self):
        if not self._values:
            raise StoreException("Store empty")
        return self._values[0]
