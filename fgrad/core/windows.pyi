from typing import Any

def known_window(shape: tuple[int, ...], idx: Any) -> tuple[list[int], tuple[int, ...], tuple[int, ...]] | None: ...
def parted(idx: Any) -> tuple[list, tuple, tuple | None] | None: ...
def install_place(cls: type) -> Any: ...

ARRAY: str
WHOLE: str

class Place:
    array: Any
    index: Any
