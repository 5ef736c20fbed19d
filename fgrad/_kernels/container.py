"""What a container leaves of the machine: cores of a quota, bytes of a memory limit (Linux control groups, versions 1 and 2)."""

import math
import os

ROOT, OWN = "/sys/fs/cgroup", "/proc/self/cgroup"


def cores_allowed(root=ROOT, own=OWN):
    """Whole cores, rounded up, that quotas of this process's groups allow; None without a quota."""
    shares = []
    for group in _groups("cpu", root, own):
        quota, _, period = _read(group, "cpu.max").partition(" ")
        if not period:
            quota, period = _read(group, "cpu.cfs_quota_us"), _read(group, "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(quota) > 0 and int(period) > 0:  # "max" and -1: no quota
            shares.append(math.ceil(int(quota) / int(period)))
    return min(shares, default=None)


def bytes_allowed(root=ROOT, own=OWN):
    """Bytes that this process's groups may hold; None without a limit."""
    names = "memory.max", "memory.high", "memory.limit_in_bytes"
    texts = [_read(group, name) for group in _groups("memory", root, own) for name in names]
    return min((int(t) for t in texts if t.isdigit()), default=None)


def _groups(controller, root, own):
    """Folders of this process's group and of those around it: each may limit it."""
    folders = []
    for line in _read("", own).splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not colon or (controllers and controller not in controllers.split(",")):
            continue
        base = os.path.join(root, controller) if controllers else root  # version 2 has one tree for all controllers
        while path not in ("", "/"):
            folders.append(base + path)
            path = os.path.dirname(path)
        folders.append(base)
    return folders


def _read(folder, name):
    try:
        with open(os.path.join(folder, name), errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
