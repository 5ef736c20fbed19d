"""Optimizers that estimate their own learning rate or need no schedule, and wrappers around others, under the names of optax.contrib."""

from fgrad.optim.contrib.distances import (
    DAdaptAdamWState,
    DoGState,
    DoWGState,
    ProdigyState,
    dadapt_adamw,
    dog,
    dowg,
    prodigy,
    scale_by_dog,
    scale_by_dowg,
)
from fgrad.optim.contrib.sam import NormalizeState, SAMState, normalize, sam
from fgrad.optim.contrib.schedule_free import (
    ScheduleFreeState,
    schedule_free,
    schedule_free_adamw,
    schedule_free_eval_params,
    schedule_free_sgd,
)
from fgrad.optim.muon import MuonState, muon, scale_by_muon

__all__ = [
    "DAdaptAdamWState", "DoGState", "DoWGState", "MuonState", "NormalizeState", "ProdigyState", "SAMState", "ScheduleFreeState",
    "dadapt_adamw", "dog", "dowg", "muon", "normalize", "prodigy", "sam", "scale_by_dog", "scale_by_dowg", "scale_by_muon",
    "schedule_free", "schedule_free_adamw", "schedule_free_eval_params", "schedule_free_sgd",
]  # fmt: skip
