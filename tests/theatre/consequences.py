"""What else a forger writes who has changed one file of a bundle: all that is told of it elsewhere.

The chain and the hashes are made anew behind it (`forged_bundle.resealed`).
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from tests.theatre.forged_bundle import (
    Files,
    batch_reports,
    changed,
    document,
    lines,
    records_of,
    with_lines,
)
from tests.theatre.trail_edits import of, with_ratings, with_results
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.errors import ParseError

TRAIL = "audit_trail.jsonl"
CERTIFICATE = "certificate.json"
CHANGED = "environment-changed"
STEP_ENDS = {"completed": "step_completed", "failed": "step_failed", "skipped": "step_skipped"}


def told_anew(files: Files, group: str) -> Files:
    """Return the files with what follows from a changed one, where such a change can be told."""
    follow = CONSEQUENCES.get(group, dict)
    try:
        return follow(files)
    except (AttributeError, IndexError, KeyError, ParseError, StopIteration, TypeError, ValueError):
        return files


def with_batches(files: Files) -> Files:
    """Let the trail report the records as they are, in the batches that it has."""
    records = records_of(files)
    told: list[JsonObject] = []
    for entry in lines(files, TRAIL):
        if entry["event_type"] == "episodes_recorded":
            was = cast("Any", entry["detail"])
            named = [seq for first, last in was["seqs"] for seq in range(first, last + 1)]
            batch, *troubles = batch_reports({seq: records[seq] for seq in named if seq in records})
            if records.keys() >= set(named):
                # No record says what the journal was: its digest may stay.
                kept = {name: was[name] for name in ("seqs", "journal_sha256")}
                batch["detail"] = cast("JsonObject", batch["detail"]) | kept
            told += [entry | report for report in (batch, *troubles)]
        elif not str(entry["event_type"]).startswith("episode_"):
            told.append(entry)
    return with_lines(files, TRAIL, told)


def with_steps(files: Files) -> Files:
    """Let the trail tell the steps of `resolution.json`, in their order."""
    steps = iter(cast("list[JsonObject]", document(files, "resolution.json")["steps"]))
    told = lines(files, TRAIL)
    for entry in told:
        if entry["event_type"] in STEP_ENDS.values():
            step = next(one for one in steps if one["type"] != "construct_invocation")
            entry |= {"event_type": STEP_ENDS[cast("str", step["status"])], "detail": step}
    return with_lines(files, TRAIL, told)


def with_people(files: Files) -> Files:
    """Let people's scores, steps, results and findings be as the trail tells them."""
    return with_results(with_ratings(with_findings(files), lines(files, TRAIL)))


def with_findings(files: Files) -> Files:
    """Let the certificate say that the environment changed where trail and receipt say so."""
    activated = cast("JsonObject", of(lines(files, TRAIL), "activated")[0]["detail"])
    began, before = activated["environment"], activated["previous_environment"]
    is_changed = began != document(files, "commitment_receipt.json")["environment"]
    is_changed = is_changed or (before is not None and before != began)
    others = set(cast("list[str]", document(files, CERTIFICATE)["findings"])) - {CHANGED}
    findings: list[JsonValue] = [*sorted(others | ({CHANGED} if is_changed else set()))]
    return changed(files, CERTIFICATE, lambda whole: whole.update(findings=findings))


def with_tier(files: Files) -> Files:
    """Let the certificate show the tier that `tier.json` assigns."""
    assessment = cast("JsonObject", document(files, "tier.json")["assessment"])
    shown = {name: assessment[name] for name in ("caps", "expires_at")}
    shown["verification_tier"] = assessment["tier"]
    return changed(files, CERTIFICATE, lambda whole: whole.update(shown))


def with_receipt(files: Files) -> Files:
    """Let trail and certificate give the time and the environment that the receipt has."""
    receipt, told = document(files, "commitment_receipt.json"), lines(files, TRAIL)
    of(told, "committed")[0]["at"] = at = receipt["committed_at"]
    shown: JsonObject = {"theatre_committed_at": at, "environment": receipt["environment"]}
    forged = changed(files, CERTIFICATE, lambda whole: whole.update(shown))
    return with_findings(with_lines(forged, TRAIL, told))


def with_seal(files: Files) -> Files:
    """Let the trail seal what the certificate says of itself."""
    certificate, told = document(files, CERTIFICATE), lines(files, TRAIL)
    detail = cast("JsonObject", told[-1]["detail"])
    told[-1]["detail"] = {name: certificate[name] for name in detail}
    return with_lines(files, TRAIL, told)


def with_evidence(files: Files) -> Files:
    """Let tier and certificate say what the data audit and the baselines say."""
    audit = cast("dict[str, Any]", document(files, "scores/data_audit.json"))
    shown = {"data_audit": audit, "baselines": document(files, "scores/baselines.json")}
    forged = changed(files, CERTIFICATE, lambda whole: whole.update(shown))
    criteria = audit.get("criteria")
    if not isinstance(criteria, dict) or not all(isinstance(o, dict) for o in criteria.values()):
        return forged
    facts: JsonObject = {
        "distinct_inputs": audit.get("distinct_scored_inputs"),
        "criterion_distinct_inputs": {
            name: one.get("distinct_inputs") for name, one in criteria.items()
        },
    }
    return changed(
        forged, "tier.json", lambda whole: cast("JsonObject", whole["facts"]).update(facts)
    )


CONSEQUENCES: Mapping[str, Callable[[Files], Files]] = {
    TRAIL: with_people,
    CERTIFICATE: with_seal,
    "commitment_receipt.json": with_receipt,
    "invocations/*": with_batches,
    "resolution.json": with_steps,
    "scores/aggregate.json": with_results,
    "scores/baselines.json": with_evidence,
    "scores/data_audit.json": with_evidence,
    "scores/per_episode.jsonl": with_results,
    "tier.json": with_tier,
}
