"""Which stored templates are those that the operator accepts for routing."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from backend.repositories.counted_runs import template_documents
from theatre.engine.canonical_json import parse_object
from theatre.engine.commitment import content_hash


class AcceptedTemplates:
    """The operator's list of content hashes, and what was found out of stored templates by it.

    A template is looked at once: what is stored under a SHA-256 never changes.
    """

    def __init__(self, content_hashes: frozenset[str]) -> None:
        self._content_hashes = content_hashes
        self._known: dict[str, bool] = {}

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
