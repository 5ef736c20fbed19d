from collections.abc import Callable
from typing import Any

def tile(units: list, outs: list, build: Callable[..., Any]) -> list: ...
