"""The scorers that were pinned, and whether the very same ones are at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from theatre.engine.bundle_check.commitment.plan import CommittedPlan
from theatre.engine.bundle_check.reading.documents import RECEIPT, Documents
from theatre.engine.bundle_check.reading.json_values import at, shown, text_members
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.errors import PinMismatchError, UnknownScorerError
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import TheatreScoringProvider


def pinned_provider(
    plan: CommittedPlan,
    documents: Documents,
    scorers: Mapping[str, Scorer],
    registry: SchemaRegistry,
    ledger: Ledger,
) -> TheatreScoringProvider | Cause:
    """Make the check `scorers`; return what scores episodes, or why nothing does.

    A receipt that disagrees with its template about the pins breaks the `commitment`.
    """
    used = sorted(set(plan.scorers.values()))
    pins = _recorded_pins(plan, documents, used, ledger)
    cause = _unavailable(used, pins, scorers) or _bad_params(plan, scorers, registry)
    if cause is None:
        try:
            provider = TheatreScoringProvider(plan.machine_document, scorers)
        except (UnknownScorerError, PinMismatchError) as error:
            cause = Cause(str(error), unavailable=True)
        else:
            ledger.completed(CheckId.SCORERS, ", ".join(scorers[name].pin for name in used))
            return provider
    ledger.cannot(CheckId.SCORERS, cause)
    return cause


def _recorded_pins(
    plan: CommittedPlan, documents: Documents, used: Sequence[str], ledger: Ledger
) -> Mapping[str, str]:
    """Return scorer → version by the receipt; by the template where the receipt has none."""
    recorded = documents.at(RECEIPT, "scorer_pins")
    pins = text_members(recorded)
    if not isinstance(recorded, dict) or sorted(recorded) != used or len(pins) != len(used):
        expected = f"a version each for {', '.join(used)} in the receipt's scorer_pins"
        ledger.wrong(CheckId.COMMITMENT, expected, shown(recorded))
    committed = text_members(at(plan.document, "scorer_pins"))
    for name in used:
        if name in committed and committed[name] != pins.get(name):
            expected = f"scorer_pins/{name} {shown(committed[name])} in the receipt"
            ledger.wrong(CheckId.COMMITMENT, expected, shown(pins.get(name)))
    return {**committed, **pins}


def _unavailable(
    used: Sequence[str], pins: Mapping[str, str], scorers: Mapping[str, Scorer]
) -> Cause | None:
    wanting = []
    for name in used:
        pinned, installed = pins.get(name), scorers.get(name)
        if installed is None:
            wanting.append(f"scorer {name}@{pinned or '?'} is not installed")
        elif pinned is not None and installed.version != pinned:
            wanting.append(f"scorer {name}@{pinned} is pinned and {installed.pin} installed")
    return Cause("; ".join(wanting), unavailable=True) if wanting else None


def _bad_params(
    plan: CommittedPlan, scorers: Mapping[str, Scorer], registry: SchemaRegistry
) -> Cause | None:
    for criterion, name in plan.scorers.items():
        schema, params = scorers[name].params_schema, plan.params[criterion]
        for violation in registry.validate_inline(schema, params):
            return Cause(f"params of {criterion}{violation.pointer}: {violation.detail}")
    return None
