#!/usr/bin/env bash
# Check that the kernels compile where this machine cannot run them: for aarch64, and by clang for each level of x86-64. Takes the C that a
# build has left beside the sources (python setup.py build_ext --inplace) and zig's clang, which it installs into .venv-targets.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
[ -x .venv-targets/bin/python ] || "$python" -m venv .venv-targets
.venv-targets/bin/python -m pip install -q ziglang numpy
includes=$(mktemp -d)
trap 'rm -rf "$includes"' EXIT
cp "$(gcc -print-file-name=include/omp.h)" "$includes"
flags=$(.venv-targets/bin/python -c 'import numpy, sysconfig; print("-I" + numpy.get_include(), "-I" + sysconfig.get_path("include"))')
sources=$(git ls-files "fgrad/*.pyx" | sed "s/pyx$/c/")
failed=0
for target in "aarch64-linux-gnu" "x86_64-linux-gnu -mcpu=x86_64_v2" "x86_64-linux-gnu -mcpu=x86_64_v3" "x86_64-linux-gnu -mcpu=x86_64_v4"; do
    for source in $sources; do
        # zig looks for the object that -fsyntax-only does not write: its complaint is not the compiler's
        errors=$(.venv-targets/bin/python -m ziglang cc -target $target -fsyntax-only -c -o "$includes/none.o" -fopenmp -w -Werror=implicit-function-declaration \
            -DNPY_NO_DEPRECATED_API=NPY_1_7_API_VERSION "-I$includes" -Ifgrad/_kernels $flags "$source" 2>&1 | grep "error:" | grep -v "failed to rename" || true)
        if [ -n "$errors" ]; then
            printf '%s: %s\n%s\n' "$target" "$source" "$errors"
            failed=1
        fi
    done
    echo "$target: compiled"
done
exit $failed
