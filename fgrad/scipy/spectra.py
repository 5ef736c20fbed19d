"""Short-time Fourier transforms and spectral densities of jax.scipy.signal, and the removal of trends."""

import warnings

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.numpy.util import axis_index, concrete

_BOUNDARIES = {"even": "reflect", "constant": "edge", "zeros": "constant"}


def detrend(data, axis=-1, type="linear", bp=0, overwrite_data=None):
    """data less its mean ("constant") or the straight line that fits it best ("linear"), between breakpoints `bp` each.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy import signal
    >>> signal.detrend(jnp.array([1.0, 2.0, 6.0]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise NotImplementedError("detrend: overwrite_data is not supported, arrays are immutable")
    if type not in ("constant", "linear"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    (x,) = jnp.promote_dtypes_inexact(jnp.asarray(data))
    if type == "constant":
        return x - x.mean(axis, keepdims=True)
    x = jnp.moveaxis(x, axis, -1)
    cuts = np.unique(np.r_[0, bp, x.shape[-1]])
    if cuts[0] < 0 or cuts[-1] > x.shape[-1]:
        raise ValueError("Breakpoints must be non-negative and less than length of data along given axis.")
    parts = []
    for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist()):
        part = x[..., start:end]
        part = part - part.mean(-1, keepdims=True)
        ramp = np.arange(end - start) - (end - start - 1) / 2
        ramp = (ramp / max(np.linalg.norm(ramp), 1e-300)).astype(dtypes.to_real(x.dtype))
        parts.append(part - (part @ ramp)[..., None] * ramp)
    return jnp.moveaxis(jnp.concatenate(parts, -1), -1, axis)


def _window(window, nperseg, length, dtype):
    """(window, its length): "hann", or an array, or what SciPy's get_window knows if SciPy is there."""
    if isinstance(window, (str, tuple)):
        n = min(256 if nperseg is None else nperseg, length)
        if nperseg is not None and nperseg > length:
            warnings.warn(f"nperseg={nperseg} is greater than the input's length {length}, using nperseg={length}", stacklevel=4)
        if window == "hann":
            values = np.ones(1) if n == 1 else np.sin(np.pi * np.arange(n) / n) ** 2
        else:
            try:
                from scipy.signal import get_window
            except ImportError:
                raise ImportError(f"window={window!r} needs SciPy; 'hann' and arrays do not") from None
            values = get_window(window, n)
        return jnp.asarray(values, dtype), n
    window = jnp.asarray(window)
    if window.ndim != 1:
        raise ValueError("window must be 1-D")
    if window.size > length:
        raise ValueError(f"window of length {window.size} is longer than the input, {length}")
    if nperseg is not None and nperseg != window.size:
        raise ValueError("value specified for nperseg is different from length of window")
    return window, window.size


def _sizes(nperseg, noverlap, nfft):
    noverlap = nperseg // 2 if noverlap is None else int(concrete("stft", noverlap, "pass noverlap as a Python integer"))
    nfft = nperseg if nfft is None else int(concrete("stft", nfft, "pass nfft as a Python integer"))
    if nfft < nperseg:
        raise ValueError("nfft must be greater than or equal to nperseg.")
    if noverlap >= nperseg:
        raise ValueError("noverlap must be less than nperseg.")
    return noverlap, nfft


def _extended(x, n, boundary):
    if boundary == "odd":
        if n >= x.shape[-1]:
            raise ValueError(f"boundary='odd' needs more than {n} elements, got {x.shape[-1]}")
        first, last = x[..., :1], x[..., -1:]
        return jnp.concatenate([2 * first - x[..., n:0:-1], x, 2 * last - x[..., -2 : -n - 2 : -1]], -1)
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(n, n)], _BOUNDARIES[boundary])


def _transforms(x, window, detrending, step, nfft, onesided):
    """(..., segments, frequencies)."""
    n = window.size
    starts = np.arange(0, x.shape[-1] - n + 1, step)
    parts = detrending(x[..., starts[:, None] + np.arange(n)]) * window
    return jnp.fft.rfft(parts, nfft) if onesided else jnp.fft.fft(parts, nfft)


