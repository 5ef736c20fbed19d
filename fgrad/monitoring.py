"""Events for tools that watch a program, and those who listen to them, as in jax.monitoring.

jit records how long it traces ("/jax/core/compile/jaxpr_trace_duration") and compiles ("/jax/core/compile/backend_compile_duration"), with
`fun_name`; operations outside of jit record nothing.
"""

import contextlib
import time

__all__ = [
    "clear_event_listeners", "record_event", "record_event_duration_secs", "record_event_time_span", "record_scalar",
    "register_event_duration_secs_listener", "register_event_listener", "register_event_time_span_listener", "register_scalar_listener",
    "unregister_event_duration_listener", "unregister_event_listener", "unregister_event_time_span_listener", "unregister_scalar_listener",
]  # fmt: skip

_events: list = []
_durations: list = []
_spans: list = []
_scalars: list = []


def record_event(event, **kwargs):
    """Call listener(event, **kwargs) for each listener to events.

    >>> from fgrad import monitoring
    >>> seen = []
    >>> monitoring.register_event_listener(lambda event, **kwargs: seen.append((event, kwargs)))
    >>> monitoring.record_event("/app/epoch", number=3)
    >>> seen
    [('/app/epoch', {'number': 3})]
    >>> monitoring.clear_event_listeners()
    """
    for listener in tuple(_events):
        listener(event, **kwargs)


def record_event_duration_secs(event, duration, **kwargs):
    """Call listener(event, duration, **kwargs) for each listener to durations."""
    for listener in tuple(_durations):
        listener(event, duration, **kwargs)


def record_event_time_span(event, start_time, end_time, **kwargs):
    """Call listener(event, start_time, end_time, **kwargs) for each listener to time spans."""
    for listener in tuple(_spans):
        listener(event, start_time, end_time, **kwargs)


def record_scalar(event, value, **kwargs):
    """Call listener(event, value, **kwargs) for each listener to numbers."""
    for listener in tuple(_scalars):
        listener(event, value, **kwargs)


def register_event_listener(callback):
    """Let callback(event, **kwargs) hear of events."""
    _events.append(callback)


def register_event_duration_secs_listener(callback):
    """Let callback(event, duration, **kwargs) hear of durations in seconds."""
    _durations.append(callback)


def register_event_time_span_listener(callback):
    """Let callback(event, start_time, end_time, **kwargs) hear of time spans in seconds since the epoch."""
    _spans.append(callback)


def register_scalar_listener(callback):
    """Let callback(event, value, **kwargs) hear of numbers."""
    _scalars.append(callback)


def _remove(listeners, callback):
    if callback not in listeners:
        raise ValueError(f"{callback!r} is not registered as a listener of this kind")
    listeners.remove(callback)


def unregister_event_listener(callback):
    """Let callback hear of events no more. Raises ValueError if it did not."""
    _remove(_events, callback)


def unregister_event_duration_listener(callback):
    """Let callback hear of durations no more. Raises ValueError if it did not."""
    _remove(_durations, callback)


def unregister_event_time_span_listener(callback):
    """Let callback hear of time spans no more. Raises ValueError if it did not."""
    _remove(_spans, callback)


def unregister_scalar_listener(callback):
    """Let callback hear of numbers no more. Raises ValueError if it did not."""
    _remove(_scalars, callback)


def clear_event_listeners():
    """Forget all listeners."""
    for listeners in (_events, _durations, _spans, _scalars):
        listeners.clear()


@contextlib.contextmanager
def timed(event, **kwargs):
    """A context whose time is recorded as a span and a duration, unless it raises."""
    start = time.time()
    yield
    end = time.time()
    record_event_time_span(event, start, end, **kwargs)
    record_event_duration_secs(event, end - start, **kwargs)
