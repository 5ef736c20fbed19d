"""Rotations against matrices written out, Slerp against turning at constant speed, interpolation on grids against its definition."""

import itertools

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.scipy.interpolate import RegularGridInterpolator
from fgrad.scipy.spatial.transform import Rotation, Slerp
from tests.derivatives import check_derivatives

rng = np.random.default_rng(0)
Q = rng.normal(size=(20, 4))
SEQUENCES = ["".join(p) for case in ("xyz", "XYZ") for p in itertools.product(case, repeat=3) if p[0] != p[1] != p[2]]


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64():
        yield


def close(a, b, atol=1e-12):
    np.testing.assert_allclose(a, b, atol=atol)


def elementary(axis, angle):
    c, s = np.cos(angle), np.sin(angle)
    m = np.eye(3)
    i, j = [(1, 2), (2, 0), (0, 1)]["xyz".index(axis)]
    m[[i, j, i, j], [i, j, j, i]] = c, c, -s, s
    return m


def test_forms():
    r = Rotation.from_quat(Q)
    m = np.asarray(r.as_matrix())
    close(m @ m.transpose(0, 2, 1), np.broadcast_to(np.eye(3), m.shape))
    close(np.linalg.det(m), 1)
    vector = np.asarray(r.as_rotvec())
    close(np.einsum("nij,nj->ni", m, vector), vector)  # the axis stays
    close(1 + 2 * np.cos(r.magnitude()), np.trace(m, axis1=1, axis2=2))
    close(np.linalg.norm(vector, axis=1), r.magnitude())
    for same in (
        *(Rotation.from_matrix(m), Rotation.from_rotvec(vector), Rotation.from_mrp(r.as_mrp()), r.inv().inv()),
        Rotation.from_rotvec(np.rad2deg(vector), degrees=True),
    ):
        close(same.as_matrix(), m)
    close((r * Rotation(r.quat[::-1])).as_matrix(), m @ m[::-1])
    close(r.apply(Q[:, :3]), np.einsum("nij,nj->ni", m, Q[:, :3]))
    close(r.apply(r.apply(Q[:, :3]), inverse=True), Q[:, :3])
    assert (r.as_quat(canonical=True)[:, 3] > 0).all() and np.array_equal(r.as_quat(scalar_first=True)[:, 0], r.as_quat()[:, 3])
    assert len(Rotation.concatenate([r, r])) == 40 and r[3].single and len(r[2:5]) == 3
    close(Rotation.identity().as_matrix(), np.eye(3))
    close(Rotation.from_quat(np.tile(Q[:1], (5, 1))).mean().as_matrix(), m[0])
    many = Rotation.random(fgrad.random.key(0), 4000)
    close(many.as_matrix().mean(0), np.zeros((3, 3)), atol=0.05)


@pytest.mark.parametrize("seq", SEQUENCES)
def test_euler(seq):
    for angles in ([0.3, 0.8, -2.0], [0.3, 0.0, 0.4], [0.3, np.pi, 0.4], [0.3, np.pi / 2, 0.2], [0.3, -np.pi / 2, 0.2]):
        parts = [elementary(a.lower(), v) for a, v in zip(seq, angles)]
        want = parts[0] @ parts[1] @ parts[2] if seq.isupper() else parts[2] @ parts[1] @ parts[0]
        r = Rotation.from_euler(seq, np.array(angles))
        close(r.as_matrix(), want)
        close(Rotation.from_euler(seq, r.as_euler(seq)).as_matrix(), want, atol=1e-7)
        close(Rotation.from_euler(seq, r.as_euler(seq, degrees=True), degrees=True).as_matrix(), want, atol=1e-7)


def test_slerp_and_derivatives():
    times = np.array([0.0, 1.0, 3.0])
    turns = Rotation.from_euler("z", np.array([[0.0], [0.5], [1.5]]))
    at = Slerp.init(times, turns)(np.array([0.0, 0.4, 2.0, 3.0]))
    close(at.as_rotvec()[:, 2], [0, 0.2, 1.0, 1.5])
    assert Slerp.init(times, turns)(0.5).single
    check_derivatives(lambda v: Rotation.from_rotvec(v).as_matrix(), np.array([0.3, -0.2, 0.9]), order=2)
    check_derivatives(lambda v: Rotation.from_rotvec(v).as_rotvec(), np.array([0.0, 1e-4, 0.0]), order=1)


def test_rotation_errors():
    for wrong in (
        lambda: Rotation.from_euler("xa", np.ones(2)),
        lambda: Rotation.from_euler("xx", np.ones(2)),
        lambda: Rotation(Q).as_euler("xy"),
    ):
        with pytest.raises(ValueError, match="axes"):
            wrong()
    with pytest.raises(TypeError, match="not subscriptable"):
        Rotation.identity()[0]
    with pytest.raises(TypeError, match="instance"):
        Slerp.init(np.ones(2), Q)
    with pytest.raises(ValueError, match="weights"):
        Rotation(Q).mean(np.ones(3))


def test_interpolation():
    x, y = np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.5])
    plane = lambda a, b: 2 * a - 3 * b + 1  # which linear interpolation repeats
    f = RegularGridInterpolator((x, y), np.stack([plane(x[:, None], y), 0 * plane(x[:, None], y) + 7], -1))
    at = np.array([[0.5, 0.0], [2.0, -1.0], [3.0, 0.5]])
    out = fgrad.jit(lambda f, p: f(p))(f, at)
    close(out[:, 0], plane(*at.T))
    close(out[:, 1], 7)
    assert np.isnan(f(np.array([[4.0, 0.0]]))).all()
    g = RegularGridInterpolator((x,), x * 2, fill_value=None)
    close(g(np.array([-1.0, 5.0])), [-2, 10])
    close(RegularGridInterpolator((x,), x, method="nearest", fill_value=-1.0)(np.array([0.4, 1.9, 2.1, 9])), [0, 1, 3, -1])
    close(g((np.array([[0.5], [2.0]]),)), [[1], [4]])
    check_derivatives(lambda v, p: RegularGridInterpolator((x, y), v)(p), plane(x[:, None], y), at[:1] + 0.1, order=1)
    with pytest.raises(ValueError, match="not defined"):
        RegularGridInterpolator((x,), x, method="cubic")
    with pytest.raises(ValueError, match="point arrays"):
        RegularGridInterpolator((x, x), x)
    with pytest.raises(NotImplementedError, match="bounds_error"):
        RegularGridInterpolator((x,), x, bounds_error=True)
    with pytest.raises(ValueError, match="dimension"):
        f(np.ones((2, 3)))
    assert jnp.ndim(out) == 2
