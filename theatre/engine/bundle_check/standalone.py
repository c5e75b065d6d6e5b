"""The checks of `verify_bundle.py`, and its command line.

Each check is a function of the evidence that yields what is wrong. Written from
docs/contract/evidence.md and docs/certificate.md. It runs no scorer, no computation and no
sanitiser, so it takes the scores of an episode from `scores/per_episode.jsonl` and computes again
all that follows from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from theatre.engine.bundle_check.arithmetic import (
    NOTHING_CLOSED,
    REFUSALS,
    RESERVED,
    STATES,
    UNSUMMED,
    Document,
    adapter_type_of,
    both_estimands,
    exact,
    identity,
    is_isolation,
    is_of_type,
    kinds_of,
    normalised,
    parsed_time,
    problems_of_history,
    published,
    rated,
    recorded_types,
    tier,
    undeclared,
    weakest_isolation,
    wilson,
)
from theatre.engine.bundle_check.bundle_reader import Evidence, path_of
from theatre.engine.bundle_check.data_audit import (
    BASELINES,
    INTERCHANGEABLE,
    MEETS,
    evidence_findings,
)
from theatre.engine.bundle_check.measures import unqualified_measures
from theatre.engine.bundle_check.plain_json import DefectError, canonical, parsed
from theatre.engine.bundle_check.plain_notes import Reader, reader_of
from theatre.engine.bundle_check.plain_proofs import (
    ProofLine,
    log_is_trusted,
    proofs_of,
    signing_is_trusted,
    unseen,
)
from theatre.engine.bundle_check.plain_published import (
    EPISODES,
    WITHHELD,
    PublishedEvidence,
    published_aggregate,
    published_inventory,
    published_scores,
    published_sums,
    published_tier,
)
from theatre.engine.bundle_check.plain_records import (
    MISFIT,
    SHA256,
    Form,
    NoneType,
    Problems,
    differs,
    has_form,
    sha256,
)

ABOUT: Final = """Check an evidence bundle of Echelon Theatre. Nothing has to be installed.

Exit code 0: nothing failed. 10: a check failed. 9: a lesser word than --require asks for. 5: the
folder is no bundle, or a file of yours is not what it should be.
"""
NOT_MADE: Final = {
    "certificate-schema": "every member of the certificate is computed again by certificate-fields",
    "sanitised-input": "no sanitiser is in this file",
    "scorers": "no scorer is in this file: scores are taken from scores/per_episode.jsonl",
}
"""Checks of `echelon check` that are not made here, and why."""
TOLERANCE: Final = 2e-6
# The checks, each a function of the evidence that yields what is wrong.


def check_inventory(evidence: Evidence) -> Problems:
    """Check that the files are exactly those that the evidence calls for, as listed."""
    manifest = evidence.document("manifest.json")
    expected = [
        {"path": path, "size_bytes": len(raw), "sha256": sha256(raw)}
        for path in evidence.paths
        if path != "manifest.json"
        for raw in [evidence.raw(path)]
    ]
    if canonical(expected) != canonical(manifest["file_inventory"]):
        yield "manifest.json: another file_inventory than the files make"
    named = {f"ground_truth/{name}" for name in evidence.ground_truth_files()}
    opened = {f"hitl/{detail['step_id']}.jsonl" for detail in evidence.details("hitl_opened")}
    total = len(evidence.dataset)
    places = {path_of(seq, total) for seq in range(1, total + 1)}
    called = places.intersection(evidence.paths)
    for path in sorted({*evidence.required, *named, *opened, *called} ^ set(evidence.paths)):
        yield f"{path}: {'one too many' if path in evidence.paths else 'missing'}"


def check_sums(evidence: Evidence) -> Problems:
    """Check that SHA256SUMS has the right digest for every file it must list, sorted."""
    expected = "".join(
        f"{sha256(evidence.raw(path))}  {path}\n" for path in evidence.paths if path not in UNSUMMED
    )
    # A file next to those that are summed could be shown as evidence without being any.
    if evidence.raw("SHA256SUMS") != expected.encode():
        yield "SHA256SUMS: other digests or paths than the files have"


def check_canonical_form(evidence: Evidence) -> Problems:
    """Check that every JSON document and line is RFC 8785 bytes and a line feed."""
    for path in evidence.paths:
        if path.startswith("ground_truth/"):
            continue
        if path.endswith(".json"):
            if evidence.raw(path) != canonical(evidence.document(path)) + b"\n":
                yield f"{path}: not canonical"
        elif path.endswith(".jsonl") and any(
            raw != canonical(value) for raw, value in evidence.lines(path)
        ):
            yield f"{path}: not canonical"


def check_bundle_hash(evidence: Evidence) -> Problems:
    """Check that manifest and certificate name the SHA-256 of SHA256SUMS."""
    bundle_hash = sha256(evidence.raw("SHA256SUMS"))
    manifest = evidence.document("manifest.json")
    yield from differs("manifest.json/bundle_hash", bundle_hash, manifest["bundle_hash"])
    if evidence.reproduction is None:
        named = evidence.certificate["evidence_bundle_hash"]
        yield from differs("certificate.json/evidence_bundle_hash", bundle_hash, named)


def check_manifest(evidence: Evidence) -> Problems:
    """Check that the manifest's fields follow from the bundle."""
    manifest = evidence.document("manifest.json")
    theatre_id, pins = evidence.receipt["theatre_id"], evidence.template["version_pins"]
    bundle_hash = sha256(evidence.raw("SHA256SUMS"))
    expected = {
        "bundle_id": str(uuid5(UUID(theatre_id), bundle_hash)),
        "theatre_id": theatre_id,
        "commitment_hash": evidence.commitment_hash,
        "bundle_hash": bundle_hash,
        "file_inventory": manifest["file_inventory"],
        "created_at": evidence.trail[-1]["at"],
        "methodology_version": pins.get("methodology_version", "1.0.0"),
        "construct_version": pins["constructs"][evidence.config["construct_under_test"]],
        "scorer_version": pins["scorer_version"],
    }
    yield from differs("manifest.json", expected, manifest)


def check_certificate_copy(evidence: Evidence) -> Problems:
    """Check that the certificate is the one that the reader kept."""
    if evidence.kept is not None:
        if evidence.reproduction is not None:
            yield "reproduction.json: no certificate, where you gave one"
            return
        kept = canonical(parsed(evidence.kept, "the certificate that you gave"))
        if canonical(evidence.certificate) != kept:
            yield "certificate.json: another certificate than the one that you gave"


def check_template(evidence: Evidence) -> Problems:
    """Check that the template is the receipt's snapshot; its rules are not known here."""
    yield from differs("template.json", evidence.receipt["template_snapshot"], evidence.template)


