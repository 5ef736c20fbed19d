from collections.abc import Sequence
from typing import Any

KERNELS: dict[str, tuple[int, int]]

def gather_ip(
    offset_dims: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    operand_batching_dims: Sequence[int],
    start_indices_batching_dims: Sequence[int],
    slice_sizes: Sequence[int],
    fill: bool,
    fill_value: Any = None,
) -> list[int]: ...
def scatter_ip(
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    operand_batching_dims: Sequence[int],
    scatter_indices_batching_dims: Sequence[int],
    kind: str,
    drop: bool,
) -> list[int]: ...
def __getattr__(name: str) -> Any: ...
