"""Whole programs as tutorials and popular examples have them; importing this module fills the table."""

from tests.peers.tutorials import autodiff, inference, libraries, networks, optimisation, simulation
from tests.peers.tutorials.registry import TUTORIALS

__all__ = ["TUTORIALS", "autodiff", "inference", "libraries", "networks", "optimisation", "simulation"]
