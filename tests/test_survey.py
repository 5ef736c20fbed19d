"""The survey of the namespace: its cases run and agree with NumPy, and its report follows from the figures. No time is looked at."""

import pytest

from benchmarks import survey

FAST = r"^(np\.(sin|maximum|argmax|sort|cumsum) ?.*axis 1$|np\.hypot|x\[::2|np\.outer|matmul 10|linalg\.det 200)$"


def test_survey_compares_with_numpy(capsys, tmp_path):
    out = tmp_path / "survey.json"
    assert survey.main(["--filter", FAST, "--peers", "numpy", "--rounds", "1", "--budget", "0", "--below", "1e9", "--json", str(out)]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("np.hypot", "np.outer", "linalg.det 200", "np.argmax (1000, 1000) axis 1"))
    assert "differs" not in said and out.stat().st_size > 100


def _answer(seconds, total, shape=(3,), first=1.0):
    return {"seconds": seconds, "first": first, "digests": [[list(shape), total, 2.0]]}


def test_survey_orders_by_ratio_and_notes_what_differs():
    ours, theirs = {"np.sin": _answer(1.0, 5.0), "np.cos": _answer(1.0, 5.0)}, {"np.sin": _answer(3.0, 5.0), "np.cos": _answer(0.5, 9.0)}
    rows = survey.compare({"fgrad": [ours, ours], "jax": [theirs, theirs]}, ["jax"])
    assert [(row[0], row[2]["jax"]) for row in rows] == [("np.cos", 0.5), ("np.sin", 3.0)]
    assert "differs" in rows[0][-1] and not rows[1][-1]
    lines = survey.report(rows, ["jax"], below=1.0)
    assert "behind in 1" in lines[0] and len(lines) == 2


def test_survey_reports_a_failure():
    rows = survey.compare({"fgrad": [{"np.sin": {"failure": "ValueError: no"}}], "jax": [{"np.sin": _answer(1.0, 5.0)}]}, ["jax"])
    assert rows[0][1] is None and "ValueError" in survey.report(rows, ["jax"], below=0)[-1]


def test_survey_is_silent_about_cases_that_no_peer_has():
    rows = survey.compare({"fgrad": [{"np.cbrt": _answer(1.0, 5.0)}], "torch": [{}]}, ["torch"])
    assert len(survey.report(rows, ["torch"], below=1.2)) == 1


@pytest.mark.peers
def test_pytorchs_versions_agree(capsys):
    few = (
        r"^(np\.(?!sort|argsort).*axis 1$|np\.[a-z]+$|convolution .* of [14]x[^ ]*$|(grad of )?linalg\..* 200$|grad of nn\.|.*written out)"
    )
    assert survey.main(["--filter", few, "--peers", "torch", "--rounds", "1", "--budget", "0", "--below", "0"]) == 0
    assert "torch: " in capsys.readouterr().out


@pytest.mark.parametrize(("shape", "total", "same"), [((3,), 5.001, True), ((3,), 6.0, False), ((1, 3), 5.0, False)])
def test_agreement_is_of_shapes_and_sums(shape, total, same):
    assert survey.agree(_answer(1.0, 5.0)["digests"], _answer(1.0, total, shape)["digests"]) is same
