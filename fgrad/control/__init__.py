"""Higher-order primitives with all their rules: jit, cond, while, scan, callbacks."""

import fgrad.control.motion  # noqa: F401  gives loops their rule `move`
