"""What was committed before anything ran: the template, its hash, the receipt, the datasets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

from theatre.engine.bundle_check.arithmetic import is_isolation, kinds_of
from theatre.engine.bundle_check.folder import (
    CERTIFICATE,
    COIN,
    MANIFEST,
    RECEIPT,
    REPRODUCTION,
    TEMPLATE,
    BundleFolder,
    Documents,
)
from theatre.engine.bundle_check.plan import (
    GOLD_LABELS,
    REPLAY_DATASET,
    CommittedPlan,
    commitment_hash,
    committed_plan,
)
from theatre.engine.bundle_check.report import (
    NOTHING,
    Cause,
    CheckId,
    DefectError,
    Ledger,
    Nothing,
    at,
    render,
    require_members,
    require_time,
    same_json,
    text_members,
)
from theatre.engine.bundle_check.scorers import PinnedScorers
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.coin import Coin
from theatre.engine.errors import CoinError, DatasetError
from theatre.engine.models import (
    EpisodeRunner,
    GroundTruthEpisode,
    Scorer,
    read_episodes,
    read_gold_labels,
)
from theatre.engine.schema_registry import SchemaRegistry

TEMPLATE_SCHEMAS = {
    "2.0.1": "echelon_theatre_schema_v2.json",
    "2.1.0": "echelon_theatre_schema_v2_1.json",
    "2.2.0": "echelon_theatre_schema_v2_2.json",
}
"""Version of a template that runs → its frozen schema."""

_SHA256 = re.compile("[0-9a-f]{64}")
_RECEIPT_MEMBERS = frozenset(
    {
        "theatre_id",
        "commitment_hash",
        "coin_sha256",
        "reproduces",
        "template_snapshot",
        "version_pins",
        "dataset_hashes",
        "scorer_pins",
        "scorer_kinds",
        "escrowed_capital",
        "environment",
        "isolation",
        "canonicalisation",
        "committed_at",
    }
)


def check_template(
    documents: Documents,
    registry: SchemaRegistry,
    ledger: Ledger,
    *,
    runners: Mapping[str, EpisodeRunner] | None = None,
) -> CommittedPlan | None:
    """Make the check `template`; return the plan, or None where none can be read.

    Where `template.json` is not what was committed, or of no use, the receipt's snapshot serves,
    so that the later checks still say something.
    """
    document, snapshot = documents.at(TEMPLATE), documents.at(RECEIPT, "template_snapshot")
    ledger.compare(CheckId.TEMPLATE, TEMPLATE, snapshot, document)
    ledger.completed(CheckId.TEMPLATE, "as in the receipt")
    candidates = [candidate for candidate in (document, snapshot) if isinstance(candidate, dict)]
    committed = documents.at(RECEIPT, "commitment_hash")
    for candidate in sorted(candidates, key=lambda found: commitment_hash(found) != committed):
        try:
            _require_valid(candidate, registry)
            return committed_plan(candidate, runners=runners)
        except DefectError as defect:
            ledger.wrong(CheckId.TEMPLATE, defect.expected, defect.actual)
    return None


def check_commitment(
    documents: Documents, committed_entry: JsonObject | Nothing, ledger: Ledger
) -> str | Nothing:
    """Make the check `commitment` and return the recomputed hash, where there is a template.

    `committed_entry` is the audit entry of that event.
    """
    _check_receipt(documents, ledger)
    template = _template(documents)
    recomputed = commitment_hash(template) if isinstance(template, dict) else NOTHING
    named: list[tuple[str, JsonValue | Nothing]] = [
        (path, documents.at(path, "commitment_hash")) for path in _naming(documents)
    ]
    named.append(("the audit trail", at(committed_entry, "detail", "commitment_hash")))
    for where, seen in named:
        ledger.compare(CheckId.COMMITMENT, f"commitment_hash in {where}", recomputed, seen)
    committed_at = documents.at(RECEIPT, "committed_at")
    stamps = [("the audit trail", at(committed_entry, "at"))]
    if not documents.is_reproduction:
        stamps.append((CERTIFICATE, documents.at(CERTIFICATE, "theatre_committed_at")))
    for where, seen in stamps:
        ledger.compare(CheckId.COMMITMENT, f"committed_at in {where}", committed_at, seen)
    ledger.completed(CheckId.COMMITMENT, f"commitment_hash {render(recomputed)}")
    return recomputed


def check_coin(folder: BundleFolder, documents: Documents, ledger: Ledger) -> Coin | Cause:
    """Make the check `coin`; return the coin that is revealed, or why there is none."""
    try:
        coin = Coin.from_line(folder.read(COIN))
    except CoinError:
        ledger.wrong(CheckId.COIN, f"{COIN} with 64 hex digits and a line feed", "something else")
    except DefectError as defect:
        ledger.wrong(CheckId.COIN, defect.expected, defect.actual)
    else:
        for path in (RECEIPT, documents.conclusion):
            seen = documents.at(path, "coin_sha256")
            ledger.compare(CheckId.COIN, f"coin_sha256 of {path}", coin.sha256, seen)
        ledger.completed(CheckId.COIN, coin.sha256)
        return coin
    return Cause(f"{COIN} reveals no coin")


def theatre_id_of(documents: Documents, ledger: Ledger) -> str | Nothing:
    """Return the one id that receipt, certificate and manifest name (part of `commitment`)."""
    seen = {path: documents.at(path, "theatre_id") for path in _naming(documents)}
    usable = [value for value in seen.values() if isinstance(value, str) and _is_uuid(value)]
    if not usable:
        ledger.wrong(CheckId.COMMITMENT, "a theatre_id that is a UUID", "none")
        return NOTHING
    for path, value in seen.items():
        if not same_json(usable[0], value):
            expected = f"theatre_id {render(usable[0])} in {path}"
            ledger.wrong(CheckId.COMMITMENT, expected, render(value))
    return usable[0]


def _naming(documents: Documents) -> tuple[str, ...]:
    """Return the documents that name theatre and commitment."""
    return (RECEIPT, MANIFEST) if documents.is_reproduction else (RECEIPT, CERTIFICATE, MANIFEST)


def _require_valid(template: JsonObject, registry: SchemaRegistry) -> None:
    version = template.get("schema_version")
    schema = TEMPLATE_SCHEMAS.get(version) if isinstance(version, str) else None
    if schema is None:
        raise DefectError(f"schema_version {' or '.join(TEMPLATE_SCHEMAS)}", render(version))
    for violation in registry.validate(schema, template):
        raise DefectError(
            f"a template that fits {schema}", f"{violation.pointer}: {violation.detail}"
        )
    for step in cast("list[JsonObject]", template["resolution_programme"]):
        for fault in registry.inline_faults(cast("JsonObject", step.get("output_spec", {}))):
            raise DefectError(
                "an output_spec that is a usable JSON Schema", f"{fault.pointer}: {fault.detail}"
            )


def _check_receipt(documents: Documents, ledger: Ledger) -> None:
    try:
        require_members(documents.at(RECEIPT), _RECEIPT_MEMBERS, RECEIPT)
        require_time(documents.at(RECEIPT, "committed_at"), "committed_at of the receipt")
    except DefectError as defect:
        ledger.wrong(CheckId.COMMITMENT, defect.expected, defect.actual)
    template = _template(documents)
    expectations: list[tuple[str, JsonValue | Nothing]] = [
        ("version_pins", _compose_member(template, "version_pins")),
        ("dataset_hashes", _compose_member(template, "dataset_hashes")),
        ("escrowed_capital", None),
        ("reproduces", _expect_reproduced(documents)),
        ("canonicalisation", "RFC8785"),
    ]
    for name, expected in expectations:
        seen = documents.at(RECEIPT, name)
        ledger.compare(CheckId.COMMITMENT, f"the receipt's {name}", expected, seen)
    tried = documents.at(RECEIPT, "isolation")
    if tried is not None and not is_isolation(tried):
        expected_form = "the receipt's isolation in its form, or null"
        ledger.wrong(CheckId.COMMITMENT, expected_form, render(tried))


def _expect_reproduced(documents: Documents) -> JsonValue | Nothing:
    """Return what the receipt must say of an earlier run: nothing, where one is certified."""
    if not documents.is_reproduction:
        return None
    named = documents.at(REPRODUCTION, "reproduces")
    return named if isinstance(named, str) and _SHA256.fullmatch(named) else NOTHING


def _template(documents: Documents) -> JsonValue | Nothing:
    document = documents.get(TEMPLATE)
    return documents.at(RECEIPT, "template_snapshot") if document is None else document


def _compose_member(template: JsonValue | Nothing, name: str) -> JsonValue:
    """Return a template's member as the commitment composes it: `{}` where it is absent."""
    member = at(template, name)
    return {} if isinstance(member, Nothing) else member


