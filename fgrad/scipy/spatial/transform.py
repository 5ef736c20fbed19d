"""Rotations of three dimensions as unit quaternions (x, y, z, w), and interpolation between them."""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

import fgrad.numpy as jnp
from fgrad.random import normal


def _axes(seq):
    """(indices of the axes, whether they turn with the body). Raises ValueError for anything but up to three of xyz or XYZ."""
    if not 1 <= len(seq) <= 3 or not (set(seq) <= set("xyz") or set(seq) <= set("XYZ")):
        raise ValueError(f"Expected axes from `seq` to be up to three from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}")
    if any(a == b for a, b in zip(seq, seq[1:])):
        raise ValueError(f"Expected consecutive axes to be different, got {seq}")
    return ["xyz".index(c) for c in seq.lower()], seq.isupper()


def _product(p, q):
    """Hamilton's product."""
    a, b, v, w = p[..., 3:], q[..., 3:], p[..., :3], q[..., :3]
    return jnp.concatenate([a * w + b * v + jnp.cross(v, w), a * b - jnp.sum(v * w, -1, keepdims=True)], -1)


def _unit(q):
    return q / jnp.linalg.norm(q, axis=-1, keepdims=True)


def _float(x):
    return jnp.promote_dtypes_inexact(jnp.asarray(x))[0]


class Rotation(NamedTuple):
    """One rotation, quat (4,), or many, quat (n, 4).

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.spatial.transform import Rotation
    >>> turn = Rotation.from_euler("z", 90, degrees=True)
    >>> jnp.round(turn.apply(jnp.array([1.0, 0.0, 0.0])), 3) + 0.0
    Array([0., 1., 0.], dtype=float32)
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations):
        """The rotations of several Rotations of many."""
        return cls(jnp.concatenate([r.quat for r in rotations]))

    @classmethod
    def from_euler(cls, seq, angles, degrees=False):
        """From angles about the axes `seq`, lower case fixed, upper case turning with the body; angles (..., len(seq))."""
        axes, intrinsic = _axes(seq)
        angles = _float(angles)
        angles = jnp.deg2rad(angles) if degrees else angles
        angles = angles[..., None] if len(axes) == 1 and (angles.ndim == 0 or angles.shape[-1] != 1) else angles
        quats = []
        for k, axis in enumerate(axes):
            half = angles[..., k] / 2
            zero = jnp.zeros_like(half)
            quats.append(jnp.stack([*[jnp.sin(half) if i == axis else zero for i in range(3)], jnp.cos(half)], -1))
        return cls(functools.reduce(_product if intrinsic else lambda p, q: _product(q, p), quats))

    @classmethod
    def from_matrix(cls, matrix):
        """From rotation matrices (..., 3, 3), by the largest of the four components (Shepperd's method)."""
        m = _float(matrix)
        diagonal = jnp.diagonal(m, axis1=-2, axis2=-1)
        trace = jnp.sum(diagonal, -1)
        choices = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            q = [None] * 4
            q[i] = 1 - trace + 2 * m[..., i, i]
            q[j], q[k] = m[..., j, i] + m[..., i, j], m[..., k, i] + m[..., i, k]
            q[3] = m[..., k, j] - m[..., j, k]
            choices.append(jnp.stack(q, -1))
        choices.append(jnp.stack([*[m[..., (i + 2) % 3, (i + 1) % 3] - m[..., (i + 1) % 3, (i + 2) % 3] for i in range(3)], 1 + trace], -1))
        largest = jnp.argmax(jnp.concatenate([diagonal, trace[..., None]], -1), -1)
        return cls(_unit(jnp.take_along_axis(jnp.stack(choices, -2), largest[..., None, None], -2)[..., 0, :]))

    @classmethod
    def from_mrp(cls, mrp):
        """From modified Rodrigues parameters, the axis times tan(angle / 4)."""
        mrp = _float(mrp)
        square = jnp.sum(mrp * mrp, -1, keepdims=True)
        return cls(jnp.concatenate([2 * mrp, 1 - square], -1) / (1 + square))

    @classmethod
    def from_quat(cls, quat):
        """From quaternions (..., 4) of any length."""
        return cls(_unit(_float(quat)))

    @classmethod
    def from_rotvec(cls, rotvec, degrees=False):
        """From axes times angles."""
        v = _float(rotvec)
        v = jnp.deg2rad(v) if degrees else v
        square = jnp.sum(v * v, -1, keepdims=True)
        small = square < 1e-6
        angle = jnp.sqrt(jnp.where(small, 1, square))
        scale = jnp.where(small, 0.5 - square / 48 + square**2 / 3840, jnp.sin(angle / 2) / angle)
        return cls(jnp.concatenate([scale * v, jnp.where(small, 1 - square / 8 + square**2 / 384, jnp.cos(angle / 2))], -1))

    @classmethod
    def identity(cls, num=None, dtype=float):
        """The identity, or `num` of them."""
        one = jnp.array([0.0, 0.0, 0.0, 1.0], dtype)
        return cls(one if num is None else jnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key, num=None):
        """Uniformly distributed rotations: normalised normal quaternions."""
        return cls(_unit(normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer):
        if self.single:
            raise TypeError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self):
        if self.single:
            raise TypeError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other):
        return Rotation(_unit(_product(*jnp.broadcast_arrays(self.quat, other.quat))))

    def apply(self, vectors, inverse=False):
        """The vectors (..., 3), turned."""
        m = self.as_matrix()
        return jnp.einsum("...ji,...j->...i" if inverse else "...ij,...j->...i", m, jnp.asarray(vectors))

    def as_euler(self, seq, degrees=False):
        """Angles (..., 3) about three axes, the last set to 0 where only a sum or difference is determined (Bernardes and Viollet 2022)."""
        if len(seq) != 3:
            raise ValueError(f"Expected 3 axes, got {seq}.")
        (i, j, k), intrinsic = _axes(seq)
        i, k = (k, i) if intrinsic else (i, k)
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        x, y, z, w = self.quat[..., i], self.quat[..., j], self.quat[..., k] * sign, self.quat[..., 3]
        a, b, c, d = (w, x, y, z) if symmetric else (w - y, x + z, y + w, z - x)
        middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
        plus, minus = jnp.arctan2(b, a), jnp.arctan2(d, c)
        first, last = plus - minus, plus + minus
        at_0, at_pi = abs(middle) < 1e-7, abs(middle - math.pi) < 1e-7
        first = jnp.where(at_0, 2 * plus, jnp.where(at_pi, -2 * minus if not intrinsic else 2 * minus, first))
        last = jnp.where(at_0 | at_pi, 0, last)
        if intrinsic:
            first, last = jnp.where(at_0 | at_pi, last, first), jnp.where(at_0 | at_pi, first, last)
        if not symmetric:
            last, middle = last * sign, middle - math.pi / 2
        angles = [last, middle, first] if intrinsic else [first, middle, last]
        out = jnp.stack(angles, -1)
        out = jnp.where(out < -math.pi, out + 2 * math.pi, jnp.where(out > math.pi, out - 2 * math.pi, out))
        return jnp.rad2deg(out) if degrees else out

    def as_matrix(self):
        """Rotation matrices (..., 3, 3)."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
        return jnp.stack([jnp.stack(row, -1) for row in rows], -2)

    def as_mrp(self):
        """Modified Rodrigues parameters, of the shorter rotation."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_rotvec(self, degrees=False):
        """Axes times angles in [0, pi]."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        square = jnp.sum(q[..., :3] ** 2, -1, keepdims=True)
        small = square < 1e-6
        length = jnp.sqrt(jnp.where(small, 1, square))
        out = q[..., :3] * jnp.where(small, 2 + square / 3, 2 * jnp.arctan2(length, q[..., 3:]) / length)
        return jnp.rad2deg(out) if degrees else out

    def as_quat(self, canonical=False, scalar_first=False):
        """The quaternions: of the two of a rotation the one whose first component from the scalar on is positive, if canonical."""
        q = self.quat
        if canonical:
            order = [q[..., i] for i in (3, 0, 1, 2)]
            flip = jnp.zeros(q.shape[:-1], bool)
            for v in reversed(order):
                flip = jnp.where(v == 0, flip, v < 0)
            q = jnp.where(flip[..., None], -q, q)
        return jnp.roll(q, 1, -1) if scalar_first else q

    def inv(self):
        """The inverse rotations."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self):
        """Angles in [0, pi]."""
        return 2 * jnp.arctan2(jnp.linalg.norm(self.quat[..., :3], axis=-1), abs(self.quat[..., 3]))

    def mean(self, weights=None):
        """The rotation nearest to all in the mean square of chords (Markley et al. 2007). ValueError for weights of another length."""
        w = jnp.ones(self.quat.shape[0], self.quat.dtype) if weights is None else jnp.asarray(weights, self.quat.dtype)
        if w.ndim != 1:
            raise ValueError(f"Expected `weights` to be 1 dimensional, got shape {w.shape}.")
        if w.shape[0] != len(self):
            raise ValueError(f"Expected `weights` to have number of values equal to number of rotations, got {w.shape[0]} and {len(self)}.")
        return Rotation(jnp.linalg.eigh((w * self.quat.T) @ self.quat)[1][:, -1])

    @property
    def single(self):
        """Whether it is one rotation."""
        return self.quat.ndim == 1


