"""What was committed before anything ran: template, commitment hash, receipt, scorers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from theatre.engine.bundle_check.documents import (
    CERTIFICATE,
    MANIFEST,
    RECEIPT,
    TEMPLATE,
    Documents,
)
from theatre.engine.bundle_check.json_values import (
    NOTHING,
    DefectError,
    Nothing,
    at,
    require_members,
    require_time,
    same_json,
    shown,
    text_members,
)
from theatre.engine.bundle_check.plan import CommittedPlan, committed_plan
from theatre.engine.bundle_check.report import Cause, CheckId, Ledger
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.errors import PinMismatchError, UnknownScorerError
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import TheatreScoringProvider

TEMPLATE_SCHEMA = "echelon_theatre_schema_v2_1.json"

_RECEIPT_MEMBERS = frozenset(
    {
        "theatre_id",
        "commitment_hash",
        "template_snapshot",
        "version_pins",
        "dataset_hashes",
        "scorer_pins",
        "escrowed_capital",
        "canonicalisation",
        "committed_at",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """What the committed parts come to; a gap is NOTHING and compares equal to no value."""

    theatre_id: str | Nothing
    commitment_hash: str | Nothing
    committed_at: JsonValue | Nothing


def check_template(
    documents: Documents, registry: SchemaRegistry, ledger: Ledger
) -> CommittedPlan | None:
    """Make the check `template`; return the plan, or None where none can be read.

    Where `template.json` itself is of no use, the receipt's snapshot serves, so that the later
    checks still say something.
    """
    document, snapshot = documents.get(TEMPLATE), documents.at(RECEIPT, "template_snapshot")
    ledger.compare(CheckId.TEMPLATE, TEMPLATE, snapshot, NOTHING if document is None else document)
    ledger.completed(CheckId.TEMPLATE, "as in the receipt")
    for candidate in (document, snapshot):
        if not isinstance(candidate, dict):
            continue
        try:
            _require_valid(candidate, registry)
            return committed_plan(candidate)
        except DefectError as defect:
            ledger.wrong(CheckId.TEMPLATE, defect.expected, defect.actual)
    return None


def _require_valid(template: JsonObject, registry: SchemaRegistry) -> None:
    for violation in registry.validate(TEMPLATE_SCHEMA, template):
        raise DefectError(
            f"a template that fits {TEMPLATE_SCHEMA}", f"{violation.pointer}: {violation.detail}"
        )


def check_commitment(
    documents: Documents, committed_entry: JsonObject | Nothing, ledger: Ledger
) -> Commitment:
    """Make the check `commitment`; `committed_entry` is the audit entry of that event."""
    check = CheckId.COMMITMENT
    receipt = documents.get(RECEIPT)
    try:
        require_members(NOTHING if receipt is None else receipt, _RECEIPT_MEMBERS, RECEIPT)
        require_time(at(receipt or {}, "committed_at"), "committed_at of the receipt")
    except DefectError as defect:
        ledger.wrong(check, defect.expected, defect.actual)
    theatre_id, commitment_hash = _theatre_id(documents, ledger), _recomputed(documents)
    committed_at = documents.at(RECEIPT, "committed_at")
    for name, expected in (("version_pins", {}), ("dataset_hashes", {})):
        ledger.compare(
            check,
            f"the receipt's {name}",
            _member(documents, name, expected),
            documents.at(RECEIPT, name),
        )
    ledger.compare(check, "escrowed_capital", None, documents.at(RECEIPT, "escrowed_capital"))
    ledger.compare(
        check, "canonicalisation", "RFC8785", documents.at(RECEIPT, "canonicalisation")
    )
    for path in (RECEIPT, CERTIFICATE, MANIFEST):
        seen = documents.at(path, "commitment_hash")
        ledger.compare(check, f"commitment_hash in {path}", commitment_hash, seen)
    audited = at(committed_entry, "detail", "commitment_hash")
    ledger.compare(check, "commitment_hash in the audit trail", commitment_hash, audited)
    for where, seen in (
        ("the audit trail", at(committed_entry, "at")),
        (CERTIFICATE, documents.at(CERTIFICATE, "theatre_committed_at")),
    ):
        ledger.compare(check, f"the committed_at of {where}", committed_at, seen)
    ledger.completed(check, f"commitment_hash {shown(commitment_hash)}")
    return Commitment(
        theatre_id=theatre_id, commitment_hash=commitment_hash, committed_at=committed_at
    )


def _template(documents: Documents) -> JsonValue | Nothing:
    document = documents.get(TEMPLATE)
    return documents.at(RECEIPT, "template_snapshot") if document is None else document


def _member(documents: Documents, name: str, default: JsonValue) -> JsonValue | Nothing:
    template = _template(documents)
    seen = at(template, name)
    return default if isinstance(seen, Nothing) and isinstance(template, dict) else seen


def _recomputed(documents: Documents) -> str | Nothing:
    template = _template(documents)
    if isinstance(template, Nothing):
        return NOTHING
    return canonical_sha256(
        {
            "dataset_hashes": at_or(template, "dataset_hashes"),
            "template": template,
            "version_pins": at_or(template, "version_pins"),
        }
    )


def at_or(template: JsonValue, name: str) -> JsonValue:
    """Return a template's member as the commitment composes it: `{}` where it is absent."""
    seen = at(template, name)
    return {} if isinstance(seen, Nothing) else seen


