"""The check of a published bundle: some episodes are open, the others salted hashes alone.

What is open is computed again, and every leaf is held to the root. What rests on the rest is named:
a reader must not take a check of some for a check of all, so the best word is `consistent`.
Source: docs/disclosure.md; docs/contract/evidence.md §4; docs/adr/0186.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Final, cast

from theatre.engine.bundle_check.arithmetic import (
    NANO,
    REQUIRED,
    UNSUMMED,
    Document,
    problems_of_history,
    published,
    tier,
)
from theatre.engine.bundle_check.audit_trail import Times, read_audit_trail
from theatre.engine.bundle_check.baselines import CountedEvidence
from theatre.engine.bundle_check.batches import CallFacts, Recorded
from theatre.engine.bundle_check.certificate import (
    Hashes,
    check_certificate_copy,
    check_certificate_fields,
    check_certificate_schema,
    check_trail_facts,
    name_what_nothing_settles,
)
from theatre.engine.bundle_check.commitment import (
    check_commitment,
    check_template,
    pinned_scorers,
    theatre_id_of,
)
from theatre.engine.bundle_check.evidence import Evidence, GroundTruth, Installed
from theatre.engine.bundle_check.folder import (
    AGGREGATE,
    BASELINES,
    CERTIFICATE,
    COIN,
    DATA_AUDIT,
    EPISODES,
    MANIFEST,
    PER_EPISODE,
    RECEIPT,
    SUMS,
    TIER,
    BundleFolder,
    canonical_object,
    read_documents,
)
from theatre.engine.bundle_check.inventory import check_manifest, read_inventory, read_sums
from theatre.engine.bundle_check.opened import OpenedEpisodes
from theatre.engine.bundle_check.plain_records import merkle_root, salted_leaf
from theatre.engine.bundle_check.plan import REPLAY_DATASET, CommittedPlan
from theatre.engine.bundle_check.report import (
    NOTHING,
    SHA256,
    Cause,
    CheckId,
    CheckReport,
    DefectError,
    Ledger,
    Nothing,
    at,
    is_number,
    is_whole,
    render,
    require_members,
    require_same,
)
from theatre.engine.bundle_check.results import RunEvidence, check_results_hash
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, sha256_hex
from theatre.engine.models import EpisodeOutcome

_ABSENT: Final = ("ground_truth/", "invocations/")
_OPEN: Final = frozenset({"seq", "salt", "seed", "line"})
_CLOSED: Final = frozenset({"seq", "leaf"})
_CAP: Final = "episodes-withheld"
_OF_RECORDS: Final = (
    CheckId.INVOCATIONS,
    CheckId.SANITISED_INPUT,
    CheckId.VERSION_PINS,
    CheckId.OUTCOMES,
)
_REST: Final = {
    CheckId.COIN: "coin.txt is withheld: it draws the salts of what is not open",
    CheckId.DATASETS: "the committed hashes are over whole files, of which a part is open",
    CheckId.AUDIT_EPISODES: "the digests of batches are over all records",
    CheckId.HUMAN_SCORES: "ratings are about episodes of which not all are open",
    CheckId.DATA_AUDIT: "as the issuer has it: it counts all questions",
    CheckId.BASELINES: "as the issuer has them: they are scored on all questions",
    CheckId.RESOLUTION: "as the issuer has it: its steps rest on all episodes",
}


@dataclass(slots=True)
class _Lines:
    """The episodes as they are read: leaves, means, and what is open."""

    ids: list[str] = field(default_factory=list)
    leaves: list[bytes] = field(default_factory=list)
    opened: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    sums: dict[str, list[int]] = field(default_factory=dict)
    """Criterion → [sum of its scores in billionths, number of them]."""

    def count(self, result: JsonObject) -> None:
        """Count a line of `scores/per_episode.jsonl`."""
        outcome = result.get("outcome")
        if outcome not in set(EpisodeOutcome):
            raise DefectError("an outcome", render(outcome))
        self.outcomes[str(outcome)] += 1
        scores = result.get("scores")
        for name, score in scores.items() if isinstance(scores, dict) else ():
            if is_number(score):
                total = self.sums.setdefault(name, [0, 0])
                total[0] += round(Fraction(repr(score)) * NANO)
                total[1] += 1


def check_published(
    folder: BundleFolder, installed: Installed, *, now: datetime, certificate: bytes | None
) -> CheckReport:
    """Check a bundle whose template commits to withhold episodes; see `check_bundle`."""
    ledger = Ledger()
    documents, times = read_documents(folder, ledger), Times(ledger)
    plan = check_template(documents, installed, ledger)
    theatre_id = theatre_id_of(documents, ledger)
    trail = read_audit_trail(folder, theatre_id, times, ledger, rated=False)
    evidence = Evidence(
        folder=folder,
        documents=documents,
        plan=plan,
        theatre_id=theatre_id,
        coin=Cause("it is withheld"),
        trail=trail,
        times=times,
        installed=installed,
        ledger=ledger,
        progress=lambda _: None,
    )
    if plan is None or "withheld" not in cast(
        "JsonObject", plan.document["product_theatre_config"]
    ):
        # Else any issuer could leave out what he likes, and call it withheld.
        ledger.wrong(
            CheckId.INVENTORY, "all of the evidence: the template withholds nothing", EPISODES
        )
        return ledger.report()
    _check_files(evidence)
    bundle_hash = _check_sums(evidence)
    check_manifest(evidence, bundle_hash)
    commitment_hash = check_commitment(evidence)
    pinned_scorers(evidence, plan)
    lines = _check_episodes(evidence, plan)
    total = len(lines.ids)
    run = RunEvidence(
        calls=_stated_calls(evidence),
        scoring=Cause("episodes are withheld"),
        aggregate=Cause("episodes are withheld"),
        ground_truth=GroundTruth(total=total, gold={}),
        sanitiser=trail.detail("activated", "sanitiser"),
        episode_root=merkle_root(lines.leaves) if lines.leaves else NOTHING,
    )
    check_trail_facts(evidence, run, commitment_hash)
    times.finish(at(trail.entry("committed"), "at"), evidence.sealed_at, now)
    _check_aggregate(evidence, lines)
    results_hash = check_results_hash(evidence)
    _check_tier(evidence)
    check_certificate_schema(evidence)
    check_certificate_copy(evidence, certificate)
    counted = CountedEvidence(audit=documents.at(DATA_AUDIT), baselines=documents.at(BASELINES))
    aggregate = documents.get(AGGREGATE)
    results = NOTHING if aggregate is None else aggregate
    check_certificate_fields(
        evidence,
        run,
        hashes=Hashes(
            commitment=commitment_hash,
            bundle=bundle_hash,
            results=results_hash,
            coin=documents.at(RECEIPT, "coin_sha256"),
        ),
        results=results,
        counted=counted,
        findings=_findings(
            evidence,
            counted.findings(
                evidence, results, documents.at(TIER, "facts", "determinism_differences"), None
            ),
        ),
    )
    ledger.completed(CheckId.CANONICAL_FORM, "every document and line that is open")
    closed = total - lines.opened
    for check in _OF_RECORDS:
        ledger.withheld(check, f"{lines.opened} of {total} episodes are open")
    ledger.withheld(
        CheckId.SCORES, f"computed again: {lines.opened} of {total} lines; withheld: {closed}"
    )
    ledger.withheld(CheckId.TIMES, "calls and answers of open episodes")
    for check, text in _REST.items():
        ledger.withheld(check, text)
    name_what_nothing_settles(evidence)
    ledger.depends_on_outside(
        f"{closed} of {total} episodes are withheld: only their issuer has computed them"
    )
    return ledger.report()


def _is_absent(path: str) -> bool:
    """Return whether a file of the whole bundle is not in a published one."""
    return path == COIN or path.startswith(_ABSENT)


def _check_files(evidence: Evidence) -> None:
    """Make the check `inventory`: all but what is withheld, and nothing else."""
    folder, ledger, check = evidence.folder, evidence.ledger, CheckId.INVENTORY
    for odd, what in folder.oddities:
        ledger.wrong(check, "plain files only", f"{what} at {odd!r}")
    wanted = {*REQUIRED, CERTIFICATE, EPISODES} - {COIN, REPLAY_DATASET}
    for path in sorted(wanted ^ folder.files.keys()):
        pair = ("none", f"the file {path}") if path in wanted else (f"also {path!r}", "no other")
        ledger.wrong(check, pair[1], pair[0])
    with ledger.noting(check):
        listed = read_inventory(evidence.documents)
        held = folder.files.keys() - {MANIFEST, EPISODES}
        for path in sorted(held - listed.keys()):
            ledger.wrong(check, f"{path!r} listed in the manifest", "none")
        gone = [path for path in listed if path not in held]
        for path in gone:
            if not _is_absent(path):
                ledger.wrong(check, f"the file {path!r}", "none")
        for path in sorted(held & listed.keys()):
            seen: JsonValue = {
                "path": path,
                "size_bytes": folder.files[path],
                "sha256": folder.digest(path).sha256,
            }
            ledger.compare(check, f"the listed {path}, ", listed[path], seen)
        ledger.withheld(check, f"{len(held)} files are open, {len(gone)} withheld")


def _check_sums(evidence: Evidence) -> str | Nothing:
    """Make the checks `sums` and `bundle-hash`; return the bundle hash."""
    folder, ledger = evidence.folder, evidence.ledger
    bundle_hash: str | Nothing = NOTHING
    with ledger.noting(CheckId.SUMS, CheckId.BUNDLE_HASH):
        raw = folder.read(SUMS)
        sums = read_sums(raw, ledger)
        open_files = {path.encode() for path in folder.files} - {
            path.encode() for path in (*UNSUMMED, EPISODES)
        }
        for name in sorted(open_files ^ sums.keys()):
            path = name.decode("utf-8", "backslashreplace")
            if name in open_files or not _is_absent(path):
                ledger.wrong(CheckId.SUMS, f"a digest, and a file, of {path!r}", "one of both")
        for name in sorted(open_files & sums.keys()):
            seen = folder.digest(name.decode()).sha256
            if seen != sums[name]:
                ledger.wrong(CheckId.SUMS, f"{name.decode()} with SHA-256 {sums[name]}", seen)
        bundle_hash = sha256_hex(raw)
        for path, member in ((MANIFEST, "bundle_hash"), (CERTIFICATE, "evidence_bundle_hash")):
            seen_hash = evidence.documents.at(path, member)
            ledger.compare(CheckId.BUNDLE_HASH, f"{member} of {path}", bundle_hash, seen_hash)
        ledger.completed(CheckId.BUNDLE_HASH, bundle_hash)
        held = len(open_files & sums.keys())
        ledger.withheld(CheckId.SUMS, f"{held} of {len(sums)} files are open")
    return bundle_hash


def _check_episodes(evidence: Evidence, plan: CommittedPlan) -> _Lines:
    """Hold each line of `episodes.jsonl` to that of the scores; compute what is open again."""
    folder, ledger, lines = evidence.folder, evidence.ledger, _Lines()
    with ledger.noting(CheckId.SCORES):
        total = folder.digest(PER_EPISODE).lines
        opened = OpenedEpisodes(
            plan.document, evidence.installed, theatre_id=str(evidence.theatre_id), total=total
        )
        closed: list[str] = []
        pairs = zip(folder.lines(PER_EPISODE), folder.lines(EPISODES), strict=True)
        try:
            for seq, (stated, episode) in enumerate(pairs, 1):
                result = canonical_object(stated, f"{PER_EPISODE} line {seq}", ledger)
                document = canonical_object(episode, f"{EPISODES} line {seq}", ledger)
                name = str(result.get("episode_id"))
                lines.ids.append(name)
                lines.count(result)
                require_same(f"{EPISODES} line {seq}: seq", seq, at(document, "seq"))
                if "leaf" in document:
                    require_members(document, _CLOSED, f"{EPISODES} line {seq}")
                    lines.leaves.append(_hash(document["leaf"]))
                    closed.append(name)
                    continue
                lines.opened += 1
                lines.leaves.append(_check_open(evidence, opened, document, result, seq))
        except ValueError as error:
            raise DefectError("as many lines of episodes as of scores", str(error)) from error
        if len({*lines.ids}) != len(lines.ids):
            raise DefectError("episodes of different ids", "one twice")
        # What is withheld was committed: else it would be what did not turn out well.
        committed = plan.withheld(lines.ids)
        if committed is None or committed != {*closed}:
            odd = sorted((committed or frozenset()) ^ {*closed})
            raise DefectError("exactly the committed episodes withheld", ", ".join(odd[:5]))
    return lines


def _check_open(
    evidence: Evidence,
    opened: OpenedEpisodes,
    document: JsonObject,
    result: JsonObject,
    seq: int,
) -> bytes:
    """Note what is wrong with an open episode; return its leaf."""
    ledger = evidence.ledger
    require_members(document, _OPEN, f"{EPISODES} line {seq}")
    line, seed = document["line"], document["seed"]
    if not isinstance(line, dict) or not isinstance(seed, str):
        raise DefectError(f"{EPISODES} line {seq} with line and seed", render(document))
    ledger.compare(CheckId.SCORES, f"the result in line {seq}", result, at(line, "result"))
    found = opened.check(line, seq=seq, seed=seed)
    if found.false is not None:
        ledger.wrong(CheckId.SCORES, f"episode {seq} that follows from its record", found.false)
    elif found.unavailable is not None:
        ledger.cannot(CheckId.SCORES, Cause(found.unavailable, unavailable=True))
    if isinstance(record := at(line, "record"), dict):
        nonce = at(record, "calls", 0, "request", "metadata", "run_nonce")
        named = evidence.trail.run_nonce.hex()
        ledger.compare(
            CheckId.SCORES, f"the nonce of episode {seq}", named, "" if nonce is NOTHING else nonce
        )
        evidence.times.note_record(Recorded(record), f"{EPISODES} line {seq}")
    return salted_leaf(_hash(document["salt"]), canonical_bytes(line))


def _hash(value: JsonValue) -> bytes:
    if not isinstance(value, str) or not SHA256.fullmatch(value):
        raise DefectError("64 hex digits", render(value))
    return bytes.fromhex(value)


def _check_aggregate(evidence: Evidence, lines: _Lines) -> None:
    """Hold counts and means to the lines; what else there is rests on what is withheld."""
    ledger, documents, check = evidence.ledger, evidence.documents, CheckId.AGGREGATE
    counts = documents.at(AGGREGATE, "episode_counts")
    expected: Mapping[str, int] = {
        "total": len(lines.ids),
        "scored": lines.outcomes[EpisodeOutcome.SCORED],
        "refused": lines.outcomes[EpisodeOutcome.EXCLUDED],
        "unscored": lines.outcomes[EpisodeOutcome.UNSCORED],
        "not_run": lines.outcomes[EpisodeOutcome.NOT_RUN],
    }
    for name, count in expected.items():
        ledger.compare(check, f"episode_counts/{name}", count, at(counts, name))
    failed = [at(counts, name) for name in ("timeout", "error")]
    missing = sum(value for value in failed if is_whole(value))
    ledger.compare(check, "timeouts and errors", lines.outcomes[EpisodeOutcome.MISSING], missing)
    for name, (total, count) in lines.sums.items():
        mean = published(Fraction(total, count * NANO))
        ledger.compare(check, f"scores/{name}", mean, documents.at(AGGREGATE, "scores", name))
    ledger.withheld(
        check, "counts and means follow from the lines; intervals and calibration rest on the rest"
    )


def _check_tier(evidence: Evidence) -> None:
    """Assess the stated facts again: with withheld episodes there is no tier but UNVERIFIED."""
    ledger, documents, sealed_at = evidence.ledger, evidence.documents, str(evidence.sealed_at)
    facts, history = documents.at(TIER, "facts"), documents.at(TIER, "history")
    if not isinstance(facts, dict) or not isinstance(history, dict):
        ledger.wrong(CheckId.TIER, "facts and a history", render(documents.at(TIER)))
        return
    caps = facts.get("extra_caps")
    if not isinstance(caps, list) or _CAP not in caps:
        ledger.wrong(CheckId.TIER, f"the cap {_CAP}", render(caps))
    assessment = Document()
    try:
        for wanted, found in problems_of_history(history, evidence.theatre_id, sealed_at):
            ledger.wrong(CheckId.TIER, wanted, found)
        assessment = tier(facts, history, resolved_at=sealed_at)
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError) as error:
        ledger.wrong(CheckId.TIER, "facts and a history that a tier follows from", str(error))
    ledger.compare(CheckId.TIER, TIER, assessment, documents.at(TIER, "assessment"))
    ledger.withheld(CheckId.TIER, f"{assessment.get('tier')}; facts as the issuer has them")


def _stated_calls(evidence: Evidence) -> CallFacts:
    """Return what the certificate states of the calls: records that are withheld may say it."""
    source = evidence.documents.at(CERTIFICATE, "version_source")
    return CallFacts(sources={source} if isinstance(source, str) else set(), is_stated=True)


def _findings(evidence: Evidence, counted: list[str] | Nothing) -> list[str] | Nothing:
    """Return the findings that follow from what is there, and the steps that are stated failed."""
    if isinstance(counted, Nothing):
        return NOTHING
    stated = evidence.documents.at(CERTIFICATE, "findings")
    listed = [
        code for code in (stated if isinstance(stated, list) else []) if isinstance(code, str)
    ]
    failed = [code for code in listed if code.startswith(("step-failed:", "controls-"))]
    committed = evidence.documents.at(RECEIPT, "environment")
    began = evidence.trail.detail("activated", "environment")
    before = evidence.trail.detail("activated", "previous_environment")
    is_as_before = committed == began and before in (None, began)
    return [*counted, *failed, *(() if is_as_before else ("environment-changed",))]
