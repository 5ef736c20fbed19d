"""Settings.  `config.update("jax_enable_x64", True)` as in JAX; `FGRAD_*` (or `JAX_*`) environment variables set the start values."""

import array
import contextlib
import os
import sys
import threading

_DEFAULTS = {
    "enable_x64": False,  # 64-bit dtypes
    "disable_jit": False,  # run jitted functions op by op
    "debug_nans": False,  # raise where a result has a NaN
    "debug_infs": False,  # raise where a result has an infinity
    "log_compiles": False,  # log each function that jit traces (logger "fgrad")
    "check_tracer_leaks": False,  # raise where a traced function has stored a traced value
    "numpy_dtype_promotion": "standard",  # or "strict": raise where operands of different dtypes meet
    "enable_checks": False,  # type-check every jaxpr that is built
    "numpy_rank_promotion": "allow",
    "enable_custom_prng": False,  # random.PRNGKey makes typed keys
    "threefry_partitionable": True,  # off: random numbers are those of JAX with this setting off
    "random_seed_offset": 0,  # added to the seeds of new keys
    "high_dynamic_range_gumbel": False,  # random.gumbel's mode is "high" where none is given
    "no_tracing": False,  # raise where jit traces a function
    "mark_indices": False,  # stage what indices of several axes must stay within, for experimental.checkify
    "pass_sparse": True,
    "pass_motion": True,
    "pass_accumulate": True,
    "pass_masked": True,
    "pass_members": True,
    "pass_branches": True,
    "pass_dce": True,
    "pass_cse": True,
    "pass_fold": True,
    "pass_simplify": True,
    "pass_stacks": True,
    "pass_margins": True,
    "pass_attention": True,
    "pass_norms": True,
    "pass_shift": True,
    "pass_fuse": True,
    "pass_frames": True,
    "pass_recompute": True,
    "pass_tile": True,
    "pass_flat": True,
    "pass_machine": True,
}

_CHOICES = {"numpy_dtype_promotion": ("standard", "strict"), "numpy_rank_promotion": ("allow", "warn", "raise")}
_UNKEYED = {"no_tracing"}  # a program does not depend on them
_WAYS = ("", "_host_to_device", "_device_to_device", "_device_to_host")
# Options of JAX's that have one meaning here: another value is refused, so that no program believes it is in force.
_FIXED = {
    "platforms": ("cpu", "", None),
    "platform_name": ("cpu", "", None),
    "default_prng_impl": ("threefry2x32",),
    "debug_key_reuse": (False,),
    "legacy_prng_key": ("allow",),
    "num_cpu_devices": (-1, 1),
    **{f"transfer_guard{way}": (None, "allow", "log", "disallow", "log_explicit", "disallow_explicit") for way in _WAYS},
    "default_device": None,  # any: there is one device
    # Hints about speed, memory and messages: nothing depends on them.
    "default_matmul_precision": None,
    "compilation_cache_dir": None,
    "enable_compilation_cache": None,
    "persistent_cache_min_compile_time_secs": None,
    "persistent_cache_min_entry_size_bytes": None,
    "traceback_filtering": None,
    "explain_cache_misses": None,
    "cpu_enable_async_dispatch": None,
    "pprint_use_color": None,
    "softmax_custom_jvp": None,
    "use_shardy_partitioner": None,
    "captured_constants_warn_bytes": None,
    "log_checkpoint_residuals": None,
    "logging_level": None,
    "include_full_tracebacks_in_locations": None,
    "disable_most_optimizations": None,
    "exec_time_optimization_effort": None,
    "memory_fitting_effort": None,
    "optimization_level": None,
    "allow_f16_reductions": None,
    "array_garbage_collection_guard": None,
    "check_static_indices": None,
    "compilation_cache_max_size": None,
    "cuda_visible_devices": None,
    "debug_log_modules": None,
    "dump_ir_to": None,
    "enable_pgle": None,
    "include_debug_info_in_dumps": None,
    "memory_fitting_level": None,
    "persistent_cache_enable_xla_caches": None,
    "raise_persistent_cache_errors": None,
    "remove_size_one_mesh_axis_from_type": None,
    "traceback_in_locations_limit": None,
    "tracer_error_num_traceback_frames": None,
    "use_direct_linearize": None,
}


def _boolean(what, text):
    if text.lower() not in ("0", "1", "true", "false", "yes", "no", "on", "off", ""):
        raise ValueError(f"{what}: expected a boolean such as 0 or 1")
    return text.lower() in ("1", "true", "yes", "on")


