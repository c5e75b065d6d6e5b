"""A registered construct that runs elsewhere, behind a URL (`constructs.toml`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteConstruct:
    """A construct that is called, not run.

    `headers_env` names, for each request header, the environment variable that holds its value.
    Its version is what it reports: it cannot be computed here.
    """

    construct_id: str
    url: str
    headers_env: Mapping[str, str] = field(default_factory=dict)
    author: str | None = None
