"""Every example in a docstring, and every Python block of the README and the documents, runs and prints what it says."""

import doctest
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import fgrad

ROOT = Path(__file__).resolve().parent.parent
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = sorted(m.name for m in pkgutil.walk_packages(fgrad.__path__, "fgrad.") if "._kernels" not in m.name)
DOCUMENTS = sorted(p for p in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")) if p.exists())


@pytest.mark.parametrize("name", ["fgrad", *MODULES])
def test_docstrings(name):
    importlib.import_module(name)
    result = doctest.testmod(sys.modules[name], optionflags=FLAGS, extraglobs={"fgrad": fgrad, "jnp": fgrad.numpy, "np": np})
    assert result.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_documents(path):
    """The blocks of one document run in order, in one namespace."""
    space: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.M | re.S):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, space, path.name, str(path), 0)
            assert doctest.DocTestRunner(optionflags=FLAGS).run(test).failed == 0
        else:
            exec(compile(block, str(path), "exec"), space)


def test_readme_has_code():
    assert "```python" in (ROOT / "README.md").read_text()
