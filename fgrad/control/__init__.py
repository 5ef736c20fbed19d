"""Higher-order primitives with all their rules: jit, cond, while, scan, callbacks."""
