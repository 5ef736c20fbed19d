#!/usr/bin/env bash
# Size in MB of fgrad and all it depends on, installed in a fresh environment. Fails above 150.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"
"$folder/bin/python" -m pip install -q "${1:-.}"
cd "$folder"
PYTHONPATH='' bin/python - <<'PY'
import sysconfig
from pathlib import Path

site = Path(sysconfig.get_path("purelib"))
tools = ("pip", "setuptools", "_distutils_hack", "distutils-precedence.pth", "pkg_resources")
sizes = {}
for path in site.rglob("*"):
    top = path.relative_to(site).parts[0]
    if path.is_file() and not path.is_symlink() and not top.startswith(tools):
        sizes[top] = sizes.get(top, 0) + path.stat().st_size
for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
    if size > 1e5:
        print(f"{size / 1e6:8.1f} {name}")
total = sum(sizes.values()) / 1e6
print(f"{total:8.1f} MB in all")
import fgrad

assert float(fgrad.grad(lambda x: x * x)(3.0)) == 6
raise SystemExit(total > 150)
PY
