"""Looking into programs while they run: print, log, callback, breakpoint."""

import logging
import string
import sys

import numpy as np

from fgrad.control.callback import debug_callback
from fgrad.core import Array, StageTrace, context

_print = print
_LOG = logging.getLogger("fgrad.debug")


class _Checker(string.Formatter):
    """Formats nothing; raises ValueError for arguments that the format string does not use."""

    def format_field(self, value, format_spec):
        return ""

    def convert_field(self, value, conversion):
        return value

    def check_unused_args(self, used_args, args, kwargs):
        unused = [i for i in range(len(args)) if i not in used_args]
        if unused:
            raise ValueError(f"Unused positional arguments to debug.print: {unused}")
        unused = [k for k in kwargs if k not in used_args]
        if unused:
            raise ValueError(
                f"Unused keyword arguments to debug.print: {unused}. Give it a plain string, not an f-string: it is formatted later."
            )


def print(fmt, *args, ordered=False, partitioned=False, skip_format_check=False, **kwargs):  # noqa: A001
    """Print fmt.format(*args, **kwargs) when the program gets there, under jit, vmap (once per example), grad and in loops too.

    A format string without placeholders is followed by the positional arguments. Prints come in the order of the program,
    `ordered` or not. Raises ValueError for arguments that `fmt` does not use, unless skip_format_check.

    >>> import fgrad
    >>> y = fgrad.jit(lambda x: fgrad.debug.print("x is {}", x) or x + 1)(2.0)
    x is 2.0
    """
    placeholders = any(field is not None for _, field, _, _ in string.Formatter().parse(fmt))
    if placeholders and not skip_format_check:
        _Checker().format(fmt, *args, **kwargs)
    if not placeholders and kwargs:
        raise ValueError(f"Unused keyword arguments to debug.print: {sorted(kwargs)}: {fmt!r} has no placeholders")
    options = np.get_printoptions()

    def show(*args, **kwargs):
        args, kwargs = [_plain(x) for x in args], {k: _plain(x) for k, x in kwargs.items()}
        with np.printoptions(**options):
            _print(fmt.format(*args, **kwargs) if placeholders else " ".join((fmt, *map(str, args))), flush=True)

    debug_callback(show, *args, ordered=ordered, **kwargs)


def _plain(x):
    return np.asarray(x) if type(x) is Array else x


def callback(callback, *args, ordered=False, partitioned=False, **kwargs):
    """Call callback(*args, **kwargs) with concrete arrays when the program gets there, and ignore its result.

    It works under every transformation, as `print` does; arguments that are not arrays are passed on as they are.
    """
    debug_callback(callback, *args, ordered=ordered, **kwargs)


def breakpoint(**kwargs):  # noqa: A001
    """Stop in pdb at the caller. Raises RuntimeError while a program is being traced (jit, scan, cond), where there are no values."""
    trace = context.trace
    while trace is not None:
        if type(trace) is StageTrace:
            raise RuntimeError(
                f"debug.breakpoint() was reached while tracing {trace.name!r}: values do not exist yet. Run it under "
                "fgrad.disable_jit(), or look at values with debug.print or debug.callback."
            )
        trace = getattr(trace, "parent", None)
    import pdb  # here: it is slow to import, and rarely needed

    pdb.Pdb().set_trace(sys._getframe(1))


def log(fmt, *args, ordered=False, partitioned=False, skip_format_check=False, np_printoptions=None, **kwargs):
    """Log fmt.format(*args, **kwargs) at level INFO with the logger "fgrad.debug" when the program gets there."""
    debug_callback(lambda *a, **k: _LOG.info(fmt.format(*map(_plain, a), **{n: _plain(v) for n, v in k.items()})), *args, ordered=ordered,
                   **kwargs)  # fmt: skip


__all__ = ["breakpoint", "callback", "log", "print"]
