"""For each op of ggml: calls with their arguments, a NumPy reference, and the arguments that have a derivative."""

from tests.ggml_rows import attention, basic, conv, recurrent
from tests.ggml_rows.case import Case

CASES = [*basic.CASES, *attention.CASES, *recurrent.CASES, *conv.CASES]
assert all(isinstance(c, Case) for c in CASES)
