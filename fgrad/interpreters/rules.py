"""A kind of rule as a mapping from primitives to rules."""

from fgrad.core import registry


class Rules:
    """primitive -> rule: `wrap` makes a rule as primitives keep it of one as it is set."""

    def __init__(self, attribute, wrap):
        self._attribute, self._wrap = attribute, wrap
        self._given: dict = {}

    def __setitem__(self, prim, rule):
        self._given[prim] = rule
        setattr(prim, self._attribute, self._wrap(prim, rule))

    def __getitem__(self, prim):
        if prim not in self:
            raise KeyError(prim)
        return self._given.get(prim) or getattr(prim, self._attribute)

    def __contains__(self, prim):
        return getattr(prim, self._attribute) is not None

    def __iter__(self):
        return iter({*self._given, *[p for p in registry.values() if p in self]})

    def get(self, prim, default=None):
        return self[prim] if prim in self else default