def is_environment(value: object) -> bool:
    """Return whether a value says in which environment constructs run, or that none runs here."""
    form = {"environment_hash", "interpreter", "platform"}
    if not isinstance(value, dict) or value.keys() != form:
        return value is None
    texts = all(isinstance(text, str) and text for text in value.values())
    return texts and bool(SHA256.fullmatch(value["environment_hash"]))


def isolation(evidence: Evidence) -> Document:
    """Return what was closed to every construct of an episode at the start of the run."""
    if recorded_types(evidence.template):  # the program that asked had the answers
        return NOTHING_CLOSED
    return weakest_isolation([evidence.activated["isolation"][one] for one in evidence.chain])


def check_commitment(evidence: Evidence) -> Problems:
    """Check that there is one commitment hash, recomputed, wherever it is named."""
    scorers = evidence.activated["scorers"]
    expected = {
        "theatre_id": evidence.trail[0]["theatre_id"],
        "commitment_hash": evidence.commitment_hash,
        "coin_sha256": evidence.receipt["coin_sha256"],
        "reproduces": reproduced(evidence),
        "template_snapshot": evidence.template,
        "version_pins": evidence.template["version_pins"],
        "dataset_hashes": evidence.template["dataset_hashes"],
        "scorer_pins": scorers,
        "scorer_kinds": kinds_of(scorers, evidence.receipt["scorer_kinds"]),
        "escrowed_capital": None,
        "canonicalisation": "RFC8785",
        "committed_at": next(e["at"] for e in evidence.trail if e["event_type"] == "committed"),
    }
    environment = evidence.receipt["environment"]
    if not is_environment(environment):
        yield "commitment_receipt.json/environment: another form"
    tried = evidence.receipt["isolation"]
    if tried is not None and not is_isolation(tried):
        yield "commitment_receipt.json/isolation: another form"
    # What was found out at the commitment is its issuer's word: of these two only the form follows.
    free = {"environment": environment, "isolation": tried}
    yield from differs("commitment_receipt.json", expected | free, evidence.receipt)
    (committed,) = evidence.details("committed")
    yield from differs("committed", {"commitment_hash": evidence.commitment_hash}, committed)
    for construct in undeclared(evidence.template, lambda value: sha256(canonical(value))):
        yield f"version_pins: {construct!r:.60} is not pinned by what it is asked"
    # A kinder version of a scorer than the committed one would score the same answers higher.
    pins = evidence.template.get("scorer_pins")
    if pins is not None:
        used = {name: pins.get(name) for name in scorers}
        yield from differs("scorer_pins", used, scorers)


def reproduced(evidence: Evidence) -> str | None:
    """Return what the receipt must say of an earlier run: nothing, where one is certified."""
    if evidence.reproduction is None:
        return None
    named = evidence.reproduction["reproduces"]
    if not isinstance(named, str) or not SHA256.fullmatch(named):
        raise DefectError("reproduction.json: expected the bundle hash that it reproduces")
    return named


def check_coin(evidence: Evidence) -> Problems:
    """Check that the revealed coin is the one that receipt and certificate name."""
    digest = sha256(evidence.coin)
    yield from differs("receipt/coin_sha256", digest, evidence.receipt["coin_sha256"])
    concluded = evidence.reproduction or evidence.certificate
    yield from differs("conclusion/coin_sha256", digest, concluded["coin_sha256"])


def check_datasets(evidence: Evidence) -> Problems:
    """Check that the ground truth is the committed one, and can be read."""
    hashes = evidence.template["dataset_hashes"]
    files = evidence.ground_truth_files()
    yield from differs("dataset_hashes", sorted(hashes), sorted(files.values()))
    for name, dataset in files.items():
        actual = sha256(evidence.raw(f"ground_truth/{name}"))
        yield from differs(f"ground_truth/{name}", hashes.get(dataset), actual)
    if not evidence.dataset:
        yield "ground_truth: no episodes"
    evidence.gold  # noqa: B018 - raises where the labels cannot be read


BATCH: Final = {"episodes_recorded", "episode_failed", "episode_refused"}
STEP: Final = {
    "hitl_opened",
    "human_score",
    "human_score_refused",
    "step_completed",
    "step_failed",
    "step_skipped",
    "escalated",
}


def check_audit_chain(evidence: Evidence) -> Problems:
    """Check that the chain is unbroken along the lifecycle up to the sealing."""
    head = "0" * 64
    for seq, entry in enumerate(evidence.trail):
        linked = {name: value for name, value in entry.items() if name != "entry_hash"}
        states = STATES.get(entry["event_type"], (None, None))
        frame = {
            "seq": seq,
            "prev_entry_hash": head,
            "theatre_id": evidence.receipt["theatre_id"],
            "from_state": states[0],
            "to_state": states[1],
            "entry_hash": sha256(canonical(linked)),
            "event_type": entry["event_type"],
            "detail": entry["detail"],
            "at": entry["at"],
        }
        yield from differs(f"audit_trail.jsonl, entry {seq}", frame, entry)
        head = entry["entry_hash"]
    events = [entry["event_type"] for entry in evidence.trail]
    settling = events.index("settling")
    if (
        events[:3] != ["created", "committed", "activated"]
        or not BATCH.issuperset(events[3:settling])
        or not STEP.issuperset(events[settling + 1 : -1])
        or events[-1] != "sealed"
    ):
        yield "audit_trail.jsonl: another order of events than the lifecycle has"
    yield from differs(
        "created", [{"template_id": evidence.template["theatre_id"]}], evidence.details("created")
    )
    yield from differs("settling", [{}], evidence.details("settling"))
    yield from problems_of_activation(evidence)
    (sealed,) = evidence.details("sealed")
    if not isinstance(sealed["issuer"], str) or not sealed["issuer"]:
        yield "sealed/issuer: expected a name"
    at = evidence.trail[-1]["at"]
    name = f"certificate:{evidence.commitment_hash}"
    expected = {
        "certificate_id": str(uuid5(UUID(evidence.receipt["theatre_id"]), name))
        if evidence.reproduction is None
        else None,
        "issuer": sealed["issuer"],
        "issued_at": at,
        "theatre_resolved_at": at,
    }
    yield from differs("sealed", expected, sealed)


