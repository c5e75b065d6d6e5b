"""What the constructs of a chain carry on: items of an answer, and whether they are borne out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.scoring.paths import Absent, at_path
from theatre.scorers.agreement import agree, canonical_key

Items: TypeAlias = dict[bytes, JsonValue]
"""Items by their canonical form: each counts once, and 1 and 1.0 are one."""


def items_of(value: JsonValue | Absent) -> Items:
    """Return the items of an array; what is none holds none."""
    found = ((canonical_key(item), item) for item in value) if isinstance(value, list) else ()
    return {key: item for key, item in found if key is not None}


def subtract(items: Items, others: Items) -> list[JsonValue]:
    """Return the items that the others do not have, in the order of their canonical forms."""
    return [item for key, item in sorted(items.items()) if key not in others]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRule:
    """Which items claim that a term holds, and by which facts of the answer that shows.

    `label` leads from the gold label to an object term → [name of a fact], `term` is the member of
    an item that names its term. An item is a claim if each member of `claims` has one of the values
    there. `facts` leads, for each hop whose claims are checked, to an object fact → value, by the
    same path in its answer and in the label.
    """

    label: str
    term: str
    claims: Mapping[str, Sequence[JsonValue]]
    facts: Mapping[str, str]

    @classmethod
    def of(cls, effects: JsonObject) -> ClaimRule:
        """Read the parameter `effects`, valid by its schema."""
        return cls(
            label=cast("str", effects["label"]),
            term=cast("str", effects["term"]),
            claims=cast("dict[str, list[JsonValue]]", effects.get("claims", {})),
            facts=cast("dict[str, str]", effects["facts"]),
        )

    def check_claims(
        self, hop: str, items: Items, answer: JsonValue | Absent, label: JsonValue
    ) -> Iterator[tuple[JsonValue, list[JsonValue]]]:
        """Yield each claim of a hop that has facts to show, with those that the answer lacks."""
        path = self.facts.get(hop)
        if path is None:
            return
        right, shown = _object(at_path(label, path)), _object(_below(answer, path))
        by_term = _object(at_path(label, self.label))
        for _, item in sorted(items.items()):
            facts = [name for name in self._facts(item, by_term) if name in right]
            if facts:
                missed = [n for n in facts if n not in shown or not agree(shown[n], right[n])]
                yield item, [*missed]

    def _facts(self, item: JsonValue, by_term: JsonObject) -> list[str]:
        """Return the names of the facts that follow from an item; none where it claims nothing."""
        if not isinstance(item, dict) or not self._is_claim(item):
            return []
        term = item.get(self.term)
        names = by_term.get(term) if isinstance(term, str) else None
        return [n for n in names if isinstance(n, str)] if isinstance(names, list) else []

    def _is_claim(self, item: JsonObject) -> bool:
        return all(
            member in item and any(agree(item[member], value) for value in values)
            for member, values in self.claims.items()
        )


def _below(answer: JsonValue | Absent, path: str) -> JsonValue | Absent:
    return answer if isinstance(answer, Absent) else at_path(answer, path)


def _object(value: JsonValue | Absent) -> JsonObject:
    return value if isinstance(value, dict) else {}
