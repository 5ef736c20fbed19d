"""The benchmark harness: processes, comparison of results, reports. Nothing here looks at a time."""

import json

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import report, runner, startup
from benchmarks.runner import Options, Row, Timing
from benchmarks.worker import digest
from benchmarks.workload import leaves, load_all, tree_map

FAST = Options(threads=1, rounds=2, warm_up=0.0, sample=0.0005)


def row(name="a/b", fgrad=1.0, spread=0.0, **peers):
    times = {"fgrad": fgrad, **peers}
    return Row(name, "10", "s", True, "", timings={p: Timing(t, t * (1 - spread), t * (1 + spread)) for p, t in times.items()})


def test_run_against_numpy_and_report(tmp_path, capsys):
    files = {k: str(tmp_path / k) for k in ("json", "markdown")}
    options = [x for k, v in files.items() for x in (f"--{k}", v)]
    run = ["--filter", "^(elementwise/chain value_and_grad 1000|losses/cross-entropy grad 1024x128)$", "--rounds", "2", "--threads", "1"]
    assert command.main([*run, "--quick", "--peers", "numpy", "--no-limits", *options]) == 0
    rows = [Row.from_dict(r) for r in json.loads((tmp_path / "json").read_text())["rows"]]
    assert [r.workload for r in rows] == ["elementwise/chain value_and_grad", "losses/cross-entropy grad"]
    for r in rows:
        assert set(r.timings) == {"fgrad", "numpy"} and not r.mismatches and not r.failures
        assert all(0 < t.low <= t.median <= t.high and t.first_call > 0 and t.peak_mb > 1 for t in r.timings.values())
    assert "elementwise/chain value_and_grad | 1000 |" in (tmp_path / "markdown").read_text()
    assert "geometric mean of 2 rows" in capsys.readouterr().out


def test_worker_failures_are_reported_and_leave_the_worker_usable():
    worker = runner.WorkerProcess("numpy", FAST)
    try:
        worker.receive()
        with pytest.raises(runner.WorkerError, match="KeyError: 'no such workload'"):
            worker.ask("prepare", "no such workload", ())
        assert worker.ask("prepare", "elementwise/axpy", (100,))["results"][0]["shape"] == (100,)
        worker._process.kill()
        with pytest.raises(runner.WorkerError, match="ended with status -9"):
            worker.ask("sample")
    finally:
        worker.close()


def test_every_workload_builds_its_inputs_and_says_its_size():
    for cls in load_all().values():
        assert set(cls.quick) <= set(cls.sizes), cls.name
        assert len({cls(*s).label for s in cls.sizes}) == len(cls.sizes), cls.name
        work = cls(*cls.sizes[0])
        for figure in (work.bytes(), work.flops()):
            assert figure is None or figure > 0


@pytest.mark.parametrize(
    "other, message",
    [
        ([1.0, 2.0, 3.0], None),
        ([1.0, 2.0, 3.00001], None),
        ([1.0, 2.0, 3.1], "error 1.00e-01"),
        ([[1.0, 2.0, 3.0]], "shape"),
        ([1.0, 2.0, np.nan], "NaN"),
    ],
)
def test_difference(other, message):
    got = runner.difference([digest(np.array([1.0, 2.0, 3.0]))], [digest(np.array(other))], 1e-4)
    assert got is None if message is None else message in got


def test_difference_sees_what_lies_between_the_kept_elements():
    x = np.ones(100_000)
    y = x.copy()
    y[1:] *= 1 + 1e-2 * (np.arange(1, len(x)) % 5 > 0)
    assert "sum" in runner.difference([digest(x)], [digest(y)], 1e-4)
    assert "1 results against 2" in runner.difference([digest(x)], [digest(x)] * 2, 1e-4)


def test_means_and_rows_behind():
    rows = [row(jax=4.0, numpy=2.0), row("c/d", jax=1.0)]
    assert report.means(rows) == {"numpy": (2.0, 1), "jax": (2.0, 2), "best peer": (pytest.approx(2**0.5), 2)}
    assert [(r.workload, p, x) for r, p, x in report.behind(rows)] == [("c/d", "jax", 1.0)]


def test_a_mismatch_has_no_ratio():
    r = row(jax=4.0)
    r.mismatches["jax"] = "error"
    assert r.ratio("jax") is None and r.best_peer() == (None, None)


def test_compare_flags_only_what_the_spread_does_not_explain():
    old = [row("slow/er", 1.0), row("no/isy", 1.0, spread=0.5), row("fast/er", 2.0)]
    lines = report.compare(old, [row("slow/er", 1.5), row("no/isy", 1.5, spread=0.5), row("fast/er", 1.0), row("n/ew", 1.0)]).splitlines()
    assert [x.split()[-1] for x in lines[:3]] == ["REGRESSION", "1.50", "faster"] and "3 rows" in lines[3]


def test_installed_size_counts_dependencies():
    assert startup.installed_mb("fgrad") > startup.installed_mb("numpy") > 1
    assert startup.installed_mb("no-such-package") is None


def test_leaves_and_tree_map():
    tree = {"b": [1, (2, None)], "a": 3}
    assert leaves(tree) == [3, 1, 2]
    assert tree_map(lambda x: 2 * x, tree) == {"b": [2, (4, None)], "a": 6}