def problems_of_activation(evidence: Evidence) -> Problems:
    """Yield where the entry of the start has another form, or names what is not committed."""
    activated = evidence.activated
    programme = evidence.template["resolution_programme"]
    named = {
        str(step["input_spec"]["computation"])
        for step in programme
        if step["type"] == "deterministic_computation"
    }
    sanitises = evidence.policy.get("sanitise_input", True)
    people = any(step["type"] == "hitl_rubric" for step in programme)
    form = ["adapters", "computations", "environment", "episodes", "isolation"]
    form += ["previous_environment", "sanitiser", "scorers", *["authors"] * people]
    nonce = activated.get("run_nonce")
    if nonce is not None:
        form.append("run_nonce")
        if not isinstance(nonce, str) or not SHA256.fullmatch(nonce):
            yield "activated/run_nonce: expected a SHA-256"
    yield from differs("activated", sorted(form), sorted(activated))
    for name in ("environment", "previous_environment"):
        if not is_environment(activated[name]):
            yield f"activated/{name}: another form"
    tried = activated["isolation"]
    yield from differs("activated/isolation", sorted(evidence.chain), sorted(tried))
    if not all(is_isolation(one) for one in tried.values()):
        yield "activated/isolation: another form"
    yield from differs("activated/computations", sorted(named), sorted(activated["computations"]))
    yield from differs("activated/adapters", sorted(evidence.chain), sorted(activated["adapters"]))
    if type(activated["sanitiser"]) is not (str if sanitises else NoneType):
        yield "activated/sanitiser: there, or not, against what was committed"
    authors = activated.get("authors", dict.fromkeys(evidence.chain))
    yield from differs("activated/authors", sorted(evidence.chain), sorted(authors))
    texts = [*activated["adapters"].values(), *activated["scorers"].values()]
    texts += [*activated["computations"].values()]
    texts += [one for one in authors.values() if one is not None]
    if not all(isinstance(one, str) for one in texts):
        yield "activated: expected texts"
    pin = evidence.template["version_pins"].get("adapter_version")
    for name, adapter in activated["adapters"].items():
        kind = adapter_type_of(evidence.template, name)
        if pin not in {None, adapter} or kind == "mock" or not is_of_type(adapter, kind):
            yield "activated/adapters: one that was not committed, or reaches no construct"


def check_audit_episodes(evidence: Evidence) -> Problems:
    """Check that each invocation record is in one audited batch, with its digest."""
    total = len(evidence.dataset)
    yield from differs("activated/episodes", total, evidence.activated["episodes"])
    batched: set[int] = set()
    expected: list[Document] = []
    for detail in evidence.details("episodes_recorded"):
        seqs = [seq for first, last in detail["seqs"] for seq in range(first, last + 1)]
        seqs = seqs[: total + 1]
        whole = all(type(seq) is int for pair in detail["seqs"] for seq in pair)
        if not whole or not seqs or seqs != sorted(set(seqs)) or not batched.isdisjoint(seqs):
            yield f"episodes_recorded: expected new episodes in order, got {detail['seqs']!r:.60}"
        if not SHA256.fullmatch(detail["journal_sha256"]):
            yield f"episodes_recorded: expected a SHA-256, got {detail['journal_sha256']!r:.60}"
        batched.update(seqs)
        records = [evidence.records[seq] for seq in seqs]
        statuses = Counter(asked.status for _, asked in records)
        batch = {
            "seqs": detail["seqs"],
            "records_sha256": sha256(b"".join(raw for raw, _ in records)),
            "journal_sha256": detail["journal_sha256"],
            "statuses": {
                word: statuses[word] for word in ("success", "timeout", "error", "refused")
            },
        }
        expected.append({"event_type": "episodes_recorded", "detail": batch})
        for _, asked in records:
            if asked.status != "success":
                word = "refused" if asked.status == "refused" else "failed"
                expected.append({"event_type": f"episode_{word}", "detail": asked.trouble})
    recorded = [
        {"event_type": entry["event_type"], "detail": entry["detail"]}
        for entry in evidence.trail
        if entry["event_type"] in BATCH
    ]
    yield from differs("audit_trail.jsonl, batches", expected, recorded)
    # Records that no batch has could be exchanged after the run, and head and certificate hold.
    if batched != evidence.records.keys():
        yield "audit_trail.jsonl: other episodes than there are records"


def check_times(evidence: Evidence) -> Problems:
    """Check that commitment, calls, answers and sealing follow each other, and none is to come."""
    stamps = [parsed_time(entry["at"]) for entry in evidence.trail]
    # Who answers first and commits afterwards knows what he commits to.
    if stamps != sorted(stamps):
        yield "audit_trail.jsonl: an entry that is earlier than the one before it"
    committed, sealed = parsed_time(evidence.receipt["committed_at"]), stamps[-1]
    for _, asked in evidence.records.values():
        if asked.invoked < committed - timedelta(seconds=5):
            yield f"record {asked.seq}: a call before the commitment"
        if asked.responded > sealed:
            yield f"record {asked.seq}: an answer behind the sealing"
        if not asked.in_order:
            yield f"record {asked.seq}: an answer before its call or the attempt before it"
    if max(stamps) > evidence.now + timedelta(minutes=5):
        yield "audit_trail.jsonl: a time that is yet to come"


def check_invocations(evidence: Evidence) -> Problems:
    """Check that there is a record for each episode that was run, with the committed calls."""
    tally, lines = evidence.results
    # An episode that is left out is a failure that is not counted.
    for line in lines:
        seq = line["seq"]
        if seq not in evidence.records and (line["outcome"] != "not_run" or not tally.ended):
            yield f"episode {seq}: no record, and the run had not ended"
    if any(line["outcome"] == "not_run" for line in lines) and not tally.ended:
        yield "episodes that were not run, without an end of the run"
    # Repeats of a block of episodes are mixed: the first to be complete need not be the first.
    one_by_one = evidence.policy.get("max_concurrency", 1) == tally.plan.repeats == 1
    if one_by_one and len(evidence.recorded) != len(evidence.records):
        yield "records behind the end of a run that called one episode at a time"
    for _, asked in evidence.records.values():
        yield from asked.problems
    if len({canonical(asked.tables) for _, asked in evidence.records.values()}) > 1:
        yield "records: sanitised with other tables than each other"


def check_version_pins(evidence: Evidence) -> Problems:
    """Check that every accepted answer reports the pinned id and version."""
    for _, asked in evidence.records.values():
        yield from asked.version_problems


def check_outcomes(evidence: Evidence) -> Problems:
    """Check that each outcome follows from the recorded answer."""
    stated = evidence.values("scores/per_episode.jsonl")
    for expected, actual in zip(evidence.results[1], stated, strict=True):
        yield from differs(f"episode {expected['seq']}", expected["outcome"], actual["outcome"])
    if not evidence.results[0].outcomes["scored"]:
        yield "no episode was scored"


def check_scores(evidence: Evidence) -> Problems:
    """Check that the lines of the episodes are what their scores make, byte for byte."""
    stated = evidence.values("scores/per_episode.jsonl")
    for expected, actual in zip(evidence.results[1], stated, strict=True):
        yield from differs(f"per_episode.jsonl, line {expected['seq']}", expected, actual)


OF_ITEM: Final[Form] = {"step_id": (str,), "scorer": (str,), "episode_id": (str,)}
HUMAN_SCORE: Final[Form] = OF_ITEM | {"score": (int, float), "comment": (str, NoneType)}
REFUSED_SCORE: Final[Form] = OF_ITEM | {"score": (int, float, str), "code": (str,)}


