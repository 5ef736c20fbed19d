"""Iterative solvers, fgrad.scipy.sparse.linalg."""

from fgrad.scipy.sparse import linalg
