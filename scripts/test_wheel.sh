#!/usr/bin/env bash
# Build the portable wheel (kernels for x86-64-v2, v3 and v4) into dist/, install it into .venv-wheel, and pass all tests with
# each set of kernels that this machine runs: all of them, whatever fails; the summary at the end names what did.
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
failed=0
summary=""
for isa in $($run -c "from fgrad import _kernels; print(*(v for v in _kernels.VARIANTS if v in _kernels.supported()))"); do
    echo "== $isa"
    FGRAD_ISA=$isa $run -m pytest -q -n auto "$@" 2>&1 | tee "$work/log" || failed=1  # pipefail: pytest's status
    summary+="== $isa: $(grep -E "^(FAILED|ERROR) |^[0-9].* in [0-9.]+s" "$work/log" || tail -1 "$work/log")"$'\n'
done
printf '%s' "$summary"
exit $failed
