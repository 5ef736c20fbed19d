"""JAX's primitives that are other operations' here, and tokens, which order nothing: effects happen in the order of the program."""

from fgrad import tree
from fgrad.core import Primitive
from fgrad.ops.logic import select_n
from fgrad.ops.shape import squeeze


class _Other(Primitive):
    """A name that rules can be set for and that binds to what it is here: no program has it."""

    def __init__(self, name, fun):
        super().__init__(name, listed=False)
        self.of = fun

    def bind(self, *args, **params):
        return self.of(*args, **params)


class Token:
    """What after_all and create_token give."""

    def __repr__(self):
        return "Token"


tree.register_pytree_node(Token, lambda token: ((), None), lambda _, children: Token())


def create_token(_=None):
    """A token."""
    return Token()


def after_all(*operands):
    """A token behind those of `operands`."""
    for x in operands:
        if not isinstance(x, Token):
            raise TypeError(f"Arguments to after_all must be tokens, got {x!r:.80}")
    return Token()


squeeze_p = _Other("squeeze", squeeze)
select_n_p = _Other("select_n", select_n)
after_all_p = _Other("after_all", after_all)
create_token_p = _Other("create_token", create_token)

__all__ = ["after_all", "after_all_p", "create_token", "create_token_p", "select_n_p", "squeeze_p"]