def _start_value(name, default):
    for prefix in ("FGRAD_", "JAX_"):
        text = os.environ.get(prefix + name.upper())
        if text is not None:
            if isinstance(default, bool):
                return _boolean(f"{prefix}{name.upper()}={text!r}", text)
            return text
    return default


class _Overrides(threading.local):
    """This thread's settings inside `override` contexts."""

    values: dict | None = None


class Config:
    """All settings as attributes, with or without JAX's `jax_` prefix.

    >>> import fgrad
    >>> fgrad.config.jax_enable_x64
    False
    """

    def __init__(self):
        object.__setattr__(self, "_values", {k: _start_value(k, v) for k, v in _DEFAULTS.items()})
        object.__setattr__(self, "_fixed", {k: v[0] if v else None for k, v in _FIXED.items()})
        object.__setattr__(self, "_local", _Overrides())
        object.__setattr__(self, "_keys", {})
        # [key of the global settings, overrides in force in all threads, changes so far, global enable_x64]: compiled code reads it
        object.__setattr__(self, "state", array.array("q", [self._key_of(self._values), 0, 0, self._values["enable_x64"]]))
        object.__setattr__(self, "_lock", threading.Lock())
        bare: dict = {}
        full = {**self.__dict__, **self._values, "_bare": bare}
        full["_full"] = full
        bare.update({**self.__dict__, "_bare": bare, "_full": full})
        object.__setattr__(self, "__dict__", full)

    def _publish(self):
        """Settings are attributes of the object while no thread overrides any; else each is looked up, by `__getattr__`."""
        object.__setattr__(self, "__dict__", self._bare if self.state[1] else self._full)

    @staticmethod
    def _key(name):
        key = name.removeprefix("jax_").removeprefix("fgrad_")
        if key not in _DEFAULTS and key not in _FIXED:
            raise AttributeError(f"unrecognized config option {name!r}; the options are {', '.join(sorted(_DEFAULTS))}")
        return key

    @staticmethod
    def _check(name, key, value):
        """The value, 0 and 1 for booleans as such. Raises TypeError or ValueError for one that the option does not take."""
        if type(value) is int and type(_DEFAULTS.get(key)) is bool:
            value = bool(value)
        if key in _FIXED:
            allowed = _FIXED[key]
            if allowed is not None and value not in allowed:
                raise ValueError(f"config option {name!r} takes {' or '.join(map(repr, allowed))} in fgrad, got {value!r}")
        elif not isinstance(value, type(_DEFAULTS[key])):
            raise TypeError(f"config option {name!r} takes a {type(_DEFAULTS[key]).__name__}, got {value!r}")
        elif value not in _CHOICES.get(key, (value,)):
            raise ValueError(f"config option {name!r} takes {' or '.join(map(repr, _CHOICES[key]))}, got {value!r}")
        return value

    x64_enabled = property(lambda self: self.enable_x64)

    @property
    def values(self):
        """All settings under JAX's names."""
        return {f"jax_{name}": self.read(name) for name in (*_DEFAULTS, *_FIXED)}

    @property
    def enable_x64(self):
        """Whether there are 64-bit dtypes; compiled code takes its place (fgrad._kernels.context)."""
        return bool(self.state[3]) if not self.state[1] else self.__getattr__("enable_x64")

    def __getattr__(self, name):
        if self._local.values is None and name in self._values:
            return self._values[name]
        key = self._key(name)
        if key in _FIXED:
            return self._fixed[key]
        local = self._local.values
        if local and key in local:
            return local[key]
        return self._values[key]

    def __setattr__(self, name, value):
        self.update(name, value)

    def update(self, name, value):
        """Set option `name` for all threads. Raises AttributeError for an unknown name, TypeError for a wrong type."""
        key = self._key(name)
        value = self._check(name, key, value)
        if key in _FIXED:
            self._fixed[key] = value
            return
        with self._lock:
            self._values[key] = self._full[key] = value
            self.state[0] = self._key_of(self._values)
            self.state[2] += 1
            self.state[3] = self._values["enable_x64"]

    def parse_flags_with_absl(self):
        """Take options out of the command line: `--jax_enable_x64`, `--nojax_enable_x64` or `--jax_enable_x64=1`, with JAX's names.

        Raises as `update` does; ValueError for a boolean option with another value.
        """
        rest = []
        for arg in sys.argv:
            flag, _, text = arg.lstrip("-").partition("=")
            negated = flag.startswith("nojax_")
            if not arg.startswith("-") or not flag.removeprefix("no").startswith("jax_"):
                rest.append(arg)
            elif isinstance(_DEFAULTS.get(self._key(flag.removeprefix("no"))), bool):
                self.update(flag.removeprefix("no"), _boolean(arg, text or "1") is not negated)
            else:
                self.update(flag, text)
        sys.argv[:] = rest

    config_with_absl = parse_flags_with_absl

    def read(self, name):
        return getattr(self, name)

    @contextlib.contextmanager
    def override(self, name, value):
        """Set option `name` in this thread while the context lasts."""
        key = self._key(name)
        value = self._check(name, key, value)
        if key in _FIXED:
            yield
            return
        before = self._local.values
        self._local.values = {**(before or {}), key: value}
        self._count(1)
        try:
            yield
        finally:
            self._local.values = before
            self._count(-1)

    def _count(self, overrides):
        """So many overrides more are in force."""
        with self._lock:
            self.state[1] += overrides
            self.state[2] += 1
            self._publish()

    def _key_of(self, values):
        return self._keys.setdefault(tuple(v for k, v in values.items() if k not in _UNKEYED), len(self._keys))

    def key(self):
        """A number that stands for all settings: what compiled programs depend on besides their arguments."""
        local = self._local.values
        return self._key_of({**self._values, **local}) if local else self.state[0]


