#!/usr/bin/env bash
# Pass all tests: makes .venv-test, builds the package into it, runs the default test suite.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv-test/bin/python ] || "$python" -m venv .venv-test
.venv-test/bin/python -m pip install -q --upgrade pip
.venv-test/bin/python -m pip install -q -e ".[test,lint]"
unset PYTHONPATH
exec .venv-test/bin/python -m pytest -q -n auto "$@"
