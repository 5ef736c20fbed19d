#!/usr/bin/env bash
# Train on real data: makes .venv, builds the package into it, trains a small Llama on Python source text.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv/bin/python ] || "$python" -m venv .venv
.venv/bin/python -m pip install -q --upgrade pip
.venv/bin/python -m pip install -q -e ".[examples]"
unset PYTHONPATH
exec .venv/bin/python examples/train_llama.py "$@"
