"""Quotas and limits of containers: which are read, and that threads keep to them."""

import pytest

from fgrad._kernels import parallel
from fgrad._kernels.container import bytes_allowed, cores_allowed

MAXIMUM = str((1 << 63) - 4096)


def tree(folder, files, own):
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (folder / "own").write_text(own)
    return str(folder / "groups"), str(folder / "own")


@pytest.mark.parametrize(
    "files, own, cores",
    [
        ({"cpu.max": "150000 100000"}, "0::/\n", 2),
        ({"cpu.max": "max 100000"}, "0::/\n", None),
        ({"cpu.max": "1000 100000"}, "0::/\n", 1),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, "0::/a/b\n", 3),
        ({"a/cpu.max": "300000 100000", "b/cpu.max": "100000 100000"}, "0::/a\n", 3),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/of/the/host\n1:name=d:/x\n", 4),
        ({"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, "4:cpu:/a\n0::/\n", None),
        ({"cpuacct/cpu.cfs_quota_us": "100000", "cpuacct/cpu.cfs_period_us": "100000"}, "4:cpuacct:/\n", None),
        ({"cpu.max": "nonsense"}, "0::/\n", None),
        ({"cpu.max": "100000 0"}, "0::/\n", None),
        ({}, "", None),
        ({"cpu.max": "100000 100000"}, "no colon\n0:\n::\n0::relative\n", 1),
    ],
)
def test_quotas(tmp_path, files, own, cores):
    assert cores_allowed(*tree(tmp_path, files, own)) == cores


@pytest.mark.parametrize(
    "files, own, limit",
    [
        ({"memory.max": "2147483648"}, "0::/\n", 1 << 31),
        ({"memory.max": "max", "memory.high": "max"}, "0::/\n", None),
        ({"a/memory.max": "max", "a/memory.high": "1000000", "memory.max": "2000000"}, "0::/a\n", 1_000_000),
        ({"memory/memory.limit_in_bytes": "4096000", "memory/a/memory.limit_in_bytes": MAXIMUM}, "3:memory:/a\n", 4_096_000),
        ({}, "0::/\n", None),
    ],
)
def test_memory_limits(tmp_path, files, own, limit):
    assert bytes_allowed(*tree(tmp_path, files, own)) == limit


def test_no_groups(tmp_path):
    assert cores_allowed(str(tmp_path), str(tmp_path / "absent")) is None


def test_threads_keep_to_the_quota(monkeypatch):
    for name in ("FGRAD_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(parallel, "cores_allowed", lambda: None)
    without = parallel._default_threads()
    monkeypatch.setattr(parallel, "cores_allowed", lambda: 1)
    assert parallel._default_threads() == 1 <= without
    monkeypatch.setattr(parallel, "cores_allowed", lambda: without + 5)
    assert parallel._default_threads() == without
    monkeypatch.setenv("FGRAD_NUM_THREADS", str(without + 2))
    assert parallel._default_threads() == without + 2
