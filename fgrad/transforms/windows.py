"""Cotangents of the slices of a value, until it is known that there are no more.

Each alone is padded with zeros to the whole value, which for n slices are n passes over it. Here those of one place are added as they
are, and those that lie beside each other along an axis are joined.
"""

from fgrad.core import get_aval
from fgrad.ops.elementwise import add
from fgrad.ops.rules import like, zeros
from fgrad.ops.shape import concatenate, pad

SMALL = 4096  # elements of a value whose windows are widened with zeros to lie side by side


class Windows:
    """The sum of `total` (None: nothing) and of windows {((start, limit) of each axis): cotangent}, zero outside of them."""

    __slots__ = ("total", "windows")

    def __init__(self, total):
        self.total, self.windows = total, {}

    def add(self, starts, limits, ct):
        box = tuple(zip(starts, limits))
        before = self.windows.get(box)
        self.windows[box] = ct if before is None else add(before, ct)

    def add_whole(self, ct):
        self.total = ct if self.total is None else add(self.total, ct)

    def joined(self, shape):
        """The cotangent of the whole value."""
        windows, total = self.windows, self.total
        if len(windows) > 1:
            size = 1
            for n in shape:
                size *= n
            for axis in reversed(range(len(shape))):
                windows = _join(windows, axis, size <= SMALL)
        for box, ct in windows.items():
            ct = _widened(ct, box, tuple((0, n) for n in shape))
            total = ct if total is None else add(total, ct)
        return total


def _join(windows, axis, widen):
    """Windows that differ along one axis only, side by side; widen: those that could be joined along another axis get one extent."""
    ends = {box[axis] for box in windows}
    if len(ends) == 1:
        return windows
    groups, out = {}, {}
    for box, ct in windows.items():
        groups.setdefault((*box[:axis], *box[axis + 1 :]), []).append((box[axis], ct))
    whole = (min(lo for lo, _ in ends), max(hi for _, hi in ends)) if widen and len(groups) > 1 else None
    for others, group in groups.items():
        for lo, hi, row in _rows(sorted(group, key=lambda item: item[0])):
            box = (*others[:axis], (lo, hi), *others[axis:])
            ct = concatenate(_without_gaps(row, axis), axis) if len(row) > 1 else row[0][1]
            if whole is not None:
                wide = (*others[:axis], whole, *others[axis:])
                box, ct = wide, _widened(ct, box, wide)
            out[box] = ct if box not in out else add(out[box], ct)
    return out


def _rows(group):
    """[[lo, hi, windows]] of windows in order, each in the first row that it does not overlap."""
    rows = []
    for (lo, hi), ct in group:
        row = next((r for r in rows if r[1] <= lo), None)
        if row is None:
            rows.append([lo, hi, [((lo, hi), ct)]])
        else:
            row[1] = hi
            row[2].append(((lo, hi), ct))
    return rows


def _without_gaps(row, axis):
    """The operands of a concatenation of windows, zeros between them."""
    out, at = [], row[0][0][0]
    for (lo, hi), ct in row:
        if lo > at:
            aval = get_aval(ct)
            out.append(zeros(aval.update(shape=(*aval.shape[:axis], lo - at, *aval.shape[axis + 1 :]))))
        out.append(ct)
        at = hi
    return out


def _widened(ct, box, whole):
    """A window over a larger one."""
    config = tuple((lo - first, last - hi, 0) for (lo, hi), (first, last) in zip(box, whole))
    return pad(ct, like(ct, 0), config) if any(map(any, config)) else ct
