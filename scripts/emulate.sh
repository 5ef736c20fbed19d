#!/usr/bin/env bash
# Pass tests with the kernels for x86-64-v4 on a processor that has AVX2 but no AVX-512, which is emulated: for Linux, 10 to 100 times
# slower. Arguments are pytest's: bash scripts/emulate.sh tests/test_flat.py
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv-emulate/bin/python ] || "$python" -m venv .venv-emulate
run=$PWD/.venv-emulate/bin/python
unset PYTHONPATH
$run -m pip install -q --upgrade pip
$run -m pip install -q bochscpu-python
tree=$PWD/.venv-emulate/tree  # a build of its own, of what is committed
mkdir -p "$tree"
git archive HEAD | tar -x -C "$tree"
FGRAD_BUILD_ISA=x86-64-v4 $run -m pip install -q -e "$tree[test]"
# The emulator's library asks for functions of glibc 2.38.
shim=$PWD/.venv-emulate/shim.so
cat <<'C' | "${CC:-cc}" -shared -fPIC -x c -o "$shim" -
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
unsigned long long __isoc23_strtoull(const char *s, char **end, int base) { return strtoull(s, end, base); }
unsigned long __isoc23_strtoul(const char *s, char **end, int base) { return strtoul(s, end, base); }
long long __isoc23_strtoll(const char *s, char **end, int base) { return strtoll(s, end, base); }
long __isoc23_strtol(const char *s, char **end, int base) { return strtol(s, end, base); }
int __isoc23_sscanf(const char *s, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int n = vsscanf(s, format, list);
    va_end(list);
    return n;
}
C
cd "$tree"
LD_PRELOAD=$shim PYTHONPATH=../../scripts/emulate exec "$run" -m pytest -q -p avx512 -p no:cacheprovider "$@"
