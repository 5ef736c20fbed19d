"""Optimizers that estimate their own learning rate or need no schedule, and wrappers around others, under the names of optax.contrib."""

from fgrad.optim.contrib.adamlike import (
    ScaleByAdemamixState,
    ScaleBySimplifiedAdEMAMixState,
    acprop,
    ademamix,
    adopt,
    scale_by_acprop,
    scale_by_ademamix,
    scale_by_adopt,
    scale_by_simplified_ademamix,
    simplified_ademamix,
)
from fgrad.optim.contrib.around import (
    DifferentiallyPrivateAggregateState,
    HutchinsonState,
    ReduceLROnPlateauState,
    SophiaState,
    SplitRealAndImaginaryArrays,
    SplitRealAndImaginaryState,
    differentially_private_aggregate,
    dpsgd,
    hutchinson_estimator_diag_hessian,
    reduce_on_plateau,
    scale_by_sophia,
    sophia,
    split_real_and_imaginary,
)
from fgrad.optim.contrib.betting import (
    COCOBState,
    MadgradState,
    MechanicState,
    MomoAdamState,
    MomoState,
    cocob,
    madgrad,
    mechanize,
    momo,
    momo_adam,
    scale_by_cocob,
    scale_by_madgrad,
)
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
    "COCOBState", "DAdaptAdamWState", "DifferentiallyPrivateAggregateState", "DoGState", "DoWGState", "HutchinsonState",
    "MadgradState", "MechanicState", "MomoAdamState", "MomoState", "MuonState", "NormalizeState", "ProdigyState",
    "ReduceLROnPlateauState", "SAMState", "ScaleByAdemamixState", "ScaleBySimplifiedAdEMAMixState", "ScheduleFreeState", "SophiaState",
    "SplitRealAndImaginaryArrays", "SplitRealAndImaginaryState", "acprop", "ademamix", "adopt", "cocob", "dadapt_adamw",
    "differentially_private_aggregate", "dog", "dowg", "dpsgd", "hutchinson_estimator_diag_hessian", "madgrad", "mechanize", "momo",
    "momo_adam", "muon", "normalize", "prodigy", "reduce_on_plateau", "sam", "scale_by_acprop", "scale_by_ademamix", "scale_by_adopt",
    "scale_by_cocob", "scale_by_dog", "scale_by_dowg", "scale_by_madgrad", "scale_by_muon", "scale_by_simplified_ademamix",
    "scale_by_sophia", "schedule_free", "schedule_free_adamw", "schedule_free_eval_params", "schedule_free_sgd", "simplified_ademamix",
    "sophia", "split_real_and_imaginary",
]  # fmt: skip
