"""Names of jax.profiler, so that annotated programs run: annotations do nothing, and no trace is recorded (use perf or py-spy)."""

import contextlib
import functools
import warnings

__all__ = ["StepTraceAnnotation", "TraceAnnotation", "annotate_function", "start_trace", "stop_trace", "trace"]


class TraceAnnotation(contextlib.ContextDecorator):
    """A context without effect."""

    def __init__(self, name, **kwargs):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


class StepTraceAnnotation(TraceAnnotation):
    """A context without effect."""


def annotate_function(func, name=None, **decorator_kwargs):
    """func, wrapped."""

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapped


def start_trace(log_dir, create_perfetto_link=False, create_perfetto_trace=False, profiler_options=None):
    """Warn that no trace will be written."""
    warnings.warn("fgrad records no profiler trace; nothing is written to log_dir", stacklevel=2)


def stop_trace():
    """Nothing: start_trace starts nothing."""


@contextlib.contextmanager
def trace(log_dir, create_perfetto_link=False, create_perfetto_trace=False, profiler_options=None):
    """A context that warns that no trace will be written."""
    start_trace(log_dir)
    yield
