"""Transformations of flat functions and jaxprs: jvp, linearize and partial evaluation, transpose, vmap, custom rules, remat."""