def _spectra(x, y, fs, window, nperseg, noverlap, nfft, detrending, onesided, scaling, axis, density, boundary=None, padded=False):
    """(frequencies, times, spectra with segments last)."""
    if boundary is not None and boundary not in (*_BOUNDARIES, "odd"):
        raise ValueError(f"Unknown boundary option '{boundary}', must be one of: {[*_BOUNDARIES, 'odd', None]}")
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"Unknown scaling: {scaling}")
    if nperseg is not None and (nperseg := int(concrete("stft", nperseg, "pass nperseg as a Python integer"))) < 1:
        raise ValueError("nperseg must be a positive integer")
    signals = jnp.promote_dtypes_inexact(*[jnp.asarray(v) for v in ((x,) if y is None else (x, y))])
    if len({v.ndim for v in signals}) > 1:
        raise ValueError(f"two-arguments must have the same rank ({signals[0].ndim} vs {signals[1].ndim}).")
    axis = axis_index(axis, signals[0].ndim)
    signals = [jnp.moveaxis(v, axis, -1) for v in signals]
    window, nperseg = _window(window, nperseg, signals[0].shape[-1], dtypes.to_real(signals[0].dtype))
    noverlap, nfft = _sizes(nperseg, noverlap, nfft)
    step = nperseg - noverlap
    longest = max(v.shape[-1] for v in signals)
    widen = lambda v, n: jnp.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n)])
    signals = [widen(v, longest - v.shape[-1]) for v in signals]
    if boundary is not None:
        signals = [_extended(v, nperseg // 2, boundary) for v in signals]
    if padded:
        signals = [widen(v, (nperseg - v.shape[-1]) % step % nperseg) for v in signals]
    if isinstance(detrending, str):
        kind = detrending
        detrending = lambda v: detrend(v, type=kind)
    elif not callable(detrending):
        if detrending:
            raise ValueError(f"Unsupported detrend type: {detrending}")
        detrending = lambda v: v
    if onesided and any(dtypes.is_complex(v.dtype) for v in (*signals, window)):
        warnings.warn("Input data is complex, switching to return_onesided=False", stacklevel=3)
        onesided = False
    scale = 1 / (fs * jnp.sum(window * window)) if scaling == "density" else 1 / jnp.sum(window) ** 2
    out = [_transforms(v, window, detrending, step, nfft, onesided) for v in signals]
    if density:
        result = (out[0].conj() * out[-1] if y is not None else out[0].real ** 2 + out[0].imag ** 2) * scale
        if onesided:  # the negative frequencies are folded over, but for those that have no twin
            twice = np.ones(result.shape[-1])
            twice[1 : None if nfft % 2 else -1] = 2
            result = result * twice.astype(dtypes.to_real(result.dtype))
    else:
        result = out[0] * jnp.sqrt(scale)
    real = dtypes.to_real(result.dtype)
    frequencies = (jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq)(nfft, 1 / fs).astype(real)
    times = jnp.arange(nperseg / 2, signals[0].shape[-1] - nperseg / 2 + 1, step, dtype=real) / fs
    times = times - nperseg / 2 / fs if boundary is not None else times
    return frequencies, times, jnp.moveaxis(result, -1, axis)


def stft(
    x, fs=1.0, window="hann", nperseg=256, noverlap=None, nfft=None, detrend=False, return_onesided=True, boundary="zeros", padded=True,
    axis=-1,
):  # fmt: skip
    """(frequencies, times, transforms) of windowed segments of x; frequencies take the place of `axis`, the segments are last."""
    return _spectra(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis, False, boundary, padded)


def csd(
    x, y, fs=1.0, window="hann", nperseg=None, noverlap=None, nfft=None, detrend="constant", return_onesided=True, scaling="density",
    axis=-1, average="mean",
):  # fmt: skip
    """(frequencies, cross spectral density of x and y) by Welch's method: a mean or median over segments; y None is x."""
    frequencies, _, p = _spectra(x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, True)
    if average not in ("mean", "median"):
        raise ValueError(f'average must be "median" or "mean", got {average}')
    count = p.shape[-1]
    if average == "mean" or count == 1:
        return frequencies, p.mean(-1)
    twos = np.arange(2, count, 2)  # the median of exponentially distributed values is below their mean
    bias = 1 + np.sum(1 / (twos + 1) - 1 / twos)
    median = jnp.median(p.real, -1) + 1j * jnp.median(p.imag, -1) if dtypes.is_complex(p.dtype) else jnp.median(p, -1)
    return frequencies, median / float(bias)


def welch(
    x, fs=1.0, window="hann", nperseg=None, noverlap=None, nfft=None, detrend="constant", return_onesided=True, scaling="density", axis=-1,
    average="mean",
):  # fmt: skip
    """(frequencies, power spectral density of x) by averaging over segments. P. D. Welch, IEEE Trans. Audio Electroacoust. 15 (1967)."""
    return csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def _overlapped(x, step):
    """The sum of segments (..., segments, length), each `step` behind the one before it."""
    count, length = x.shape[-2:]
    at = (np.arange(count)[:, None] * step + np.arange(length)).ravel()
    return jnp.zeros((*x.shape[:-2], (count - 1) * step + length), x.dtype).at[..., at].add(x.reshape(*x.shape[:-2], -1))


def istft(
    Zxx, fs=1.0, window="hann", nperseg=None, noverlap=None, nfft=None, input_onesided=True, boundary=True, time_axis=-1, freq_axis=-2
):  # fmt: skip
    """(times, x) from what stft gives, by overlapping and adding."""
    z = jnp.asarray(Zxx)
    if z.ndim < 2:
        raise ValueError("Input stft must be at least 2d!")
    freq_axis, time_axis = axis_index(freq_axis, z.ndim), axis_index(time_axis, z.ndim)
    if freq_axis == time_axis:
        raise ValueError("Must specify differing time and frequency axes!")
    z = jnp.moveaxis(z.astype(jnp.promote_types(z.dtype, jnp.complex64)), (time_axis, freq_axis), (-2, -1))
    default = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    nperseg = default if nperseg is None else int(concrete("istft", nperseg, "pass nperseg as a Python integer"))
    if nperseg < 1:
        raise ValueError("nperseg must be a positive integer")
    nfft = default + (input_onesided and nperseg == default + 1) if nfft is None else nfft
    noverlap, nfft = _sizes(nperseg, noverlap, nfft)
    window, size = _window(window, nperseg, nperseg, dtypes.to_real(z.dtype))
    if size != nperseg:
        raise ValueError(f"window must have length of {nperseg}")
    parts = (jnp.fft.irfft if input_onesided else jnp.fft.ifft)(z, nfft)[..., :nperseg] * (jnp.sum(window) * window)
    x = _overlapped(parts, nperseg - noverlap)
    weight = _overlapped(jnp.broadcast_to(window * window, (parts.shape[-2], nperseg)), nperseg - noverlap)
    if boundary:
        x, weight = (v[..., nperseg // 2 : v.shape[-1] - nperseg // 2] for v in (x, weight))
    x = x / jnp.where(weight > 1e-10, weight, 1)
    times = jnp.arange(x.shape[-1], dtype=weight.dtype) / fs
    return times, jnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis)) if x.ndim > 1 else x


__all__ = ["csd", "detrend", "istft", "stft", "welch"]
