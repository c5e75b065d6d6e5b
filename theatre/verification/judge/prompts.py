"""The prompts, as files in this folder; their digest is the version of the methodology."""

from __future__ import annotations

from importlib.resources import files
from types import MappingProxyType
from typing import Final

from theatre.engine.canonical_json import canonical_sha256

PARSER = "1"
"""The version of what is asked besides the rubric, and of how answers are read and counted."""

_NAMES = ("claims", "changes", "coverage", "reply")

RUBRICS: Final = MappingProxyType(
    {
        name: files(__package__).joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")
        for name in _NAMES
    }
)
"""Name → text of each prompt: the system prompt of its requests."""

PROMPTS_SHA256: Final = canonical_sha256(dict(RUBRICS))
VERSION: Final = f"{PARSER}-{PROMPTS_SHA256[:12]}"
"""The version of the scorer: with other prompts, or another reading, it is another one."""

METHODOLOGY: Final = f"judge-{VERSION}"
