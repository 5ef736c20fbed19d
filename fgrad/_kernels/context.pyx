"""What is being traced in this thread, and the settings' key, where compiled code reads them without a dictionary."""
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int64_t, uintptr_t

cdef extern from *:
    """
    static __thread PyObject *fg_trace = 0;             /* owned; NULL stands for the default, so that a thread ends with none */
    static __thread PyObject *fg_axis_env = 0;
    static __thread int64_t fg_key = 0, fg_key_of = -1; /* this thread's settings' key, and the change it was asked after */
    """
    PyObject *fg_trace
    PyObject *fg_axis_env
    int64_t fg_key
    int64_t fg_key_of

cdef object _default_trace = None
cdef object _config = None
cdef object _owner = None                # of the memory of _settings
cdef const int64_t *_settings = NULL     # [key of the global settings, overrides in force in all threads, changes so far, global enable_x64]


def install_config(config, settings):
    """`config.key()` counts where a thread may have settings of its own, else settings[0], of an array of four int64."""
    global _config, _owner, _settings
    _config, _owner = config, settings
    _settings = <const int64_t *><uintptr_t>settings.buffer_info()[0]
    type(config).enable_x64 = property(read_x64)             # asked for by every function that makes numbers


cdef bint is_eval() noexcept:
    """True if no trace is active in this thread."""
    return fg_trace == NULL


cdef bint has_axes() noexcept:
    """True if a named axis is in scope."""
    return fg_axis_env != NULL


cdef int64_t config_key() except? -1:
    global fg_key, fg_key_of
    cdef int64_t changes
    if not _settings[1]:
        return _settings[0]
    changes = _settings[2]
    if fg_key_of != changes:                 # in Python once per change and thread
        fg_key = _config.key()
        fg_key_of = changes
    return fg_key


cdef bint x64() except -1:
    """config.enable_x64, of this thread."""
    return _config.__getattr__("enable_x64") if _settings[1] else _settings[3]


def read_x64(config):
    """Whether there are 64-bit dtypes."""
    return x64()


cdef inline void replace(PyObject **at, object new) noexcept:
    cdef PyObject *old = at[0]
    if new is None:
        at[0] = NULL
    else:
        Py_INCREF(new)
        at[0] = <PyObject *>new
    if old != NULL:
        Py_DECREF(<object>old)


cdef object current_trace():
    """What interprets binds."""
    return _default_trace if fg_trace == NULL else <object>fg_trace


cdef int set_trace(object trace) except -1:
    replace(&fg_trace, None if trace is _default_trace else trace)
    return 0


cdef class Context:
    """Of each thread: `trace` interprets every bind; `axis_env` maps the names of vmapped axes to their sizes; see `settings`."""

    def set_default(self, trace):
        """What interprets binds where nothing is traced."""
        global _default_trace
        _default_trace = trace

    @property
    def settings(self):
        """config.key() of this thread, without a call of Python."""
        return config_key()

    @property
    def trace(self):
        return current_trace()

    @trace.setter
    def trace(self, trace):
        set_trace(trace)

    @property
    def axis_env(self):
        return () if fg_axis_env == NULL else <object>fg_axis_env

    @axis_env.setter
    def axis_env(self, env):
        replace(&fg_axis_env, env or None)
