"""What is being traced in this thread, and which axis names are in scope."""

import gc

from fgrad._kernels.context import Context, install_config
from fgrad.config import config

install_config(config, config.state)
context = Context()


class using_trace:
    """Context manager: binds go to `trace`."""

    __slots__ = ("trace", "before")

    def __init__(self, trace):
        self.trace = trace

    def __enter__(self):
        self.before = context.trace
        context.trace = self.trace
        return self.trace

    def __exit__(self, *exc):
        context.trace = self.before


class extended_axis_env:
    """Context manager: `name` is an axis of `size` in scope."""

    __slots__ = ("entry", "before")

    def __init__(self, name, size):
        self.entry = (name, size)

    def __enter__(self):
        self.before = context.axis_env
        if self.entry[0] is not None:
            context.axis_env = (*self.before, self.entry)

    def __exit__(self, *exc):
        context.axis_env = self.before


class paused_gc:
    """Context manager: no garbage is collected. Tracing and compiling make many objects that stay, and collections would walk them
    again and again. What was made meanwhile is collected at the end, alone: an older generation whose turn has come, of the whole
    program's objects, waits for the next collection."""

    __slots__ = ("enabled",)

    def __enter__(self):
        self.enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *exc):
        if self.enabled:
            if 0 < gc.get_threshold()[0] < gc.get_count()[0]:
                gc.collect(0)
            gc.enable()


def axis_size(name):
    """Size of the named axis in scope; NameError if there is none."""
    for n, size in reversed(context.axis_env):
        if n == name:
            return size
    raise NameError(f"unbound axis name: {name}. It is bound inside a function vmapped with axis_name={name!r}.")
