"""Small libraries that older JAX programs are written with: optimizers and stax. New ones use fgrad.optim and fgrad.nn."""
