from typing import Any

KINDS: dict[str, int]

class Program:
    in_avals: list[Any]
    out_avals: list[Any]
    in_strides: list[Any]
    in_place: list[bool]
    labels: list[str]
    alias_bytes: int
    donated: tuple[int, ...]
    def __init__(
        self,
        *,
        slots: list[tuple],
        insts: list[tuple],
        in_avals: list,
        in_strides: list,
        in_codes: list[int],
        consts: list,
        outs: list[tuple],
        out_codes: list[int],
        arena_bytes: int,
        donated: tuple[int, ...] = (),
        small: bool = False,
        flat: bool = False,
    ) -> None: ...
    def run(self, args: list) -> list: ...
    def profile(self, args: list) -> tuple[list, list[float]]: ...
    @property
    def arena_bytes(self) -> int: ...
    @property
    def num_instructions(self) -> int: ...
    @property
    def num_flat_ops(self) -> int: ...

def __getattr__(name: str) -> Any: ...
