"""Rotations, fgrad.scipy.spatial.transform."""

from fgrad.scipy.spatial import transform
