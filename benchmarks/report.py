"""Tables and plots of rows."""

import math
import re

from benchmarks.limits import fraction

GRADIENTS = re.compile("(elementwise|norms|losses)/.*grad")
BEHIND = 1.2  # ratios below this are listed by name


def geomean(values):
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def quantity(value, unit):
    """1.23 ms, 4.5 us, 120 MB."""
    if unit != "s":
        return f"{value:.0f} {unit}"
    for scale, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value * 1e9:.3g} ns"


def _ratio(x):
    return "" if x is None else f"{x:.2f}"


def _names(rows):
    order = ("numpy", "numexpr", "jax", "torch", "torch-compile")
    return [p for p in order if any(p in r.timings or p in r.failures for r in rows)]


def _outcome(row):
    """What the comparison of results said."""
    parts = [f"agrees with {', '.join(p for p in row.checked if p not in row.mismatches)}"] * ("fgrad" not in row.failures)
    parts += [f"DIFFERS from {p}: {why}" for p, why in row.mismatches.items()]
    parts += [f"{p} failed: {why.splitlines()[-1] if why else ''}" for p, why in row.failures.items()]
    return "; ".join(parts)


def line(row, limits):
    """One row for the terminal."""
    if "fgrad" not in row.timings:
        return f"{row.workload} {row.size}".ljust(50) + f" {_outcome(row)}"
    t = row.timings["fgrad"]
    spread = (t.high - t.low) / t.median if t.median else 0
    parts = [f"{row.workload} {row.size}".ljust(50), f"{quantity(t.median, row.unit):>9}", f"+-{100 * spread:3.0f}%"]
    parts += [f"{p} {_ratio(row.ratio(p)) or '-'}" for p in row.timings if p != "fgrad"]
    share = fraction(row, limits)
    parts += [f"{100 * share:.0f}% of limit"] if share else []
    parts += [_outcome(row)] if row.mismatches or row.failures else []
    return "  ".join(parts)


def means(rows):
    """{peer or "best peer": (geometric mean of ratios, how many)}"""
    out = {}
    for peer in _names(rows):
        ratios = [r for r in (row.ratio(peer) for row in rows) if r]
        out[peer] = geomean(ratios), len(ratios)
    gradients = [r for row in rows if GRADIENTS.match(row.workload) and (r := row.ratio("numpy"))]
    if gradients:
        out["numpy, gradients of chains, norms and losses"] = geomean(gradients), len(gradients)
    best = [r for _, r in (row.best_peer() for row in rows) if r]
    out["best peer"] = geomean(best), len(best)
    return out


def behind(rows):
    """(row, peer, ratio) where the best peer is less than BEHIND times slower than fgrad, worst first."""
    found = [(row, *row.best_peer()) for row in rows]
    return sorted((x for x in found if x[2] is not None and x[2] < BEHIND), key=lambda x: x[2])


def summary(rows):
    lines = [f"fgrad is ahead of {p} by {g:.2f} (geometric mean of {n} rows)" for p, (g, n) in means(rows).items() if g]
    lines += [f"Rows where the best peer's time is less than {BEHIND} times fgrad's:"] if behind(rows) else []
    lines += [f"  {row.workload} {row.size}: {peer} {ratio:.2f}" for row, peer, ratio in behind(rows)]
    wrong = [(row, p, why) for row in rows for p, why in row.mismatches.items()]
    lines += ["Results that differ:"] if wrong else []
    lines += [f"  {row.workload} {row.size}, {p}: {why}" for row, p, why in wrong]
    return "\n".join(lines)


def _memory_share(row, least=5.0):
    """fgrad's memory over PyTorch's, where both grew by more than `least` MB."""
    grown = [row.timings[p].grown_mb if p in row.timings else None for p in ("fgrad", "torch")]
    return f"{grown[0] / grown[1]:.2f}" if all(g is not None and g > least for g in grown) else ""


