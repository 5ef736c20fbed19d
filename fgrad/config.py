"""Settings.  `config.update("jax_enable_x64", True)` as in JAX; `FGRAD_*` (or `JAX_*`) environment variables set the start values."""

import contextlib
import os
import threading

_DEFAULTS = {
    "enable_x64": False,  # 64-bit dtypes
    "disable_jit": False,  # run jitted functions op by op
    "debug_nans": False,  # raise where a result has a NaN
    "enable_checks": False,  # type-check every jaxpr that is built
    "numpy_rank_promotion": "allow",
    "pass_dce": True,
    "pass_cse": True,
    "pass_fold": True,
    "pass_simplify": True,
    "pass_fuse": True,
}


def _start_value(name, default):
    for prefix in ("FGRAD_", "JAX_"):
        text = os.environ.get(prefix + name.upper())
        if text is not None:
            if isinstance(default, bool):
                if text.lower() not in ("0", "1", "true", "false", "yes", "no", "on", "off", ""):
                    raise ValueError(f"{prefix}{name.upper()}={text!r}: expected a boolean such as 0 or 1")
                return text.lower() in ("1", "true", "yes", "on")
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
        object.__setattr__(self, "_local", _Overrides())
        object.__setattr__(self, "_keys", {})
        object.__setattr__(self, "_global_key", self._key_of(self._values))

    @staticmethod
    def _key(name):
        key = name.removeprefix("jax_").removeprefix("fgrad_")
        if key not in _DEFAULTS:
            raise AttributeError(f"unrecognized config option {name!r}; the options are {', '.join(sorted(_DEFAULTS))}")
        return key

    def __getattr__(self, name):
        key = self._key(name)
        local = self._local.values
        if local and key in local:
            return local[key]
        return self._values[key]

    def __setattr__(self, name, value):
        self.update(name, value)

    def update(self, name, value):
        """Set option `name` for all threads. Raises AttributeError for an unknown name, TypeError for a wrong type."""
        key = self._key(name)
        if not isinstance(value, type(_DEFAULTS[key])):
            raise TypeError(f"config option {name!r} takes a {type(_DEFAULTS[key]).__name__}, got {value!r}")
        self._values[key] = value
        object.__setattr__(self, "_global_key", self._key_of(self._values))

    def read(self, name):
        return getattr(self, name)

    @contextlib.contextmanager
    def override(self, name, value):
        """Set option `name` in this thread while the context lasts."""
        key = self._key(name)
        before = self._local.values
        self._local.values = {**(before or {}), key: value}
        try:
            yield
        finally:
            self._local.values = before

    def _key_of(self, values):
        return self._keys.setdefault(tuple(values.values()), len(self._keys))

    def key(self):
        """A number that stands for all settings: what compiled programs depend on besides their arguments."""
        local = self._local.values
        return self._key_of({**self._values, **local}) if local else self._global_key


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
