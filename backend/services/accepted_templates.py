"""Which templates the operator accepts for routing, and which ship with this release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.counted_runs import template_documents
from theatre.engine.canonical_json import canonical_sha256, parse_object
from theatre.engine.commitment import content_hash
from theatre.engine.schema_registry import resource_root


class AvailableTemplate(NamedTuple):
    """A template that ships or is accepted; of one that only the operator knows, name and hash."""

    name: str
    content_hash: str
    sha256: str | None
    template_family: str | None
    display_name: str | None
    ships: bool
    accepted: bool


class AcceptedTemplates:
    """The operator's list of content hashes, and what was found out of stored templates by it.

    A template is looked at once: what is stored under a SHA-256 never changes.
    """

    def __init__(self, named: Mapping[str, str]) -> None:
        """Take the operator's names and the content hash of each."""
        self._named = dict(named)
        self._content_hashes = frozenset(named.values())
        self._known: dict[str, bool] = {}

    def available(self) -> list[AvailableTemplate]:
        """Return what ships, then what else is accepted, each by name. Blocks the first time."""
        shipped = [
            one._replace(accepted=one.content_hash in self._content_hashes)
            for one in _shipped_templates()
        ]
        known = {one.content_hash for one in shipped}
        others = [
            AvailableTemplate(name, hash_, None, None, None, ships=False, accepted=True)
            for name, hash_ in sorted(self._named.items())
            if hash_ not in known
        ]
        return [*shipped, *others]

    async def among(self, connection: AsyncConnection, sha256s: Sequence[str]) -> list[str]:
        """Return those of some stored templates, by their SHA-256, that are accepted."""
        if not self._content_hashes:
            return []
        unknown = [sha256 for sha256 in sha256s if sha256 not in self._known]
        if unknown:
            documents = await template_documents(connection, unknown)
            for sha256, document in documents.items():
                accepted = content_hash(parse_object(document)) in self._content_hashes
                self._known[sha256] = accepted
        return [sha256 for sha256 in sha256s if self._known.get(sha256)]


@cache
def _shipped_templates() -> tuple[AvailableTemplate, ...]:
    folder = resource_root() / "fixtures" / "templates"
    documents = [
        parse_object(path.read_bytes())
        for path in folder.rglob("*.json")
        if not path.name.endswith(".expected.json")
    ]
    found = [
        AvailableTemplate(
            name=str(document["theatre_id"]),
            content_hash=content_hash(document),
            sha256=canonical_sha256(document),
            template_family=str(document["template_family"]),
            display_name=str(document["display_name"]),
            ships=True,
            accepted=False,
        )
        for document in documents
    ]
    return tuple(sorted(found))