def check_human_scores(evidence: Evidence) -> Problems:
    """Check that people were asked as committed, and each score is as the trail has it."""
    opened = {detail["step_id"]: detail for detail in evidence.details("hitl_opened")}
    yield from problems_of_ratings(evidence)
    programme = {step["step_id"]: step for step in evidence.template["resolution_programme"]}
    for step_id, entry in evidence.rubrics.items():
        recorded = [
            {name: value for name, value in e["detail"].items() if name != "step_id"}
            | {"at": e["at"]}
            for e in evidence.trail
            if e["event_type"] == "human_score" and e["detail"]["step_id"] == step_id
        ]
        if step_id not in opened:
            if recorded:
                yield f"{step_id}: scores at a step that was never opened"
            continue
        lines = evidence.values(f"hitl/{step_id}.jsonl")
        yield from differs(f"hitl/{step_id}.jsonl", recorded, lines)
        separation = entry.get("identity_separation") or {}
        expected = {
            "step_id": step_id,
            "items": evidence.drawn_items(entry),
            "minimum_scorers": separation.get("minimum_scorers", 1),
            "scorer_must_not_be_author": separation.get("scorer_must_not_be_author", True),
            "timeout_seconds": programme[step_id].get("timeout_seconds"),
        }
        yield from differs(f"hitl_opened {step_id}", expected, opened[step_id])
        given = [(identity(line["scorer"]), line["episode_id"]) for line in lines]
        # One voice each, under every spelling of a name: who rates twice would weigh double.
        if len(set(given)) != len(given):
            yield f"{step_id}: a second score of one person for an item"


def problems_of_ratings(evidence: Evidence) -> Problems:
    """Yield where an entry stands outside of its step's rating, or behind the end of its time."""
    opened: Document = {}
    for entry in evidence.trail:
        event, detail = entry["event_type"], entry["detail"]
        if event == "hitl_opened":
            opened = entry
        elif event in {"human_score", "human_score_refused"}:
            step = evidence.rubrics[opened["detail"]["step_id"]]
            of_event = problems_of_score if event == "human_score" else problems_of_refusal
            yield from of_event(evidence, step, detail)
            if event == "human_score" and is_over(opened, entry):
                yield f"human_score: a score for {step['step_id']} behind the end of its time"
        elif event.startswith("step_"):
            limit = opened["detail"]["timeout_seconds"] if opened else None
            if event == "step_failed" and limit is not None and not is_over(opened, entry):
                yield f"step_failed: {detail['step_id']}, and its time was not over"
            opened = {}


def is_over(opened: Document, entry: Document) -> bool:
    """Return whether an entry is later than the time limit of a rating."""
    limit = opened["detail"]["timeout_seconds"]
    waited = parsed_time(entry["at"]) - parsed_time(opened["at"])
    return limit is not None and waited.total_seconds() >= limit


def problems_of_score(evidence: Evidence, step: Document, detail: Document) -> Problems:
    """Yield where a person gave what the committed step does not take."""
    if not has_form(detail, HUMAN_SCORE) or detail["step_id"] != step["step_id"]:
        yield "human_score: another form, or another step than the one that is open"
        return
    name = detail["scorer"]
    if not identity(name) or name != normalised(name):
        yield f"human_score: expected a name, trimmed and in NFC, got {name!r:.60}"
    if is_barred(evidence, step, name):
        yield f"human_score: a score of {name!r:.60}, who may not score"
    if detail["episode_id"] not in evidence.drawn_items(step):
        yield f"human_score: a score for no item, {detail['episode_id']!r:.60}"
    if not is_on_scale(step, detail["score"]):
        yield "human_score: a score that is not on the scale"


def problems_of_refusal(evidence: Evidence, step: Document, detail: Document) -> Problems:
    """Yield where a refused score has no known code, or one that the rest of it denies."""
    if not has_form(detail, REFUSED_SCORE):
        yield "human_score_refused: another form"
        return
    code, score = detail["code"], detail["score"]
    number = not isinstance(score, str)
    # An issuer who may refuse for nothing picks the scores that count.
    denied = {
        "score-off-scale": not number or is_on_scale(step, score),
        "score-not-a-number": number,
        "scorer-is-author": not is_barred(evidence, step, detail["scorer"]),
    }
    if code not in REFUSALS or denied.get(code, False):
        yield f"human_score_refused: the rest denies {code!r:.60}, or there is no such code"


def is_barred(evidence: Evidence, step: Document, name: str) -> bool:
    """Return whether a name is that of an author, and the step takes no score of one."""
    authors = [(evidence.template.get("metadata") or {}).get("author")]
    authors += (evidence.activated.get("authors") or {}).values()
    barred = {identity(author) for author in authors if isinstance(author, str)}
    separate = (step.get("identity_separation") or {}).get("scorer_must_not_be_author", True)
    return separate and identity(name) in barred


def is_on_scale(step: Document, score: float) -> bool:
    """Return whether a number lies between the ends of the committed scale."""
    low, high = (exact(step["scoring_scale"][end]) for end in ("min", "max"))
    return low <= exact(score) <= high


def check_aggregate(evidence: Evidence) -> Problems:
    """Check that the aggregate is what the lines make; bounds of intervals lie within 2e-6."""
    stated = {name: value for name, value in evidence.aggregate.items() if name != "results_hash"}
    expected = dict(evidence.recomputed)
    near = {}
    for name, interval in expected["score_intervals"].items():
        other = stated["score_intervals"][name]
        close = all(
            type(other[end]) in {int, float}
            and interval[end] is not None
            and abs(interval[end] - other[end]) <= TOLERANCE
            for end in ("low", "high")
        )
        near[name] = interval | ({end: other[end] for end in ("low", "high")} if close else {})
    yield from differs("aggregate.json", expected | {"score_intervals": near}, stated)


def check_results_hash(evidence: Evidence) -> Problems:
    """Check that aggregate and certificate name the SHA-256 of the score files."""
    left_out = {"results_hash", "score_intervals"}
    kept = {name: value for name, value in evidence.aggregate.items() if name not in left_out}
    expected = sha256(evidence.raw("scores/per_episode.jsonl") + canonical(kept))
    yield from differs("aggregate.json/results_hash", expected, evidence.aggregate["results_hash"])


