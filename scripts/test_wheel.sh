#!/usr/bin/env bash
# Build the portable wheel (kernels for x86-64-v2, v3 and v4) into dist/, install it into .venv-wheel, and pass all tests with
# each set of kernels that this machine runs.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv-wheel/bin/python ] || "$python" -m venv .venv-wheel
run=$PWD/.venv-wheel/bin/python
$run -m pip install -q --upgrade pip
unset PYTHONPATH
FGRAD_BUILD_ISA=all $run -m pip wheel -q --no-deps -w dist .
wheel=$(ls -t dist/fgrad-*.whl | head -1)
$run -m pip install -q --force-reinstall --no-deps "$wheel"
$run -m pip install -q "$wheel[test]"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r tests benchmarks examples README.md pyproject.toml docs CONTRIBUTING.md "$work"  # without fgrad/: what is tested is the wheel
cd "$work"
for isa in $($run -c "from fgrad import _kernels; print(*(v for v in _kernels.VARIANTS if v in _kernels.supported()))"); do
    echo "== $isa"
    FGRAD_ISA=$isa $run -m pytest -q -n auto "$@"
done
