"""Which templates the operator accepts for routing, and which ship with this release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

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
    """The operator's list of content hashes, and the templates that ship with this release."""

    def __init__(self, named: Mapping[str, str]) -> None:
        """Take the operator's names and the content hash of each."""
        self._named = dict(named)
        self.content_hashes: Sequence[str] = sorted(set(named.values()))

    def available(self) -> list[AvailableTemplate]:
        """Return what ships, then what else is accepted, each by name. Blocks the first time."""
        shipped = [
            one._replace(accepted=one.content_hash in self.content_hashes)
            for one in _shipped_templates()
        ]
        known = {one.content_hash for one in shipped}
        others = [
            AvailableTemplate(name, hash_, None, None, None, ships=False, accepted=True)
            for name, hash_ in sorted(self._named.items())
            if hash_ not in known
        ]
        return [*shipped, *others]


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