def check_resolution(evidence: Evidence) -> Problems:
    """Check that each step of the committed programme is there with its result."""
    resolution = evidence.resolution
    programme = evidence.template["resolution_programme"]
    steps = resolution["steps"]
    frame = {
        "status": "completed",
        "steps": [
            {
                "step_id": step["step_id"],
                "type": step["type"],
                "status": done["status"],
                "result": done["result"],
            }
            for step, done in zip(programme, steps, strict=True)
        ],
    }
    yield from differs("resolution.json", frame, resolution)
    expected = [event for done in steps for event in events_of(done)]
    recorded = [
        [entry["event_type"], entry["detail"]]
        for entry in evidence.trail
        if entry["event_type"] in STEP and not entry["event_type"].startswith("human_")
    ]
    recorded = [[event, d["step_id"] if event == "hitl_opened" else d] for event, d in recorded]
    yield from differs("audit_trail.jsonl, steps", expected, recorded)
    skipped_to: str | None = None
    for step, done in zip(programme, steps, strict=True):
        if step["type"] != "construct_invocation":
            if skipped_to == step["step_id"]:
                skipped_to = None
            if (done["status"] == "skipped") != (skipped_to is not None):
                yield f"{step['step_id']}: skipped, or not, against what failed before it"
            if done["status"] not in {"completed", "failed", "skipped"}:
                yield f"{step['step_id']}: expected a status, got {done['status']!r:.40}"
            if done["status"] == "failed":
                skipped_to = step.get("escalation_path")
                yield from problems_of_failure(evidence, step, done["result"])
        elif done["status"] != "completed":
            yield f"{step['step_id']}: expected completed, got {done['status']!r:.40}"
        yield from problems_of_step(evidence, step, done)
    if skipped_to is not None:
        yield "resolution.json: an escalation that leads nowhere"


def events_of(done: Document) -> list[list[Any]]:
    """Return the entries that the trail must have for a step, without people's scores."""
    if done["type"] == "construct_invocation":
        return []
    recorded: list[list[Any]] = [[f"step_{done['status']}", done]]
    if done["type"] == "hitl_rubric" and done["status"] != "skipped":
        recorded.insert(0, ["hitl_opened", done["step_id"]])
    if done["status"] == "failed":
        escalated = {"step_id": done["step_id"], "to": done["result"]["escalated_to"]}
        recorded.append(["escalated", escalated])
    return recorded


def problems_of_failure(evidence: Evidence, step: Document, result: Document) -> Problems:
    """Yield where a step cannot have failed, or not as it says; no computation is run here."""
    name, path = step["step_id"], step.get("escalation_path")
    if path in {None, "FAIL"}:
        yield f"{name}: failed, and no step was committed to go on with"
    expected = {"reason": result["reason"], "error_detail": result["error_detail"]}
    if step["type"] == "hitl_rubric":
        entry = evidence.rubrics[name]
        minimum = (entry.get("identity_separation") or {}).get("minimum_scorers", 1)
        items = evidence.drawn_items(entry)
        given = rated(entry, items, evidence.values(f"hitl/{name}.jsonl"))
        counting, limit = given.scorers, step.get("timeout_seconds")
        # A rating that went badly must not be given up for one that is not asked.
        if counting >= minimum or limit is None:
            yield f"{name}: failed, and enough people had scored, or no time was set"
        detail = (
            f"expected {minimum} people with a score for each of {len(items)} items within "
            f"{canonical(limit).decode()} s, got {counting}"
        )
        expected = {"reason": "hitl-timeout", "error_detail": detail}
    elif step["type"] != "deterministic_computation":
        yield f"{name}: a step of this type cannot fail"
    elif (
        result["reason"] not in FAILED_COMPUTATIONS
        or not isinstance(result["error_detail"], str)
        or (result["reason"] == MISFIT and not step.get("output_spec"))
    ):
        yield f"{name}: expected a reason for which it can fail, got {result['reason']!r:.60}"
    yield from differs(name, expected | {"escalated_to": path}, result)


def problems_of_step(evidence: Evidence, step: Document, done: Document) -> Problems:
    """Yield where the result of a step does not follow from the rest of the bundle."""
    name, result = step["step_id"], done["result"]
    if done["status"] == "skipped":
        yield from differs(name, {}, result)
    elif done["status"] == "completed" and step["type"] == "construct_invocation":
        counted = len(evidence.recorded)
        recorded: Document = {
            "episodes_recorded": counted,
            "episodes_discarded": len(evidence.records) - counted,
        }
        yield from differs(name, recorded, result)
    elif done["status"] == "completed" and step["type"] == "aggregation":
        yield from differs(name, {"results_hash": evidence.aggregate["results_hash"]}, result)
    elif done["status"] == "completed" and step["type"] == "hitl_rubric":
        entry = evidence.rubrics[name]
        rating = evidence.ratings[name]
        expected: Document = {
            "items": len(evidence.drawn_items(entry)),
            "scorers": rating.scorers,
            "human_mean": published(rating.mean),
        }
        yield from differs(name, expected, result)
        minimum = (entry.get("identity_separation") or {}).get("minimum_scorers", 1)
        if rating.scorers < minimum:
            yield f"{name}: completed with fewer people than were committed"
    elif done["status"] == "completed":
        spec, versions = step["input_spec"], evidence.activated["computations"]
        computation = f"{spec['computation']}@{versions.get(spec['computation'])}"
        expected = {
            "computation": computation,
            "over": spec.get("over", "episodes"),
            "output": result["output"],
        }
        yield from differs(name, expected, result)
        evidence.notes.append(f"resolution: the output of {name} is as the bundle has it")


def check_data_audit(evidence: Evidence) -> Problems:
    """Check that distinct inputs, leaks and expectations are counted right."""
    audit, _ = evidence.counted
    yield from differs("data_audit.json", audit.document(), evidence.data_audit)


AS_SCORED: Final = (
    "baselines: what trivial answers score is as the bundle has it, and what the construct's own "
    "score for other questions"
)
AS_PLAYED: Final = (
    f"{AS_SCORED}, and so is what becomes of their episodes: no runner is in this file"
)


def check_baselines(evidence: Evidence) -> Problems:
    """Check the form of the baselines: which criteria have them and why not, of how many episodes.

    What they score only a scorer can say.
    """
    stated, ids = evidence.baselines, evidence.results[0].plan.ids
    criteria = stated["criteria"]
    draw = evidence.counted[1]
    yield from differs("baselines.json/episodes", len(draw.drawn), stated["episodes"])
    yield from differs("baselines.json/criteria", sorted(ids), sorted(criteria))
    yield from differs("baselines.json", ["criteria", "episodes"], sorted(stated))
    form = sorted(["not_applicable", *BASELINES])
    played = not evidence.committed.single_call
    reasons = {one["not_applicable"] for one in criteria.values()}
    # Whether a runner plays to an end only a runner can say: of no criterion, or of all alike.
    unplayable = played and "unplayable" in reasons and None not in reasons
    for name, one in criteria.items():
        where, drawn = f"baselines.json/criteria/{name}", len(draw.of(name))
        yield from differs(where, form, sorted(one))
        reason = evidence.no_baselines(name) or ("unplayable" if unplayable else None)
        if one["not_applicable"] != "judged":
            yield from differs(f"{where}/not_applicable", reason, one["not_applicable"])
        for baseline in BASELINES:
            yield from problems_of_baseline(f"{where}/{baseline}", one, baseline, drawn)
    evidence.notes.append(AS_PLAYED if played else AS_SCORED)


