"""What was committed before anything ran: the template, its hash, the receipt, the datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast
from uuid import UUID

from theatre.engine.bundle_check.arithmetic import is_isolation, kinds_of, recorded_answers
from theatre.engine.bundle_check.evidence import Evidence, GroundTruth, Installed
from theatre.engine.bundle_check.folder import (
    CERTIFICATE,
    COIN,
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
    SHA256,
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
from theatre.engine.canonical_json import JsonObject, JsonValue, parse_object
from theatre.engine.coin import Coin
from theatre.engine.errors import CoinError, DatasetError, ParseError
from theatre.engine.models import GroundTruthEpisode, Scorer, read_episodes, read_gold_labels
from theatre.engine.schema_registry import SchemaRegistry

TEMPLATE_SCHEMAS = {
    "2.0.1": "echelon_theatre_schema_v2.json",
    "2.1.0": "echelon_theatre_schema_v2_1.json",
    "2.2.0": "echelon_theatre_schema_v2_2.json",
}
"""Version of a template that runs → its frozen schema."""

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
    documents: Documents, installed: Installed, ledger: Ledger
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
        with ledger.noting(CheckId.TEMPLATE):
            require_valid(candidate, installed.registry)
            return committed_plan(candidate, runners=installed.runners)
    return None


def check_commitment(evidence: Evidence) -> str | Nothing:
    """Make the check `commitment` and return the recomputed hash, where there is a template."""
    documents, ledger, entry = (
        evidence.documents,
        evidence.ledger,
        evidence.trail.entry("committed"),
    )
    template = documents.at(TEMPLATE)
    if template is NOTHING:
        template = documents.at(RECEIPT, "template_snapshot")
    _check_receipt(documents, template, ledger)
    recomputed = commitment_hash(template) if isinstance(template, dict) else NOTHING
    for path in documents.naming:
        seen = documents.at(path, "commitment_hash")
        ledger.compare(CheckId.COMMITMENT, f"commitment_hash in {path}", recomputed, seen)
    committed_at = documents.at(RECEIPT, "committed_at")
    named = at(entry, "detail", "commitment_hash")
    ledger.compare(CheckId.COMMITMENT, "commitment_hash in the audit trail", recomputed, named)
    ledger.compare(
        CheckId.COMMITMENT, "committed_at in the audit trail", committed_at, at(entry, "at")
    )
    if not documents.is_reproduction:
        seen = documents.at(CERTIFICATE, "theatre_committed_at")
        ledger.compare(CheckId.COMMITMENT, f"committed_at in {CERTIFICATE}", committed_at, seen)
    ledger.completed(CheckId.COMMITMENT, f"commitment_hash {render(recomputed)}")
    return recomputed


def check_coin(folder: BundleFolder, documents: Documents, ledger: Ledger) -> Coin | Cause:
    """Make the check `coin`; return the coin that is revealed, or why there is none."""
    with ledger.noting(CheckId.COIN):
        try:
            coin = Coin.from_line(folder.read(COIN))
        except CoinError as error:
            expected = f"{COIN} with 64 hex digits and a line feed"
            raise DefectError(expected, "something else") from error
        for path in (RECEIPT, documents.conclusion):
            seen = documents.at(path, "coin_sha256")
            ledger.compare(CheckId.COIN, f"coin_sha256 of {path}", coin.sha256, seen)
        ledger.completed(CheckId.COIN, coin.sha256)
        return coin
    return Cause(f"{COIN} reveals no coin")


def theatre_id_of(documents: Documents, ledger: Ledger) -> str | Nothing:
    """Return the one id that receipt, certificate and manifest name (part of `commitment`)."""
    seen = {path: documents.at(path, "theatre_id") for path in documents.naming}
    usable = [value for value in seen.values() if isinstance(value, str) and _is_uuid(value)]
    if not usable:
        ledger.wrong(CheckId.COMMITMENT, "a theatre_id that is a UUID", "none")
        return NOTHING
    for path, value in seen.items():
        if not same_json(usable[0], value):
            expected = f"theatre_id {render(usable[0])} in {path}"
            ledger.wrong(CheckId.COMMITMENT, expected, render(value))
    return usable[0]


def require_valid(template: JsonObject, registry: SchemaRegistry) -> None:
    """Raise DefectError unless a template fits the schema of its version."""
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


def _check_receipt(documents: Documents, template: JsonValue | Nothing, ledger: Ledger) -> None:
    with ledger.noting(CheckId.COMMITMENT):
        require_members(documents.at(RECEIPT), _RECEIPT_MEMBERS, RECEIPT)
        require_time(documents.at(RECEIPT, "committed_at"), "committed_at of the receipt")
    named: JsonValue | Nothing = None
    if documents.is_reproduction:
        named = documents.at(REPRODUCTION, "reproduces")
        named = named if isinstance(named, str) and SHA256.fullmatch(named) else NOTHING
    expectations: dict[str, JsonValue | Nothing] = {
        # A member that the template has not is `{}` in what is hashed.
        "version_pins": {} if (pins := at(template, "version_pins")) is NOTHING else pins,
        "dataset_hashes": {} if (hashes := at(template, "dataset_hashes")) is NOTHING else hashes,
        "escrowed_capital": None,
        # Only a reproduction says of what run: a certificate's run must not borrow one.
        "reproduces": named,
        "canonicalisation": "RFC8785",
    }
    for name, expected in expectations.items():
        seen = documents.at(RECEIPT, name)
        ledger.compare(CheckId.COMMITMENT, f"the receipt's {name}", expected, seen)
    tried = documents.at(RECEIPT, "isolation")
    if tried is not None and not is_isolation(tried):
        form = "the receipt's isolation in its form, or null"
        ledger.wrong(CheckId.COMMITMENT, form, render(tried))


def _is_uuid(value: str) -> bool:
    """Return whether `value` is a UUID in the one spelling that documents use."""
    try:
        return str(UUID(value)) == value
    except ValueError:
        return False


def pinned_scorers(evidence: Evidence, plan: CommittedPlan) -> PinnedScorers | Cause:
    """Make the check `scorers`; return what scores episodes, or why nothing does.

    A receipt that disagrees with its template about the pins breaks the `commitment`.
    """
    scorers, ledger = evidence.installed.scorers, evidence.ledger
    used = sorted(set(plan.scorers.values()))
    recorded = evidence.documents.at(RECEIPT, "scorer_pins")
    pins, committed = text_members(recorded), text_members(at(plan.document, "scorer_pins"))
    # A kinder version of a scorer than the committed one would score the same answers higher.
    if not isinstance(recorded, dict) or sorted(recorded) != used or len(pins) != len(used):
        expected = f"a version each for {', '.join(used)} in the receipt's scorer_pins"
        ledger.wrong(CheckId.COMMITMENT, expected, render(recorded))
    for name in used:
        if name in committed and committed[name] != pins.get(name):
            expected = f"scorer_pins/{name} {render(committed[name])} in the receipt"
            ledger.wrong(CheckId.COMMITMENT, expected, render(pins.get(name)))
    # By the table, else as installed: an issuer could call words exact, and be BACKTESTED for them.
    stated = evidence.documents.at(RECEIPT, "scorer_kinds")
    installed = {name: scorers[name].kind.value for name in used if name in scorers}
    kinds = kinds_of(used, {**text_members(stated), **installed})
    ledger.compare(CheckId.COMMITMENT, "the receipt's scorer_kinds", {**kinds}, stated)
    cause = unavailable_scorers(used, {**pins, **committed}, scorers)
    cause = cause or misfit_params(plan, scorers, evidence.registry)
    if cause is not None:
        ledger.cannot(CheckId.SCORERS, cause)
        return cause
    ledger.completed(CheckId.SCORERS, ", ".join(scorers[name].pin for name in used))
    return PinnedScorers(plan, scorers)


def unavailable_scorers(
    used: Sequence[str], pins: Mapping[str, str], scorers: Mapping[str, Scorer]
) -> Cause | None:
    """Return which scorers are not installed in their pinned version, if any."""
    wanting = []
    for name in used:
        pinned, installed = pins.get(name), scorers.get(name)
        if installed is None:
            wanting.append(f"scorer {name}@{pinned or '?'} is not installed")
        elif pinned is not None and installed.version != pinned:
            wanting.append(f"scorer {name}@{pinned} is pinned and {installed.pin} installed")
    return Cause("; ".join(wanting), unavailable=True) if wanting else None


def misfit_params(
    plan: CommittedPlan, scorers: Mapping[str, Scorer], registry: SchemaRegistry
) -> Cause | None:
    """Return which parameters of a scorer do not fit its schema, if any do not."""
    for criterion, name in plan.scorers.items():
        schema, params = scorers[name].params_schema, plan.params[criterion]
        for violation in registry.validate_inline(schema, params):
            return Cause(f"params of {criterion}{violation.pointer}: {violation.detail}")
    return None


def check_ground_truth(
    folder: BundleFolder, plan: CommittedPlan, ledger: Ledger
) -> GroundTruth | None:
    """Make the check `datasets`, but for the lines of the replay dataset (see `episodes`).

    None where there is no replay dataset that can be read.
    """
    for path, sha256 in plan.datasets.items():
        with ledger.noting(CheckId.DATASETS):
            seen = folder.digest(path).sha256
            ledger.compare(CheckId.DATASETS, f"SHA-256 of {path}", sha256, seen)
    for path in folder.files:
        # Labels that no hash binds could be chosen to fit the answers.
        if path.startswith("ground_truth/") and path not in plan.datasets:
            ledger.wrong(CheckId.DATASETS, "only committed datasets", f"also {path}")
    try:
        total = folder.digest(REPLAY_DATASET).lines
    except DefectError:
        return None
    gold: Mapping[str, JsonObject] | Cause = {}
    if GOLD_LABELS in plan.datasets:
        gold = Cause("the gold labels cannot be read")
        with ledger.noting(CheckId.DATASETS):
            try:
                gold = read_gold_labels(bare_lines(folder, GOLD_LABELS))
            except DatasetError as error:
                raise DefectError(f"{GOLD_LABELS} with one label a line", str(error)) from error
    answers: Mapping[str, JsonObject] | None = None
    if plan.recorded_answers is not None:
        # Without lines that can be read no record has an answer of the log.
        answers = {}
        with ledger.noting(CheckId.DATASETS):
            answers = _read_answers(folder, plan.recorded_answers)
    return GroundTruth(total=total, gold=gold, answers=answers)


def _read_answers(folder: BundleFolder, path: str) -> Mapping[str, JsonObject]:
    try:
        return recorded_answers(map(parse_object, bare_lines(folder, path)))
    except (ParseError, KeyError, TypeError) as error:
        raise DefectError(f"{path} with the answer to one episode a line", str(error)) from error


def episodes(folder: BundleFolder, ledger: Ledger) -> Iterator[GroundTruthEpisode]:
    """Yield the episodes up to the first line that is none; that one goes to `datasets`."""
    with ledger.noting(CheckId.DATASETS):
        try:
            yield from read_episodes(bare_lines(folder, REPLAY_DATASET))
        except DatasetError as error:
            raise DefectError(f"{REPLAY_DATASET} with one episode a line", str(error)) from error


def bare_lines(folder: BundleFolder, path: str) -> Iterator[bytes]:
    """Yield the lines of a file without their line feeds; DefectError where it is unreadable."""
    for line in folder.lines(path):
        yield line.removesuffix(b"\n")