def _is_uuid(value: str) -> bool:
    """Return whether `value` is a UUID in the one spelling that documents use."""
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False


def pinned_scorers(
    plan: CommittedPlan,
    documents: Documents,
    scorers: Mapping[str, Scorer],
    registry: SchemaRegistry,
    ledger: Ledger,
) -> PinnedScorers | Cause:
    """Make the check `scorers`; return what scores episodes, or why nothing does.

    A receipt that disagrees with its template about the pins breaks the `commitment`.
    """
    used = sorted(set(plan.scorers.values()))
    pins = _recorded_pins(plan, documents, used, ledger)
    _check_kinds(documents, used, scorers, ledger)
    cause = _unavailable(used, pins, scorers) or _bad_params(plan, scorers, registry)
    if cause is not None:
        ledger.cannot(CheckId.SCORERS, cause)
        return cause
    ledger.completed(CheckId.SCORERS, ", ".join(scorers[name].pin for name in used))
    return PinnedScorers(plan, scorers)


def _recorded_pins(
    plan: CommittedPlan, documents: Documents, used: Sequence[str], ledger: Ledger
) -> Mapping[str, str]:
    """Return scorer → version by the receipt; by the template where the receipt has none."""
    recorded = documents.at(RECEIPT, "scorer_pins")
    pins = text_members(recorded)
    if not isinstance(recorded, dict) or sorted(recorded) != used or len(pins) != len(used):
        expected = f"a version each for {', '.join(used)} in the receipt's scorer_pins"
        ledger.wrong(CheckId.COMMITMENT, expected, render(recorded))
    committed = text_members(at(plan.document, "scorer_pins"))
    for name in used:
        if name in committed and committed[name] != pins.get(name):
            expected = f"scorer_pins/{name} {render(committed[name])} in the receipt"
            ledger.wrong(CheckId.COMMITMENT, expected, render(pins.get(name)))
    return {**pins, **committed}