def problems_of_baseline(where: str, one: Document, baseline: str, drawn: int) -> Problems:
    """Yield where a baseline's score could be no mean of so many episodes."""
    scored = one[baseline]
    if scored is None:
        return
    if one["not_applicable"] is not None:
        yield f"{where}: a score where there is none"
    yield from differs(where, ["interval", "n", "score"], sorted(scored))
    number, score, interval = scored["n"], scored["score"], scored["interval"]
    yield from differs(f"{where}/interval", INTERVAL, sorted(interval))
    ends = [interval["low"], interval["high"]]
    is_mean = type(number) is int and 0 < number <= drawn and type(score) is not bool
    if not is_mean or not 0 <= score <= 1:
        yield f"{where}: no mean of up to {drawn} episodes"
    elif interval["method"] == "wilson":
        right = round(score * number)
        low, high = wilson(right, number)
        expected = {"method": "wilson", "level": 0.95, "low": low, "high": high}
        yield from differs(where, [published(Fraction(right, number)), expected], [score, interval])
    elif interval["method"] not in METHODS or interval["level"] != 0.95:  # noqa: PLR2004 - docs/contract/scoring.md
        yield f"{where}: another method than there are"
    elif interval["method"] == "undefined":
        yield from differs(f"{where}/interval", [None, None], ends)
    elif bool in {type(end) for end in ends} or not 0 <= ends[0] <= ends[1] <= 1:
        yield f"{where}: expected bounds 0 ≤ low ≤ high ≤ 1"


INTERVAL: Final = ["high", "level", "low", "method"]
METHODS: Final = {"undefined", "bca", "cluster_bca", "cluster_clt"}
FAILED_COMPUTATIONS: Final = {"computation-raised", "output-not-json", MISFIT}
"""Why a computation can fail its step."""


def check_tier(evidence: Evidence) -> Problems:
    """Check that tier, unmet requirements and expiry follow from the evidence."""
    stated = evidence.document("tier.json")
    theatre_id, moment = evidence.receipt["theatre_id"], evidence.trail[-1]["at"]
    for wanted, found in problems_of_history(stated["history"], theatre_id, moment):
        yield f"tier.json/history: expected {wanted}, got {found:.60}"
    template, pins = evidence.template, evidence.template["version_pins"]
    tally, under_test = evidence.results[0], evidence.config["construct_under_test"]
    adapters = [asked.adapters for asked in evidence.recorded]
    version = pins["constructs"].get(under_test)
    named = {
        "construct_version": version,
        "dataset_hash": template["dataset_hashes"].get(evidence.config["replay_dataset_id"]),
        "scorer_version": pins.get("scorer_version"),
    }
    audit = evidence.counted[0].document()
    adapter = next((a[under_test] for a in reversed(adapters) if under_test in a), "")
    facts = tally.counted_facts() | {
        "construct_id": under_test,
        "construct_version": version,
        "adapter_pin": adapter,
        "rehearsal": any(pin.startswith("mock@") for a in adapters for pin in a.values()),
        "distinct_inputs": audit["distinct_scored_inputs"],
        "criterion_distinct_inputs": {
            name: one["distinct_inputs"] for name, one in audit["criteria"].items()
        },
        "unqualified_measures": unqualified_measures(
            template,
            evidence.receipt["scorer_kinds"],
            evidence.receipt["scorer_pins"],
            evidence.qualifications,
            evidence.controls,
        ),
        "missing_pins": [name for name, pin in named.items() if not pin],
        "version_mismatches": sum(asked.mismatches for asked in evidence.recorded),
        "determinism_differences": evidence.differences,
        "scorers_committed": bool((template.get("scoring") or {}).get("criteria_scorers")),
        "bundle_complete": evidence.required <= set(evidence.paths),
        "commitment_verifiable": evidence.receipt["commitment_hash"] == evidence.commitment_hash,
        "extra_caps": extra_caps(evidence, adapter),
    }
    # From the facts that were counted here: a tier that is only stated is not earned.
    assessment = tier(facts, stated["history"], resolved_at=moment)
    expected = {"facts": facts, "history": stated["history"], "assessment": assessment}
    yield from differs("tier.json", expected, stated)


def extra_caps(evidence: Evidence, adapter: str) -> list[str]:
    """Return the codes of what is found with the evidence and caps the tier."""
    closed = isolation(evidence)
    found = {
        "episodes-not-run": evidence.results[0].outcomes["not_run"] > 0,
        "gold-unpinned": evidence.gold_is_unpinned(),
        "episodes-withheld": "withheld" in evidence.config,
        "version-unreported": adapter.startswith("plain_"),
        "reproduction": evidence.reproduction is not None,
        "construct-not-isolated": not (closed["files"] and closed["processes"]),
    }
    people = {
        f"human-part-missing:{one['criterion_id']}"
        for one in (evidence.human_scores or {}).values()
        if one["share"] is not None and one["human"] is None
    }
    caps = [code for code, there in found.items() if there]
    caps += evidence.results[0].plan.template_caps() + sorted(people)
    return caps + sorted(f"step-{end}:{name}" for name, end, guards in missed(evidence) if guards)


def missed(evidence: Evidence) -> Iterator[tuple[str, str, bool]]:
    """Yield each step that failed or was skipped: its id, which, and if it guards integrity.

    A `provenance_chain` that found its log not intact counts as failed.
    """
    steps = evidence.resolution["steps"]
    for step, done in zip(evidence.template["resolution_programme"], steps, strict=True):
        computes = step["type"] == "deterministic_computation"
        walks = (step.get("input_spec") or {}).get("computation") == "provenance_chain"
        ended = done["status"]
        if computes and walks and ended == "completed":
            ended = ended if done["result"]["output"].get("intact") is True else "failed"
        if ended != "completed":
            yield step["step_id"], ended, computes and bool(step.get("output_spec") or walks)


