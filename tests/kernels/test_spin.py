"""Threads that wait do not spin for long: a machine with other work would stand still."""

import os
import subprocess
import sys

import pytest

PROGRAM = "import os, fgrad; print('GOMP_SPINCOUNT' in os.environ)"


def spin_count(**settings):
    """(the spin count that libgomp reports as it loads, whether the variable is set afterwards)."""
    env = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**env, "OMP_DISPLAY_ENV": "VERBOSE", **settings}, capture_output=True, text=True, check=True
    )
    lines = [line for line in run.stderr.splitlines() if "GOMP_SPINCOUNT" in line]
    if not lines:
        pytest.skip("another OpenMP runtime than libgomp")
    return int(lines[0].split("'")[1]), run.stdout.strip() == "True"


def test_spinning_is_bounded_without_a_trace_in_the_environment():
    assert spin_count() == (2000, False)


def test_own_settings_stand():
    assert spin_count(GOMP_SPINCOUNT="77") == (77, True)
    assert spin_count(OMP_WAIT_POLICY="passive")[0] != 2000
