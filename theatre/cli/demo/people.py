"""The users of the demo: the author of the theatres, and the two stand-ins who score."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from theatre.cli.demo.client import ServiceClient
from theatre.cli.demo.reviewers import REVIEWERS
from theatre.engine.canonical_json import parse_object

AUTHOR = "demo-author"
PEOPLE = (AUTHOR, *REVIEWERS)
_TAKEN = 409


def signed_in(anybody: ServiceClient, passwords: Path) -> dict[str, ServiceClient]:
    """Return a client for each user, registered if need be, by name."""
    return {name: _signed_in(anybody, name, word) for name, word in _known(passwords).items()}


def _known(path: Path) -> Mapping[str, str]:
    """Return user → password, made once for a home and readable by its owner alone."""
    if not path.exists():
        made = {name: secrets.token_urlsafe(24) for name in PEOPLE}
        draft = path.with_suffix(".partial")
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(made, file, indent=2)
        draft.replace(path)
    return {name: str(word) for name, word in parse_object(path.read_bytes()).items()}


def _signed_in(anybody: ServiceClient, name: str, password: str) -> ServiceClient:
    user = {"username": name, "email": f"{name}@example.org", "password": password}
    anybody.post("/auth/register", user, expected=_TAKEN)
    token = anybody.post_form("/auth/token", username=name, password=password).document
    return anybody.bearing(token["access_token"])
