"""Transformations of updates under the names of optax.transforms."""

from fgrad.optim.base import EmptyState as NonNegativeParamsState
from fgrad.optim.clipping import (
    ZeroNansState,
    adaptive_grad_clip,
    clip,
    clip_by_block_rms,
    clip_by_global_norm,
    keep_params_nonnegative,
    per_example_global_norm_clip,
    per_example_layer_norm_clip,
    unitwise_clip,
    unitwise_norm,
    zero_nans,
)
from fgrad.optim.combining import (
    chain,
    named_chain,
)
from fgrad.optim.masking import (
    MaskedNode,
    MaskedState,
    PartitionState,
    freeze,
    masked,
    partition,
    selective_transform,
)
from fgrad.optim.monitoring import (
    MonitorState,
    SnapshotState,
    measure_with_ema,
    monitor,
    snapshot,
)
from fgrad.optim.scaling import (
    AddNoiseState,
    EmaState,
    TraceState,
    add_decayed_weights,
    add_noise,
    ema,
    trace,
)
from fgrad.optim.wrappers import (
    ApplyIfFiniteState,
    ConditionallyMaskState,
    ConditionallyTransformState,
    MultiSteps,
    MultiStepsState,
    apply_if_finite,
    conditionally_mask,
    conditionally_transform,
    flatten,
    skip_large_updates,
    skip_not_finite,
)

__all__ = [
    "AddNoiseState", "ApplyIfFiniteState", "ConditionallyMaskState", "ConditionallyTransformState", "EmaState", "MaskedNode",
    "MaskedState", "MonitorState", "MultiSteps", "MultiStepsState", "NonNegativeParamsState", "PartitionState", "SnapshotState",
    "TraceState", "ZeroNansState", "adaptive_grad_clip", "add_decayed_weights", "add_noise", "apply_if_finite", "chain", "clip",
    "clip_by_block_rms", "clip_by_global_norm", "conditionally_mask", "conditionally_transform", "ema", "flatten", "freeze",
    "keep_params_nonnegative", "masked", "measure_with_ema", "monitor", "named_chain", "partition", "per_example_global_norm_clip",
    "per_example_layer_norm_clip", "selective_transform", "skip_large_updates", "skip_not_finite", "snapshot", "trace",
    "unitwise_clip", "unitwise_norm", "zero_nans",
]  # fmt: skip