config = Config()


def enable_x64(new_val: bool = True):
    """A context in which 64-bit dtypes are on (or off).

    >>> import fgrad, fgrad.numpy as jnp
    >>> with fgrad.enable_x64():
    ...     print(jnp.arange(3.).dtype)
    float64
    """
    return config.override("enable_x64", bool(new_val))


def disable_jit(disable: bool = True):
    """A context in which `jit` runs the Python function op by op, so that values can be printed and debugged."""
    return config.override("disable_jit", bool(disable))


def _switch(name, doc):
    """A function that makes a context in which boolean option `name` is on, or what it is given."""

    def context(new_val: bool = True):
        return config.override(name, bool(new_val))

    context.__name__ = context.__qualname__ = name
    context.__doc__ = doc
    return context


def _setting(name, doc):
    """A function that makes a context in which option `name` has the value it is given."""

    def context(new_val):
        return config.override(name, new_val)

    context.__name__ = context.__qualname__ = name
    context.__doc__ = doc
    return context


debug_nans = _switch("debug_nans", "A context in which a result with a NaN raises FloatingPointError.")
debug_infs = _switch("debug_infs", "A context in which a result with an infinity raises FloatingPointError.")
log_compiles = _switch("log_compiles", 'A context in which each function that jit traces is logged, as a warning of the logger "fgrad".')
enable_checks = _switch("enable_checks", "A context in which every jaxpr that is built is type-checked.")
check_tracer_leaks = _switch("check_tracer_leaks", "A context in which a staged function that has stored a traced value raises, slowly.")
explain_cache_misses = _switch("explain_cache_misses", "A context without effect: see log_compiles.")
threefry_partitionable = _switch("threefry_partitionable", "A context with JAX's counters of random numbers, or its older ones.")
enable_custom_prng = _switch("enable_custom_prng", "A context in which random.PRNGKey makes typed keys, as random.key does.")
debug_key_reuse = _switch(
    "debug_key_reuse", "A context that takes False: nobody looks for keys that are used twice; True raises ValueError."
)
numpy_rank_promotion = _setting("numpy_rank_promotion", "A context in which operands of different rank are allowed, warned of, or raise.")
numpy_dtype_promotion = _setting("numpy_dtype_promotion", 'A context with "standard" promotion, or "strict" where different dtypes raise.')
default_matmul_precision = _setting("default_matmul_precision", "A context without effect: products are computed in the operands' dtype.")
default_device = _setting("default_device", "A context without effect: there is one device.")
default_prng_impl = _setting("default_prng_impl", 'A context that takes "threefry2x32", the one generator; others raise ValueError.')
legacy_prng_key = _setting("legacy_prng_key", 'A context that takes "allow": plain words are keys; others raise ValueError.')
no_tracing = _switch("no_tracing", "A context in which jit raises RuntimeError instead of tracing a function.")
transfer_guard, transfer_guard_host_to_device, transfer_guard_device_to_device, transfer_guard_device_to_host = (
    _setting(f"transfer_guard{way}", "A context without effect: nothing is transferred.") for way in _WAYS
)


@contextlib.contextmanager
def checking_leaks():
    """As check_tracer_leaks()."""
    with check_tracer_leaks():
        yield
