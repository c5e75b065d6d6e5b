"""What an evaluator says of a debate, and the document that it goes into."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.models import ScorerKind


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class TurnFinding:
    """A fault of one turn, by a stable code."""

    turn_index: int
    code: str
    detail: str

    def as_document(self) -> JsonObject:
        """Return the form that tools read."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What one evaluator found. A rate without a denominator is None, never 0."""

    evaluator: str
    kind: ScorerKind
    summary: JsonObject
    config: JsonObject = field(default_factory=dict)
    turns: Sequence[JsonObject] = ()
    findings: Sequence[TurnFinding] = ()
    exchanges: Sequence[JsonObject] | None = None
    """What a model was asked and answered; None of an evaluator that asks none."""

    def as_document(self, *, artefact_sha256: str) -> JsonObject:
        """Return the result as its own document; the artefact is named, not changed."""
        asked: JsonObject = {} if self.exchanges is None else {"exchanges": [*self.exchanges]}
        return {
            "evaluator": self.evaluator,
            "scorer_kind": self.kind.value,
            "artefact_sha256": artefact_sha256,
            "config": self.config,
            "config_sha256": canonical_sha256(self.config),
            "summary": self.summary,
            "turns": list(self.turns),
            "findings": [one.as_document() for one in sorted(self.findings)],
            **asked,
        }


def rate(part: int, whole: int) -> float | None:
    """Return part / whole, None where there is nothing to divide by."""
    return part / whole if whole else None


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, None of nothing."""
    return sum(values) / len(values) if values else None
