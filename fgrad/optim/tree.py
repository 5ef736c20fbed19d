"""tree_utils under the names without their prefix, as optax.tree."""

from fgrad.optim import tree_utils

__all__ = [name.removeprefix("tree_") for name in tree_utils.__all__]
globals().update({name.removeprefix("tree_"): getattr(tree_utils, name) for name in tree_utils.__all__})