def _table(rows, limits):
    peers = _names(rows)
    head = ["workload", "size", "fgrad", "spread", *peers, "best peer", "of limit", "peak MB", "of torch's", "notes"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        t, share = row.timings.get("fgrad"), fraction(row, limits)
        peer, ratio = row.best_peer()
        notes = [row.note] * bool(row.note) + ([f"the program's arena {t.arena_mb:.0f} MB"] if t and t.arena_mb else [])
        notes += [f"{p}: results differ" for p in row.mismatches] + [f"{p}: failed" for p in row.failures]
        cells = [
            row.workload,
            row.size,
            quantity(t.median, row.unit) if t else "",
            f"{100 * (t.high - t.low) / t.median:.0f}%" if t and t.median else "",
            *(_ratio(row.ratio(p)) for p in peers),
            f"{ratio:.2f} ({peer})" if ratio else "",
            f"{100 * share:.0f}%" if share else "",
            f"{t.grown_mb:.0f}" if t and t.grown_mb is not None else "",
            _memory_share(row),
            "; ".join(notes),
        ]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return lines


def markdown(rows, meta):
    """The page docs/benchmarks.md."""
    limits = meta.get("limits")
    lines = ["# Benchmarks", "", "Made by `python -m benchmarks --markdown docs/benchmarks.md`; do not edit.", ""]
    lines += [
        f"{meta['cpu']}, {meta['threads']} threads, Python {meta['python']}, " + ", ".join(f"{k} {v}" for k, v in meta["versions"].items())
    ]
    lines += [
        f"{meta['date']}, medians over {meta['rounds']} interleaved rounds, a process per implementation, pools {meta['wait_policy']}.",
        "",
    ]
    if limits:
        lines += [
            f"Limits of the machine in the same run: triad {limits['triad_gbs']:.1f} GB/s, sgemm {limits['sgemm_gflops']:.0f} GFLOP/s, "
            f"dgemm {limits['dgemm_gflops']:.0f} GFLOP/s.",
            "",
        ]
    lines += [
        "A peer's column is its time divided by fgrad's: above 1, fgrad is ahead. Spread: interquartile range over the median.",
        "Of limit: the least time that the machine needs for the bytes (of arrays larger than its caches) or the",
        "products (at sgemm's rate, which Winograd's convolutions and a processor's tile unit exceed), over fgrad's time.",
        "Peak MB: how much fgrad's process grows; of torch's: that over how much PyTorch's does.",
        "",
        "| peer | geometric mean | rows |",
        "|---|---|---|",
        *(f"| {p} | {g:.2f} | {n} |" for p, (g, n) in means(rows).items() if g),
        "",
    ]
    core, rest = [r for r in rows if r.core], [r for r in rows if not r.core]
    for title, part in (("Core workloads", core), ("More workloads", rest)):
        if part:
            lines += [f"## {title}", "", *_table(part, limits), ""]
    found = behind(rows)
    lines += [f"## Where the best peer's time is less than {BEHIND} times fgrad's", ""]
    lines += [f"- {row.workload} {row.size}: {peer}, {ratio:.2f}" for row, peer, ratio in found] or ["None."]
    return "\n".join(lines) + "\n"


def plot(rows, path):
    """A dot per row and peer: peer time over fgrad's, logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.2 * len(rows)))
    labels = [f"{r.workload} {r.size}" for r in rows]
    for peer in _names(rows):
        points = [(r.ratio(peer), i) for i, r in enumerate(rows) if r.ratio(peer)]
        if points:
            axes.plot(*zip(*points), "o", markersize=4, label=peer)
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set(xscale="log", xlabel="peer's time / fgrad's time (right of 1: fgrad ahead)", yticks=range(len(rows)), ylim=(len(rows), -1))
    axes.set_yticklabels(labels, fontsize=7)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def compare(old_rows, rows, threshold=1.1):
    """Lines with fgrad's time now over its time then; a regression is beyond `threshold` with quartiles that do not overlap."""
    old, lines, ratios = {(r.workload, r.size): r for r in old_rows}, [], []
    for row in rows:
        before = old.get((row.workload, row.size))
        if before is None or "fgrad" not in before.timings or "fgrad" not in row.timings:
            continue
        a, b = before.timings["fgrad"], row.timings["fgrad"]
        ratio = b.median / a.median
        ratios.append(ratio)
        flag = "  REGRESSION" if ratio > threshold and b.low > a.high else "  faster" if ratio < 1 / threshold and b.high < a.low else ""
        lines.append(
            f"{row.workload} {row.size}".ljust(50)
            + f"  {quantity(a.median, row.unit)} -> {quantity(b.median, row.unit)}  {ratio:.2f}{flag}"
        )
    if ratios:
        lines.append(f"new / old, geometric mean of {len(ratios)} rows: {geomean(ratios):.3f}")
    return "\n".join(lines)
