"""One table with a row per primitive; every generic test is driven by it.

A row is a list of cases (case.py): a function, samplers of its arguments and a reference in NumPy. Rows lie in rows/ by family.
"""

from tests.table.case import Case
from tests.table.rows import control, conv, cumulative, dot, elementwise, fft, index, linalg, movement, nn, random, reduce, shape, sort

FAMILIES = (elementwise, shape, reduce, dot, linalg, conv, fft, index, movement, cumulative, sort, nn, random, control)


def _merge():
    rows = {}
    for family in FAMILIES:
        for name, cases in family.ROWS.items():
            if name in rows:
                raise ValueError(f"primitive {name!r} has two rows")
            rows[name] = list(cases)
    return rows


ROWS: dict[str, list[Case]] = _merge()
CASES = [(name, case) for name, cases in ROWS.items() for case in cases]


def ids(pairs):
    return [f"{name}-{case.name}" if case.name else name for name, case in pairs]