def _theatre_id(documents: Documents, ledger: Ledger) -> str | Nothing:
    """Return the one id that receipt, certificate and manifest name."""
    seen = {path: documents.at(path, "theatre_id") for path in (RECEIPT, CERTIFICATE, MANIFEST)}
    usable = [value for value in seen.values() if is_uuid(value)]
    if not usable:
        ledger.wrong(CheckId.COMMITMENT, "a theatre_id that is a UUID", "none")
        return NOTHING
    for path, value in seen.items():
        if not same_json(usable[0], value):
            ledger.wrong(
                CheckId.COMMITMENT,
                f"theatre_id {shown(usable[0])} in {path}",
                shown(value),
            )
    return str(usable[0])


def is_uuid(value: JsonValue | Nothing) -> bool:
    """Tell whether `value` is a UUID in the one spelling that documents use."""
    if not isinstance(value, str):
        return False
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False


def pinned_provider(
    plan: CommittedPlan,
    documents: Documents,
    scorers: Mapping[str, Scorer],
    registry: SchemaRegistry,
    ledger: Ledger,
) -> TheatreScoringProvider | Cause:
    """Make the check `scorers`; return what scores episodes, or why nothing does."""
    used = sorted(set(plan.scorers.values()))
    pins = _scorer_pins(plan, documents, used, ledger)
    cause = _unavailable(used, pins, scorers) or _bad_params(plan, scorers, registry)
    if cause is None:
        try:
            provider = TheatreScoringProvider(plan.document, scorers)
        except (UnknownScorerError, PinMismatchError) as error:
            cause = Cause(str(error), unavailable=True)
        else:
            installed = ", ".join(scorers[name].pin for name in used)
            ledger.completed(CheckId.SCORERS, installed)
            return provider
    ledger.cannot(CheckId.SCORERS, cause)
    return cause


def _scorer_pins(
    plan: CommittedPlan, documents: Documents, used: list[str], ledger: Ledger
) -> Mapping[str, str]:
    """Return the receipt's pins, held against the template's; the template's in their absence."""
    recorded = documents.at(RECEIPT, "scorer_pins")
    committed = text_members(at(plan.document, "scorer_pins"))
    pins = text_members(recorded)
    if not isinstance(recorded, dict) or sorted(recorded) != used or len(pins) != len(used):
        names = f"a version of {', '.join(used)} in the receipt's scorer_pins"
        ledger.wrong(CheckId.COMMITMENT, names, shown(recorded))
    for name in used:
        if committed.get(name, pins.get(name)) != pins.get(name):
            ledger.wrong(
                CheckId.COMMITMENT,
                f"the receipt's scorer_pins/{name} {shown(committed[name])}",
                shown(pins.get(name)),
            )
    return {**committed, **pins}


def _unavailable(
    used: list[str], pins: Mapping[str, str], scorers: Mapping[str, Scorer]
) -> Cause | None:
    wanting = []
    for name in used:
        pinned = pins.get(name)
        installed = scorers.get(name)
        if installed is None:
            wanting.append(f"scorer {name}@{pinned or '?'} is not installed")
        elif pinned is not None and installed.version != pinned:
            wanting.append(f"scorer {name}@{pinned} is pinned, {installed.pin} is installed")
    return Cause("; ".join(wanting), unavailable=True) if wanting else None


def _bad_params(
    plan: CommittedPlan, scorers: Mapping[str, Scorer], registry: SchemaRegistry
) -> Cause | None:
    for criterion, name in plan.scorers.items():
        schema, params = scorers[name].params_schema, plan.params[criterion]
        for violation in registry.validate_inline(schema, params):
            return Cause(f"params of {criterion}{violation.pointer}: {violation.detail}")
    return None
