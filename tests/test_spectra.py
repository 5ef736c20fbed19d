"""Spectra against their definitions: round trips, Parseval's theorem, transforms written out, trends by least squares."""

import numpy as np
import pytest

import fgrad
from fgrad.scipy import signal
from tests.derivatives import check_derivatives

rng = np.random.default_rng(0)
X = rng.normal(size=(2, 300)).cumsum(1)
Y = rng.normal(size=(2, 250))


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64():
        yield


@pytest.mark.parametrize("options", [{"nperseg": 64}, {"nperseg": 51, "noverlap": 30}, {"nperseg": 32, "noverlap": 24, "nfft": 32}])
@pytest.mark.parametrize("boundary", ["zeros", "even", "odd", "constant"])
def test_round_trip(options, boundary):
    f, t, z = signal.stft(X, fs=10.0, boundary=boundary, **options)
    assert z.shape == (2, f.size, t.size)
    times, back = signal.istft(z, fs=10.0, **options)
    np.testing.assert_allclose(back[:, :300], X, atol=1e-10)
    np.testing.assert_allclose(times[:3], [0, 0.1, 0.2])


def test_transforms_written_out():
    window = np.sin(np.pi * np.arange(50) / 50) ** 2
    f, t, z = signal.stft(X.T, axis=0, nperseg=50, noverlap=20, boundary=None, padded=False)
    want = np.stack([np.fft.rfft(X[:, s : s + 50] * window) / window.sum() for s in range(0, 251, 30)], -1)
    np.testing.assert_allclose(z, np.moveaxis(want, 1, 0), atol=1e-12)
    np.testing.assert_allclose(t, 25 + 30 * np.arange(9))
    np.testing.assert_allclose(f, np.arange(26) / 50)


def test_densities():
    boxcar = np.ones(60)
    parts = X.reshape(2, 5, 60)
    f, p = signal.welch(X, fs=4.0, window=boxcar, noverlap=0)
    np.testing.assert_allclose(p.sum(-1) * (f[1] - f[0]), parts.var(-1).mean(-1), rtol=1e-10)  # Parseval
    two_sided = signal.welch(X, fs=4.0, window=boxcar, noverlap=0, return_onesided=False)[1]
    np.testing.assert_allclose(two_sided.sum(-1) * (f[1] - f[0]), parts.var(-1).mean(-1), rtol=1e-10)
    np.testing.assert_allclose(signal.csd(X, X, nperseg=50)[1], signal.welch(X, nperseg=50)[1] + 0j, atol=1e-9)
    padded = np.pad(Y, [(0, 0), (0, 50)])
    np.testing.assert_allclose(signal.csd(X, Y, nperseg=50)[1], signal.csd(X, padded, nperseg=50)[1])
    noise = rng.normal(size=(40, 4000))
    median, mean = (signal.welch(noise, nperseg=64, average=a)[1].mean() for a in ("median", "mean"))
    np.testing.assert_allclose(median, mean, rtol=0.02)


def test_detrend():
    at = np.arange(300)
    lines = np.stack([np.polyval(np.polyfit(at, x, 1), at) for x in X])
    np.testing.assert_allclose(signal.detrend(X), X - lines, atol=1e-10)
    np.testing.assert_allclose(signal.detrend(X.T, axis=0, type="constant"), (X - X.mean(1, keepdims=True)).T, atol=1e-10)
    broken = np.asarray(signal.detrend(X, bp=[100]))
    np.testing.assert_allclose(broken[:, 100:], signal.detrend(X[:, 100:]), atol=1e-10)
    check_derivatives(lambda x: signal.detrend(x), X[:, :7], order=1)


def test_derivatives_and_errors():
    check_derivatives(lambda x: abs(signal.stft(x, nperseg=8)[2]) ** 2, X[:, :20], order=1)
    for options, message in (
        ({"boundary": "x"}, "boundary"),
        ({"nperseg": 0}, "positive"),
        ({"nperseg": 10, "noverlap": 10}, "noverlap"),
        ({"nperseg": 10, "nfft": 5}, "nfft"),
        ({"window": np.ones((2, 2))}, "1-D"),
    ):
        with pytest.raises(ValueError, match=message):
            signal.stft(X, **options)
    with pytest.raises(ValueError, match="Trend type"):
        signal.detrend(X, type="x")
    with pytest.raises(ValueError, match="average"):
        signal.welch(X, nperseg=50, average="x")
    with pytest.raises(ValueError, match="differing"):
        signal.istft(np.ones((3, 3)), freq_axis=-1)
