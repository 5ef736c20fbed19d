"""The soak run and the growth plots: that they run and that their verdicts follow from the figures. Nothing here looks at a time."""

import pytest

from benchmarks import growth, soak


def result(rss, drift=1.0):
    return {"rounds": len(rss), "rss_mb": rss, "pool_mb": rss, "drift": drift, "programs": {"a": drift, "b": 0.9}}


def test_soak_runs_rebuilds_and_reports(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(soak, "PROGRAMS", (("elementwise/chain", (1000,)), ("matmul/square", (128,))))
    monkeypatch.setattr(soak, "SLICE", 0.001)
    built = []
    monkeypatch.setattr(soak.Program, "build", lambda self, build=soak.Program.build: (built.append(self.label), build(self)))
    files = {k: str(tmp_path / f"out.{k}") for k in ("json", "png")}
    options = [x for k, v in files.items() for x in (f"--{k}", v)]
    assert soak.main(["--minutes", "0.02", "--growth", "1000", "--drift", "1000", *options]) == 0
    assert built.count("matmul/square 128") > 1 and built.count("elementwise/chain 1000") == 1  # one is made anew, one is held
    assert "rounds of 2 programs" in capsys.readouterr().out
    assert (tmp_path / "out.png").stat().st_size > 1000 and (tmp_path / "out.json").stat().st_size > 10


@pytest.mark.parametrize(
    "figures, good",
    [(result([500.0] * 10), True), (result([500.0] * 5 + [600.0] * 5), False), (result([500.0] * 10, drift=1.3), False)],
)
def test_soak_verdict(figures, good):
    lines, verdict = soak.verdict(figures, growth_mb=50, drift_bound=1.1)
    assert verdict is good and "a" in lines[-1]


def test_drift_compares_the_ends():
    assert soak.drift([1.0] * 5 + [9.0] * 15 + [2.0] * 5) == 2.0


def test_growth_exponents_and_plot(monkeypatch, capsys, tmp_path):
    assert growth.exponent([1, 2, 4, 8], [3, 6, 12, 24]) == pytest.approx(1)
    assert growth.exponent([1, 2, 4, 8], [1, 4, 16, 64]) == pytest.approx(2)
    monkeypatch.setattr(growth, "SIZES", (256, 1024, 4096))
    monkeypatch.setattr(growth, "COUNTS", (2, 4, 8))
    monkeypatch.setattr(growth, "_median", lambda call, **_: call() is None or 1.0)
    assert growth.main(["--png", str(tmp_path / "growth.png"), "--threads", "^(elementwise/axpy 1e5|matmul/square 256)$"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in [*growth.BY_SIZE, *growth.BY_EQUATIONS, "elementwise/axpy 1e5", "matmul/square 256"])
    assert (tmp_path / "growth.png").stat().st_size > 1000
