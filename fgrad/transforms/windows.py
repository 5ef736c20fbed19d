"""Cotangents of the slices of a value, until it is known that there are no more.

Each alone is padded with zeros to the whole value, which for n slices are n passes over it. Here those of one place are added as they
are, those by steps that fall between each other are put together element by element, and those that lie beside each other along an axis
are joined.
"""

from fgrad.core import get_aval
from fgrad.ops.elementwise import add
from fgrad.ops.rules import like, zeros
from fgrad.ops.shape import concatenate, pad, reshape, slice_in_dim

SMALL = 4096  # elements of a value whose windows are widened with zeros to lie side by side


class Windows:
    """The sum of `total` (None: nothing) and of windows {((start, limit, step) of each axis): cotangent}, zero outside of them."""

    __slots__ = ("total", "windows")

    def __init__(self, total):
        self.total, self.windows = total, {}

    def add(self, starts, strides, ct):
        box = tuple([(lo, lo + st * n, st) if n > 1 else (lo, lo + n, 1) for lo, n, st in zip(starts, get_aval(ct).shape, strides)])
        before = self.windows.get(box)
        self.windows[box] = ct if before is None else add(before, ct)

    def add_whole(self, ct):
        self.total = ct if self.total is None else add(self.total, ct)

    def joined(self, shape):
        """The cotangent of the whole value."""
        windows, total = self.windows, self.total
        if len(windows) > 1:
            for axis in reversed(range(len(shape))):
                windows = _interleave(windows, axis, shape[axis])
            size = 1
            for n in shape:
                size *= n
            for axis in reversed(range(len(shape))):
                windows = _join(windows, axis, size <= SMALL)
        for box, ct in windows.items():
            ct = _widened(ct, box, [(0, n, 1) for n in shape])
            total = ct if total is None else add(total, ct)
        return total


def _interleave(windows, axis, size):
    """Windows by one step along an axis, alike otherwise, put together where they leave out at most half of the elements between."""
    if all([box[axis][2] == 1 for box in windows]):
        return windows
    groups, out = {}, {}
    for box, ct in windows.items():
        groups.setdefault((*box[:axis], *box[axis + 1 :], box[axis][2]), []).append((box[axis], ct))
    for (*others, step), group in groups.items():
        for row in _combs(group, step) if step > 1 and len(group) > 1 else [[item] for item in group]:
            (lo, hi, _), ct = row[0]
            if 2 * len(row) >= step > 1 and len(row) > 1:
                lo, hi, ct = _combed(row, step, axis)
                if hi > size:
                    hi, ct = size, slice_in_dim(ct, 0, size - lo, axis=axis)
                span = (lo, hi, 1)
                box = (*others[:axis], span, *others[axis:])
                out[box] = ct if box not in out else add(out[box], ct)
            else:
                out.update({(*others[:axis], span, *others[axis:]): ct for span, ct in row})
    return out


def _combs(group, step):
    """Windows by a step, in groups of which no two have elements in one place."""
    teeth = {}
    for item in sorted(group, key=lambda item: item[0]):
        teeth.setdefault(item[0][0] % step, []).append(item)
    return [[row[i] for row in teeth.values() if i < len(row)] for i in range(max(map(len, teeth.values())))]


def _combed(row, step, axis):
    """(start, limit, cotangent) of windows by a step as one without gaps."""
    lo = min([span[0] for span, _ in row])
    n = max([(span[0] - lo) // step + (span[1] - span[0]) // step for span, _ in row])
    teeth, aval = {}, get_aval(row[0][1])
    for (first, limit, _), ct in row:
        before = (first - lo) // step
        config = [(0, 0, 0)] * len(aval.shape)
        config[axis] = before, n - before - (limit - first) // step, 0
        teeth[(first - lo) % step] = pad(ct, like(ct, 0), tuple(config)) if any(config[axis]) else ct
    shape = (*aval.shape[:axis], n, 1, *aval.shape[axis + 1 :])
    none = None if len(teeth) == step else zeros(aval.update(shape=shape))
    joined = concatenate([reshape(teeth[i], shape) if i in teeth else none for i in range(step)], axis + 1)
    return lo, lo + n * step, reshape(joined, (*aval.shape[:axis], n * step, *aval.shape[axis + 1 :]))


def _join(windows, axis, widen):
    """Windows that differ along one axis only, side by side; widen: those that could be joined along another axis get one extent."""
    ends = {box[axis] for box in windows if box[axis][2] == 1}
    if len(ends) < 2:
        return windows
    groups, out = {}, {}
    for box, ct in windows.items():
        if box[axis][2] == 1:
            groups.setdefault((*box[:axis], *box[axis + 1 :]), []).append((box[axis], ct))
        else:
            out[box] = ct
    whole = (min(lo for lo, *_ in ends), max(hi for _, hi, _ in ends), 1) if widen and len(groups) > 1 else None
    for others, group in groups.items():
        for lo, hi, row in _rows(sorted(group, key=lambda item: item[0])):
            box = (*others[:axis], (lo, hi, 1), *others[axis:])
            ct = concatenate(_without_gaps(row, axis), axis) if len(row) > 1 else row[0][2]
            if whole is not None:
                wide = (*others[:axis], whole, *others[axis:])
                box, ct = wide, _widened(ct, box, wide)
            out[box] = ct if box not in out else add(out[box], ct)
    return out


def _rows(group):
    """[[lo, hi, windows]] of windows in order, each in the first row that it does not overlap."""
    rows = []
    for (lo, hi, _), ct in group:
        row = next((r for r in rows if r[1] <= lo), None)
        if row is None:
            rows.append([lo, hi, [(lo, hi, ct)]])
        else:
            row[1] = hi
            row[2].append((lo, hi, ct))
    return rows


def _without_gaps(row, axis):
    """The operands of a concatenation of windows, zeros between them."""
    out, at = [], row[0][0]
    for lo, hi, ct in row:
        if lo > at:
            aval = get_aval(ct)
            out.append(zeros(aval.update(shape=(*aval.shape[:axis], lo - at, *aval.shape[axis + 1 :]))))
        out.append(ct)
        at = hi
    return out


def _widened(ct, box, whole):
    """A window over a larger one."""
    config = []
    for span, wide in zip(box, whole):
        (lo, hi, step), (first, last, _) = span, wide
        config.append((0, 0, 0) if span == wide else (lo - first, last - hi + step - 1, step - 1))
    return pad(ct, like(ct, 0), tuple(config)) if any(map(any, config)) else ct