class Slerp(NamedTuple):
    """Interpolation along great arcs between rotations at given times; made by Slerp.init(times, rotations)."""

    times: Any
    timedelta: Any
    rotations: Any
    rotvecs: Any

    @classmethod
    def init(cls, times, rotations):
        """Raises TypeError for no Rotation, ValueError for fewer than two and for times of another shape."""
        if not isinstance(rotations, Rotation):
            raise TypeError("`rotations` must be a `Rotation` instance.")
        if rotations.single or len(rotations) == 1:
            raise ValueError("`rotations` must be a sequence of at least 2 rotations.")
        times = jnp.asarray(times, rotations.quat.dtype)
        if times.shape != (len(rotations),):
            raise ValueError(f"Expected one time for each of {len(rotations)} rotations, got times of shape {times.shape}")
        start = Rotation(rotations.quat[:-1])
        return cls(times, jnp.diff(times), start, (start.inv() * Rotation(rotations.quat[1:])).as_rotvec())

    def __call__(self, times):
        """The rotations at `times`, a number or an array (n,)."""
        at = jnp.asarray(times, self.times.dtype)
        if at.ndim > 1:
            raise ValueError("`times` must be at most 1-dimensional.")
        flat = jnp.atleast_1d(at)
        i = jnp.clip(jnp.searchsorted(self.times, flat) - 1, 0, self.timedelta.size - 1)
        part = (flat - self.times[i]) / self.timedelta[i]
        out = self.rotations[i] * Rotation.from_rotvec(self.rotvecs[i] * part[:, None])
        return out[0] if at.ndim == 0 else out


__all__ = ["Rotation", "Slerp"]
