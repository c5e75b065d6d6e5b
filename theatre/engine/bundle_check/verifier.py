"""`verify_bundle.py`: the check's arithmetic and a reader, joined to one file of plain Python."""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from typing import Final

from theatre.engine.bundle_check import (
    arithmetic,
    bundle_reader,
    data_audit,
    measures,
    plain_json,
    plain_notes,
    plain_proofs,
    plain_published,
    plain_records,
    standalone,
)

MODULES: Final = (
    plain_json,
    arithmetic,
    data_audit,
    measures,
    plain_records,
    bundle_reader,
    plain_notes,
    plain_proofs,
    plain_published,
    standalone,
)
"""What it is made of, each after what it needs. They import the standard library and each other."""

HEADER: Final = '''#!/usr/bin/env python3
"""Check an evidence bundle of Echelon Theatre: python3 verify_bundle.py BUNDLE

One file of plain Python, 3.11 or newer; nothing has to be installed. It is made of ten modules of
the project, and is to be had wherever the project is: `echelon check --write-verifier FILE`.
"""

from __future__ import annotations
'''


def verifier_source() -> str:
    """Return the source of `verify_bundle.py`; the same text for the same release."""
    plain: set[str] = set()
    names: defaultdict[str, set[str]] = defaultdict(set)
    bodies = []
    for module in MODULES:
        source = inspect.getsource(module)
        lines = source.splitlines(keepends=True)
        for node in ast.parse(source).body:
            height = (node.end_lineno or node.lineno) - node.lineno + 1
            docstring = isinstance(node, ast.Expr) and node.lineno == 1
            if docstring or isinstance(node, ast.Import | ast.ImportFrom):
                lines[node.lineno - 1 : node.end_lineno] = [""] * height
            if isinstance(node, ast.Import):
                plain.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                names[str(node.module)].update(alias.name for alias in node.names)
        bodies.append("".join(lines).strip())
    imports = [f"import {name}" for name in sorted(plain)]
    outside = [name for name in sorted(names) if not name.startswith(("__future__", "theatre."))]
    imports += [f"from {name} import {', '.join(sorted(names[name]))}" for name in outside]
    return "\n\n\n".join(["\n".join([HEADER, *imports]), *bodies]) + "\n"
