"""`chain_propagation`: at which construct of a chain a decision is lost, or invented.

Each construct answers with what it carries on: items, each of which belongs to a decision. The
expectation has what each of them ought to carry. Carrying is a claim; where a gold label names the
facts that follow from a term, the claim is checked against the answer itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.errors import ParseError
from theatre.engine.models import Computation, ScorerKind
from theatre.engine.scoring.provider import ABSENT, Absent, at_path
from theatre.scorers.agreement import PATH, agree, canonical_key, closed_schema

# What the constructs of a chain carry on: items of an answer, and whether they are borne out.


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
        shown = _object(answer if isinstance(answer, Absent) else at_path(answer, path))
        right = _object(at_path(label, path))
        by_term = _object(at_path(label, self.label))
        for _, item in sorted(items.items()):
            facts = [name for name in self._facts(item, by_term) if name in right]
            if facts:
                missed = [n for n in facts if n not in shown or not agree(shown[n], right[n])]
                yield item, [*missed]

    def _facts(self, item: JsonValue, by_term: JsonObject) -> list[str]:
        """Return the names of the facts that follow from an item; none where it claims nothing."""
        if not isinstance(item, dict):
            return []
        if not all(
            member in item and any(agree(item[member], value) for value in values)
            for member, values in self.claims.items()
        ):
            return []
        term = item.get(self.term)
        names = by_term.get(term) if isinstance(term, str) else None
        return [n for n in names if isinstance(n, str)] if isinstance(names, list) else []


def _object(value: JsonValue | Absent) -> JsonObject:
    return value if isinstance(value, dict) else {}


DEFAULT_LISTED, MAX_LISTED = 50, 500

_ARRIVED, _LOST, _UNANSWERED, _INVENTED = "arrived", "lost", "unanswered", "invented"
_CLAIMS, _WITHOUT_EFFECT = "claims", "without_effect"


def compute(lines: Iterable[bytes], params: JsonObject) -> JsonObject:
    """Return where decisions went, streaming over the lines of `episodes`; never raises.

    A decision is named by the member `decision` of its items. It *arrives* at a hop if that hop
    and each before it carry all items that are expected of it there; it is *lost* at the first
    hop that lacks one, *unanswered* at the first hop that gave no answer, and *invented* at the
    first hop that carries an item of it that is not expected there. So at every hop `decisions` =
    arrived + what was lost or unanswered up to there.

    The result: `episodes` (with an expectation for each hop), `unmeasurable` (lines without),
    `decisions` (expected, over all episodes), `hops` (in order: `hop`, `arrived`, `lost`,
    `unanswered`, `invented`, `claims`, `without_effect`, the last two null where nothing holds a
    claim against the answer), and for `lost`, `invented` and `without_effect` `{total, listed}`:
    how many there are, and the first of them as `{episode_id, hop, decision, items}`.
    """
    tally = _Tally(params)
    for line in lines:
        tally.add(line)
    return tally.as_document()


@dataclass(slots=True)
class _Findings:
    """Counts all, and keeps the first."""

    limit: int
    total: int = 0
    listed: list[JsonValue] = field(default_factory=list)

    def add(self, finding: JsonObject) -> None:
        self.total += 1
        if len(self.listed) < self.limit:
            self.listed.append(finding)

    def as_document(self) -> JsonObject:
        return {"total": self.total, "listed": self.listed}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Episode:
    """One line: what was expected at each hop, what those that answered answered and carry."""

    episode_id: JsonValue
    label: JsonValue
    expected: Mapping[str, Items]
    answers: JsonObject
    carried: Mapping[str, Items]


class _Tally:
    def __init__(self, params: JsonObject) -> None:
        effects = cast("JsonObject | None", params.get("effects"))
        limit = int(cast("float", params.get("listed", DEFAULT_LISTED)))
        self._chain = cast("list[str]", params["chain"])
        self._field = cast("str", params["field"])
        self._expected = cast("str", params["expected"])
        self._decision = cast("str", params["decision"])
        self._rule = None if effects is None else ClaimRule.of(effects)
        self._measured = self._unmeasurable = self._decisions = 0
        self._counts: dict[str, Counter[str]] = {hop: Counter() for hop in self._chain}
        self._findings = {kind: _Findings(limit) for kind in (_LOST, _INVENTED, _WITHOUT_EFFECT)}

    def add(self, line: bytes) -> None:
        """Take the next episode."""
        episode = self._read(line)
        if episode is None:
            self._unmeasurable += 1
            return
        self._measured += 1
        self._follow(episode)
        self._hold_claims(episode)

    def _read(self, line: bytes) -> _Episode | None:
        """Return an episode; None where the dataset does not say what each hop ought to carry."""
        try:
            document = parse_object(line)
        except ParseError:
            return None
        expected = at_path(document.get("expected_output"), self._expected)
        if not isinstance(expected, dict):
            return None
        if not all(isinstance(expected.get(hop), list) for hop in self._chain):
            return None
        hops = document.get("hops")
        answers = hops if isinstance(hops, dict) else {}
        return _Episode(
            episode_id=document.get("episode_id"),
            label=document.get("label"),
            expected={hop: items_of(expected[hop]) for hop in self._chain},
            answers=answers,
            carried={
                hop: items_of(at_path(answers[hop], self._field))
                for hop in self._chain
                if hop in answers
            },
        )

    def _follow(self, episode: _Episode) -> None:
        under_way = {self._of(i) for items in episode.expected.values() for i in items.values()}
        self._decisions += len(under_way)
        invented: set[str | None] = set()
        for hop in self._chain:
            carried, expected = episode.carried.get(hop), episode.expected[hop]
            if carried is None:
                # What comes behind a hop without an answer was not asked.
                self._counts[hop][_UNANSWERED] += len(under_way)
                return
            for decision, items in self._group(subtract(expected, carried)):
                if decision in under_way:
                    under_way.discard(decision)
                    self._find(_LOST, episode, hop, decision=decision, items=items)
            for decision, items in self._group(subtract(carried, expected)):
                if decision not in invented:
                    invented.add(decision)
                    self._find(_INVENTED, episode, hop, decision=decision, items=items)
            self._counts[hop][_ARRIVED] += len(under_way)

    def _hold_claims(self, episode: _Episode) -> None:
        if self._rule is None:
            return
        for hop, items in episode.carried.items():
            answer = episode.answers.get(hop, ABSENT)
            for item, missed in self._rule.check_claims(hop, items, answer, episode.label):
                self._counts[hop][_CLAIMS] += 1
                if missed:
                    self._find(
                        _WITHOUT_EFFECT,
                        episode,
                        hop,
                        decision=self._of(item),
                        items=[item],
                        facts=missed,
                    )

    def _find(self, kind: str, episode: _Episode, hop: str, **members: JsonValue) -> None:
        self._counts[hop][kind] += 1
        self._findings[kind].add({"episode_id": episode.episode_id, "hop": hop, **members})

    def _of(self, item: JsonValue) -> str | None:
        """Return the decision that an item belongs to; None where it names none."""
        decision = item.get(self._decision) if isinstance(item, dict) else None
        return decision if isinstance(decision, str) else None

    def _group(self, items: Sequence[JsonValue]) -> list[tuple[str | None, list[JsonValue]]]:
        groups: dict[str | None, list[JsonValue]] = {}
        for item in items:
            groups.setdefault(self._of(item), []).append(item)
        return sorted(groups.items(), key=lambda group: group[0] or "")

    def as_document(self) -> JsonObject:
        """Return the result."""
        hops: list[JsonValue] = []
        for hop, count in self._counts.items():
            is_held = self._rule is not None and hop in self._rule.facts
            hops.append(
                {
                    "hop": hop,
                    **{name: count[name] for name in (_ARRIVED, _LOST, _UNANSWERED, _INVENTED)},
                    # Null is not 0: no claim of this hop was checked.
                    **{
                        name: count[name] if is_held else None
                        for name in (_CLAIMS, _WITHOUT_EFFECT)
                    },
                }
            )
        return {
            "episodes": self._measured,
            "unmeasurable": self._unmeasurable,
            "decisions": self._decisions,
            "hops": hops,
            **{kind: found.as_document() for kind, found in self._findings.items()},
        }


_CHAIN: JsonObject = {"type": "array", "items": PATH, "minItems": 1, "uniqueItems": True}
_EFFECTS: JsonObject = {
    "type": "object",
    "additionalProperties": False,
    "required": ["label", "term", "facts"],
    "properties": {
        "label": PATH,
        "term": PATH,
        "claims": {"type": "object", "additionalProperties": {"type": "array", "minItems": 1}},
        "facts": {"type": "object", "additionalProperties": PATH, "minProperties": 1},
    },
}

COMPUTATION = Computation(
    name="chain_propagation",
    version="1",
    kind=ScorerKind.EXACT,
    params_schema=closed_schema(
        {
            "chain": _CHAIN,
            "field": PATH,
            "expected": PATH,
            "decision": PATH,
            "effects": _EFFECTS,
            "listed": {"type": "integer", "minimum": 0, "maximum": MAX_LISTED},
        },
        required=["chain", "field", "expected", "decision"],
    ),
    compute=compute,
)