def _check_kinds(
    documents: Documents, used: Sequence[str], scorers: Mapping[str, Scorer], ledger: Ledger
) -> None:
    """Check that the receipt has the kind of each scorer: by the table, else as it is installed."""
    recorded = documents.at(RECEIPT, "scorer_kinds")
    installed = {name: scorers[name].kind.value for name in used if name in scorers}
    expected = kinds_of(used, {**text_members(recorded), **installed})
    ledger.compare(CheckId.COMMITMENT, "the receipt's scorer_kinds", {**expected}, recorded)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """The replay dataset (`total` lines) and the gold labels, or why these cannot be had."""

    total: int
    gold: Mapping[str, JsonObject] | Cause


def check_ground_truth(
    folder: BundleFolder, plan: CommittedPlan, ledger: Ledger
) -> GroundTruth | None:
    """Make the check `datasets`, but for the lines of the replay dataset (see `episodes`).

    None where there is no replay dataset that can be read.
    """
    for path, sha256 in plan.datasets.items():
        try:
            ledger.compare(
                CheckId.DATASETS, f"SHA-256 of {path}", sha256, folder.digest(path).sha256
            )
        except DefectError as defect:
            ledger.wrong(CheckId.DATASETS, defect.expected, defect.actual)
    for path in folder.files:
        if path.startswith("ground_truth/") and path not in plan.datasets:
            ledger.wrong(CheckId.DATASETS, "only committed datasets", f"also {path}")
    try:
        total = folder.digest(REPLAY_DATASET).lines
    except DefectError:
        return None
    return GroundTruth(total=total, gold=_gold(folder, plan, ledger))


def episodes(folder: BundleFolder, ledger: Ledger) -> Iterator[GroundTruthEpisode]:
    """Yield the episodes up to the first line that is none; that one goes to `datasets`."""
    try:
        yield from read_episodes(bare_lines(folder, REPLAY_DATASET))
    except DatasetError as error:
        ledger.wrong(CheckId.DATASETS, f"{REPLAY_DATASET} with one episode a line", str(error))
    except DefectError as defect:
        ledger.wrong(CheckId.DATASETS, defect.expected, defect.actual)


def _gold(
    folder: BundleFolder, plan: CommittedPlan, ledger: Ledger
) -> Mapping[str, JsonObject] | Cause:
    if GOLD_LABELS not in plan.datasets:
        return {}
    try:
        return read_gold_labels(bare_lines(folder, GOLD_LABELS))
    except DatasetError as error:
        ledger.wrong(CheckId.DATASETS, f"{GOLD_LABELS} with one label a line", str(error))
    except DefectError as defect:
        ledger.wrong(CheckId.DATASETS, defect.expected, defect.actual)
    return Cause("the gold labels cannot be read")


def bare_lines(folder: BundleFolder, path: str) -> Iterator[bytes]:
    """Yield the lines of a file without their line feeds; DefectError where it is unreadable."""
    for line in folder.lines(path):
        yield line.removesuffix(b"\n")
