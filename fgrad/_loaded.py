"""Imports the package with no collection of garbage meanwhile: what an import makes stays, and would be walked again and again."""

import gc

_enabled = gc.isenabled()
gc.disable()
try:
    import fgrad.api
    import fgrad.lax
    import fgrad.numpy  # noqa: F401
finally:
    if gc.get_freeze_count() == 0:  # straight to the oldest generation, or the first jitted call would have it walked: 1.3 ms
        gc.freeze()
        gc.unfreeze()
    if _enabled:
        gc.enable()
