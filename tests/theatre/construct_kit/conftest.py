"""Constructs for the kit's tests, written as modules into a folder of their own."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write_module(tmp_path: Path) -> Callable[..., Path]:
    """Write a module, `pilot.py` unless named otherwise, and return its folder."""
    folder = tmp_path / "construct"

    def write(source: str, name: str = "pilot.py") -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return folder

    return write