def findings(evidence: Evidence) -> list[str]:
    """Return what a reader must know and no tier rule looks at."""
    activated, source = evidence.activated, evidence.version_source
    found = [] if source == "computed" else [f"version-{source}"]
    found += [f"harness:{name}"] if (name := evidence.config.get("harness")) else []
    found += [] if isolation(evidence)["network"] else ["network-open"]
    began, before = activated["environment"], activated["previous_environment"]
    if began != evidence.receipt["environment"] or before not in (None, began):
        found.append("environment-changed")
    found += [
        f"step-failed:{name}"
        for name, end, guards in missed(evidence)
        if end == "failed" and not guards
    ]
    for step in evidence.resolution["steps"]:
        output = step["result"].get("output")
        if step["type"] == "deterministic_computation" and isinstance(output, dict):
            codes = output.get("findings")
            codes = codes if isinstance(codes, list) else []
            found += [one for one in codes if isinstance(one, str) and one.startswith("controls-")]
    found += evidence.measure_findings
    found += evidence_findings(
        evidence.template,
        evidence.data_audit,
        evidence.baselines,
        evidence.aggregate,
        evidence.differences,
    )
    # What answers score for other questions only a scorer can say: as the certificate has it.
    apart = {name for name in evidence.aggregate["scores"] if f"{MEETS}:{name}" not in found}
    stated = [
        name for name in apart if f"{INTERCHANGEABLE}:{name}" in evidence.certificate["findings"]
    ]
    # Two ratings of one criterion are a finding each, and one code.
    return sorted({*found, *(f"{INTERCHANGEABLE}:{name}" for name in stated)})


def check_certificate_fields(evidence: Evidence) -> Problems:
    """Check that each field of the certificate follows from the evidence, and none is added."""
    if evidence.reproduction is not None:
        yield from problems_of_reproduction(evidence, evidence.reproduction)
        return
    template, aggregate, receipt = evidence.template, evidence.aggregate, evidence.receipt
    pins, sealed = template["version_pins"], evidence.details("sealed")[0]
    hashes = template["dataset_hashes"]
    assessment = evidence.document("tier.json")["assessment"]
    calibration = aggregate["calibration"] or {}
    chain = evidence.config.get("construct_chain")
    same = (
        "scores",
        "composite_score",
        "score_intervals",
        "score_counts",
        "holdout_scores",
        "episode_counts",
        "coverage",
        "refusal_rate",
        "results_hash",
    )
    expected = {
        "schema_version": "1.2.0",
        "certificate_id": sealed["certificate_id"],
        "theatre_id": receipt["theatre_id"],
        "template_id": template["theatre_id"],
        "construct_id": evidence.config["construct_under_test"],
        "execution_path": template["execution_path"],
        "ground_truth_source": evidence.config["ground_truth_source"],
        "issuer": sealed["issuer"],
        "criteria": {"criteria_human": "", "weights": {}} | template["criteria"],
        **{name: aggregate[name] for name in same},
        **{
            name: aggregate["scores"].get(name)
            for name in ("precision", "recall", "reply_accuracy")
        },
        "brier_score": calibration.get("brier_score"),
        "ece": (calibration.get("ece") or {}).get("value"),
        "replay_count": aggregate["episode_counts"]["scored"],
        "commitment_hash": evidence.commitment_hash,
        "coin_sha256": evidence.coin_sha256,
        "episode_root": evidence.episode_root,
        "evidence_bundle_hash": sha256(evidence.raw("SHA256SUMS")),
        "audit_head": evidence.trail[-1]["entry_hash"],
        "dataset_hash": hashes.get(evidence.config["replay_dataset_id"]),
        "ground_truth_hash": sha256(canonical(hashes)),
        "construct_version": pins["constructs"][evidence.config["construct_under_test"]],
        "version_source": evidence.version_source,
        "construct_chain_versions": {one: pins["constructs"][one] for one in chain}
        if chain
        else None,
        "environment": receipt["environment"],
        "isolation": isolation(evidence),
        "scorer_version": pins["scorer_version"],
        "methodology_version": pins.get("methodology_version", "1.0.0"),
        "verification_tier": assessment["tier"],
        "caps": assessment["caps"],
        "findings": findings(evidence),
        "data_audit": evidence.data_audit,
        "baselines": evidence.baselines,
        "expires_at": assessment["expires_at"],
        "issued_at": evidence.trail[-1]["at"],
        "theatre_committed_at": receipt["committed_at"],
        "theatre_resolved_at": evidence.trail[-1]["at"],
        "usage": evidence.usage,
        "repeats": both_estimands(aggregate),
        **evidence.measures,
        **dict.fromkeys(RESERVED),
    }
    # Every member, and none more: what is not computed again must not be on a certificate.
    yield from differs("certificate.json", expected, evidence.certificate)


def problems_of_reproduction(evidence: Evidence, stated: Document) -> Problems:
    """Yield where a reproduction says more than whose run it is, and its result."""
    environment = evidence.receipt["environment"] or {}
    expected = {
        "reproduces": evidence.receipt["reproduces"],
        "coin_sha256": sha256(evidence.coin),
        "results_hash": evidence.aggregate["results_hash"],
        "environment_hash": environment.get("environment_hash"),
    }
    yield from differs("reproduction.json", expected, stated)


CHECKS: Final[dict[str, Callable[[Evidence], Problems]]] = {
    "inventory": check_inventory,
    "sums": check_sums,
    "canonical-form": check_canonical_form,
    "bundle-hash": check_bundle_hash,
    "manifest": check_manifest,
    "certificate-copy": check_certificate_copy,
    "template": check_template,
    "commitment": check_commitment,
    "coin": check_coin,
    "datasets": check_datasets,
    "audit-chain": check_audit_chain,
    "audit-episodes": check_audit_episodes,
    "times": check_times,
    "invocations": check_invocations,
    "version-pins": check_version_pins,
    "outcomes": check_outcomes,
    "scores": check_scores,
    "human-scores": check_human_scores,
    "aggregate": check_aggregate,
    "results-hash": check_results_hash,
    "data-audit": check_data_audit,
    "baselines": check_baselines,
    "resolution": check_resolution,
    "tier": check_tier,
    "certificate-fields": check_certificate_fields,
}
"""Id, as `echelon check` has it → the check."""


PUBLISHED: Final[dict[str, Callable[[PublishedEvidence], Problems]]] = {
    "inventory": published_inventory,
    "sums": published_sums,
    "canonical-form": check_canonical_form,
    "bundle-hash": check_bundle_hash,
    "manifest": check_manifest,
    "certificate-copy": check_certificate_copy,
    "template": check_template,
    "commitment": check_commitment,
    "audit-chain": check_audit_chain,
    "scores": published_scores,
    "aggregate": published_aggregate,
    "results-hash": check_results_hash,
    "tier": published_tier,
    "certificate-fields": check_certificate_fields,
}
"""The same of a bundle without what its template withholds."""


