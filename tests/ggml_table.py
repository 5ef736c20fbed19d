"""Writes docs/ggml.md from the facts about ggml and the rows that test_ggml.py checks: python -m tests.ggml_table > docs/ggml.md"""

from collections import namedtuple
from pathlib import Path

from tests.ggml_rows import CASES
from tests.ggml_rows.basic import ZERO

FACTS = Path(__file__).parent / "data" / "ggml_ops.tsv"
Op = namedtuple("Op", "kind name ggml_backward")
HEAD = """# ggml's operations in fgrad

`fgrad.ggml` has one function for each operation of ggml.h, under its name, with its argument order and semantics. Arrays are ordinary
row-major arrays: ggml's sizes `ne` are the shape reversed, and `ne0` is the last axis. Sizes, strides and offsets that are arguments
keep ggml's order, and bytes.

This table is written by `python -m tests.ggml_table` from the rows that `tests/test_ggml.py` checks: forward against NumPy in
float64 and float32, backward and forward mode against central differences in float64 (mostly also of the second order), vmap against
stacking, jit, and 16-bit floats. ggml's column is that of ggml-org/ggml d99724f2 (2026-08-21): whether it has a backward pass of its own.
"""
NOTES = """
Where the two differ in form: reductions to one number are scalars; ops that write two results into one ggml tensor (the recurrent
ones, `flash_attn_back`, the optimizer steps) return a tuple; `custom` and `map_custom` take NumPy functions that return their result,
and a derivative rule of their own; `soft_max` takes the mask, the scale, ALiBi's largest bias and the sinks; `conv_3d` has the
arguments of `ggml_conv_3d_direct`. Arguments of a few `_back` ops follow ggml's code where its header names them otherwise:
the cotangent comes first. Quantized types are not here.

`tests/peers/test_ggml.py` runs the same calls in ggml itself (0.15) through ggml-python: results agree for every op that this version
has and whose function returns, gradients for 40 calls. ggml's backward passes have limits that these do not: `sub` and `div` with a
repeated second operand, `add1`'s scalar, `mul_mat` with repeated stacks, `get_rows` of stacks and `soft_max` with ALiBi stop the process.
"""


def _ops():
    lines = [line.split("\t") for line in FACTS.read_text().splitlines() if not line.startswith("#")]
    return [Op(kind, name, backward == "yes") for kind, name, backward in lines[1:]]


OPS = _ops()


def _row(op, cases):
    why = {c.why for c in cases if c.why}
    backward = f"no: {why.pop()}" if why else "yes, 0 everywhere" if op.name in ZERO else "yes"
    vmap = "yes" if any(c.args for c in cases) else "it takes no array"
    return f"| {op.name} | {op.kind} | {'yes' if cases else 'no'} | {backward} | {vmap} | {'yes' if op.ggml_backward else 'no'} |"


def table():
    """The text of docs/ggml.md."""
    cases = {op.name: [c for c in CASES if c.op == op.name] for op in OPS}
    rows = [_row(op, cases[op.name]) for op in OPS]
    total = len(OPS)
    forward = sum(bool(c) for c in cases.values())
    backward = sum(any(c.wrt for c in cs) for cs in cases.values())
    theirs = sum(op.ggml_backward for op in OPS)
    lost = [op.name for op in OPS if op.ggml_backward and not any(c.wrt for c in cases[op.name])]
    counts = f"""
| | fgrad | ggml |
|---|---|---|
| forward | {forward} of {total} | {total} of {total} |
| backward | {backward} of {total} | {theirs} of {total} |
| differentiable in ggml and not here | {", ".join(lost) or "none"} | |
"""
    head = "\n| op | kind | forward | backward | vmap | backward in ggml |\n|---|---|---|---|---|---|\n"
    return HEAD + counts + head + "\n".join(rows) + "\n" + NOTES


if __name__ == "__main__":
    print(table(), end="")