class Verdict(NamedTuple):
    """The result of a bundle: the problems of each check, and what is accepted unchecked.

    `signed` says in words which key that the reader trusts signed, if one did; `logged`, whether a
    log that he trusts has commitment and certificate; `outside`, what the tier rests on that no
    bundle can show.
    """

    problems: dict[str, list[str]]
    proofs: list[ProofLine]
    notes: list[str]
    kept: bool
    signed: str | None
    logged: bool
    outside: str | None
    not_made: Mapping[str, str]

    @property
    def failed(self) -> int:
        """Return how many checks failed."""
        proofs = sum(line.ok is False for line in self.proofs)
        return proofs + sum(map(bool, self.problems.values()))

    @property
    def word(self) -> str:
        """Return the one word, from `not valid` to `valid, logged` (docs/contract/trust.md §1)."""
        if self.failed:
            return "not valid"
        if self.outside is not None or not (self.kept or self.signed):
            return "consistent"
        return "valid, logged" if self.signed and self.logged else "valid"

    @property
    def because(self) -> str:
        """Return why it is neither a lesser nor a greater word."""
        if self.failed:
            return f"{self.failed} failed"
        if self.word == "consistent":
            return self.outside or "no one vouches for it"
        kept = "equal to the certificate you gave" if self.kept else None
        return ", ".join(filter(None, (kept, self.signed)))

    def document(self) -> Document:
        """Return the form that tools read."""
        made = [
            {"id": name, "ok": not found, "problems": found}
            for name, found in self.problems.items()
        ]
        proofs = [{"id": line.id, "ok": line.ok, "actual": line.text} for line in self.proofs]
        return {
            "verdict": self.word,
            "valid": self.word in {"valid", "valid, logged"},
            "checks": made + proofs,
            "not_made": self.not_made,
            "notes": self.notes,
        }


def verify(
    folder: Path, *, now: datetime, kept: bytes | None = None, reader: Reader | None = None
) -> Verdict:
    """Check the bundle in `folder`, against the certificate that the reader kept, if any.

    `reader` says whose keys and which log its proofs are held to.
    """
    evidence = Evidence(folder=folder, now=now, kept=kept)
    checks: dict[str, Callable[[], Problems]] = {
        name: partial(check, evidence) for name, check in CHECKS.items()
    }
    shown = None
    if (folder / EPISODES).is_file():
        shown = PublishedEvidence(folder=folder, now=now, kept=kept)
        checks = {name: partial(check, shown) for name, check in PUBLISHED.items()}
    problems: dict[str, list[str]] = {}
    for name, check in checks.items():
        found: list[str] = []
        try:
            found += check()
        except DefectError as error:
            found.append(str(error))
        except Exception as error:  # noqa: BLE001 - a document of another form can raise anything
            found.append(f"not of the expected form ({type(error).__name__}: {error!s:.80})")
        problems[name] = found
    if any(problems.values()):
        proofs, outside = unseen("the bundle does not hold"), None
    else:
        is_certified = evidence.reproduction is None
        why = "a reproduction certifies nothing"
        proofs = proofs_of(shown or evidence, reader) if is_certified else unseen(why)
        outside = history_alone(evidence) if shown is None else shown.outside
    signed = reader is not None and signing_is_trusted(proofs)
    return Verdict(
        problems=problems,
        proofs=proofs,
        notes=sorted(set(evidence.notes)),
        kept=kept is not None,
        signed=reader.words if reader is not None and signed else None,
        logged=log_is_trusted(proofs),
        outside=outside,
        not_made=NOT_MADE if shown is None else NOT_MADE | WITHHELD,
    )


def history_alone(evidence: Evidence) -> str | None:
    """Return what a tier rests on that is its issuer's word, if anything."""
    stated = evidence.document("tier.json")
    said = stated["assessment"]["tier"]
    if stated["history"]["disputes"] or said == "PROVEN":
        return f"{said} by a history that only a log would settle"
    return None


def printed(verdict: Verdict) -> Iterator[str]:
    """Yield a line a check, what is wrong, what was not made, and the verdict."""
    for name, found in verdict.problems.items():
        yield f"{'FAIL' if found else 'PASS':8} {name}"
        for problem in found[:3]:
            yield f"{'':8}   {problem}"
        if len(found) > 3:  # noqa: PLR2004 - enough to see what is wrong
            yield f"{'':8}   and {len(found) - 3} more"
    for line in verdict.proofs:
        yield f"{WORDS[line.ok]:8} {line.id}"
        yield f"{'':8}   {line.text}"
    for name, why in verdict.not_made.items():
        yield f"NOT MADE {name}: {why}"
    yield from (f"NOTE     {note}" for note in verdict.notes)
    made = len(verdict.problems) + len(verdict.proofs)
    yield f"{verdict.word} ({verdict.because}): {made} checks"


WORDS: Final = {True: "PASS", False: "FAIL", None: "OPEN"}
"""How a check of the proofs ended; what is open was settled by nothing at hand."""
ENOUGH: Final = {"valid": {"valid", "valid, logged"}, "logged": {"valid, logged"}}
"""What is required → the words that are enough."""


def main(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(
        description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path, help="the folder of the bundle")
    parser.add_argument(
        "--certificate", type=Path, help="the certificate that you kept, outside the bundle"
    )
    parser.add_argument(
        "--trust", type=Path, help="the issuer's trust.json, as you got it from him"
    )
    parser.add_argument(
        "--policy", type=Path, help="your own policy of logs and witnesses, in place of its"
    )
    parser.add_argument("--require", choices=sorted(ENOUGH), help="exit code 9 for a lesser word")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    concluded = ("certificate.json", "reproduction.json")
    if not any((options.bundle / name).is_file() for name in concluded):
        sys.stderr.write("expected the folder of an evidence bundle, with a certificate.json\n")
        return 5
    kept = None
    if options.certificate is not None:
        outside = options.certificate
        # In this order: `resolve` raises for a loop of links.
        if not outside.is_file() or outside.resolve().is_relative_to(options.bundle.resolve()):
            parser.error("--certificate: expected a file outside the bundle")
        kept = outside.read_bytes()
    try:
        reader = named_reader(options, parser)
    except DefectError as error:
        sys.stderr.write(f"{error}\n")
        return 5
    verdict = verify(options.bundle, now=datetime.now(UTC), kept=kept, reader=reader)
    lines = [json.dumps(verdict.document(), indent=2)] if options.json else printed(verdict)
    for line in lines:
        # Names are a stranger's: none may forge a line or steer a terminal. JSON has escapes.
        text = line if options.json else "".join(c if c.isprintable() else "?" for c in line)
        sys.stdout.write(f"{text}\n".encode("ascii", "backslashreplace").decode())
    if verdict.word == "not valid":
        return 10
    required = options.require
    return 9 if required is not None and verdict.word not in ENOUGH[required] else 0


def named_reader(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Reader | None:
    """Return whom the reader trusts, by the files that he named."""
    files = [path for path in (options.trust, options.policy) if path is not None]
    if not all(path.is_file() for path in files) or (files and options.trust is None):
        parser.error("--trust, --policy: expected files, and no policy without a trust.json")
    if options.trust is None:
        return None
    policy = None if options.policy is None else options.policy.read_bytes()
    inside = options.trust.resolve().is_relative_to(options.bundle.resolve())
    return reader_of(options.trust.read_bytes(), policy, came_with_it=inside)


if __name__ == "__main__":
    sys.exit(main())
