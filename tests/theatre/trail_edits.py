"""Forgeries of what people gave or what came of it: edits of a trail, and all that follows.

An `Edit` takes the entries of `every_rating` and changes them in place.
"""

import hashlib
from collections.abc import Callable
from typing import Any, cast

from tests.theatre.every_rating import AUTHOR, BARBARA, EDSGER, GRACE, NIKLAUS
from tests.theatre.forged_bundle import Files, changed, document, lines, rechained, with_document
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_line

UNDRAWN = "pilot-14"
"""An answer that was scored and not drawn for the main rating."""

Entry = dict[str, Any]
Edit = Callable[[list[Entry]], None]


def with_results(files: Files) -> Files:
    """Return the files with everything made anew that follows from `scores/`: hash and copies.

    The trail is chained anew, the certificate shows what the aggregate says.
    """
    aggregate = document(files, "scores/aggregate.json")
    left_out = {"results_hash", "score_intervals"}
    hashed = {key: value for key, value in aggregate.items() if key not in left_out}
    raw = files["scores/per_episode.jsonl"] + canonical_bytes(hashed)
    results_hash = hashlib.sha256(raw).hexdigest()
    aggregate["results_hash"] = results_hash
    forged = with_document(files, "scores/aggregate.json", aggregate)
    certificate = document(files, "certificate.json")
    copied = {key: aggregate[key] for key in certificate.keys() & aggregate.keys()}
    forged = with_document(forged, "certificate.json", certificate | copied)

    def renew(steps: list[Any]) -> None:
        for step in steps:
            if "results_hash" in step.get("result", {}):
                step["result"]["results_hash"] = results_hash

    forged = changed(forged, "resolution.json", lambda whole: renew(cast("Any", whole["steps"])))
    entries = lines(forged, "audit_trail.jsonl")
    renew([entry["detail"] for entry in entries])
    return rechained(forged, entries)


def with_ratings(files: Files, entries: list[JsonObject]) -> Files:
    """Return the files with a trail of `entries`, and people's scores and steps as it tells them.

    So a forger who knows the format leaves no trace but in what the entries themselves say.
    """
    forged = {name: raw for name, raw in files.items() if not name.startswith("hitl/")}
    steps: dict[JsonValue, JsonValue] = {}
    for entry in entries:
        detail, event = cast("JsonObject", entry["detail"]), str(entry["event_type"])
        path = f"hitl/{detail.get('step_id')}.jsonl"
        if event == "hitl_opened":
            forged[path] = b""
        elif event == "human_score" and path in forged:
            line = {key: value for key, value in detail.items() if key != "step_id"}
            forged[path] += canonical_line(line | {"at": entry["at"]})
        elif event.startswith("step_"):
            steps[detail["step_id"]] = detail

    def retell(resolution: JsonObject) -> None:
        told = cast("list[Any]", resolution["steps"])
        resolution["steps"] = [steps.get(step["step_id"], step) for step in told]

    return rechained(changed(forged, "resolution.json", retell), entries)


def of(entries: list[Entry], event: str, **members: object) -> list[Entry]:
    """Return the entries of one kind whose details have these members."""
    return [
        entry
        for entry in entries
        if entry["event_type"] == event
        and all(entry["detail"].get(name) == value for name, value in members.items())
    ]


def in_taste(entries: list[Entry], scorer: str) -> list[Entry]:
    return of(entries, "human_score", step_id="taste", scorer=scorer)


def rescored(entries: list[Entry]) -> None:
    in_taste(entries, GRACE)[0]["detail"]["score"] = 5


def dropped(entries: list[Entry]) -> None:
    for entry in in_taste(entries, NIKLAUS):
        entries.remove(entry)


def one_dropped(entries: list[Entry]) -> None:
    entries.remove(in_taste(entries, NIKLAUS)[4])


def renamed(to: str) -> Edit:
    def rename(entries: list[Entry]) -> None:
        for entry in in_taste(entries, EDSGER):
            entry["detail"]["scorer"] = to

    return rename


def again(scorer: str) -> Edit:
    """Smuggle in a second score of somebody who has one for that item."""

    def smuggle(entries: list[Entry]) -> None:
        first = in_taste(entries, GRACE)[2]
        copy = first | {"detail": first["detail"] | {"scorer": scorer, "score": 5}}
        entries.insert(entries.index(in_taste(entries, NIKLAUS)[-1]) + 1, copy)

    return smuggle


def moved(entries: list[Entry]) -> None:
    """Tell a score behind the end of its step."""
    (entry,) = in_taste(entries, BARBARA)
    entries.remove(entry)
    entries.insert(entries.index(of(entries, "sealed")[0]), entry)


def scored_with(**members: object) -> Edit:
    def edit(entries: list[Entry]) -> None:
        in_taste(entries, BARBARA)[0]["detail"].update(members)

    return edit


def opened_with(**members: object) -> Edit:
    def edit(entries: list[Entry]) -> None:
        of(entries, "hitl_opened", step_id="taste")[0]["detail"].update(members)

    return edit


def swapped(entries: list[Entry]) -> None:
    """Let people have rated an answer that was not drawn."""
    items = of(entries, "hitl_opened", step_id="taste")[0]["detail"]["items"]
    assert UNDRAWN not in items
    old, items[-1] = items[-1], UNDRAWN
    for entry in of(entries, "human_score", step_id="taste", episode_id=old):
        entry["detail"]["episode_id"] = UNDRAWN


def reordered(entries: list[Entry]) -> None:
    of(entries, "hitl_opened", step_id="taste")[0]["detail"]["items"].reverse()


def refused_counted(entries: list[Entry]) -> None:
    """Let the score of 6 on a scale to 5 have been taken."""
    (refused,) = of(entries, "human_score_refused", code="score-off-scale")
    refused["event_type"] = "human_score"
    detail = refused["detail"]
    del detail["code"]
    refused["detail"] = detail | {"comment": None}


def author_counted(entries: list[Entry]) -> None:
    (refused,) = of(entries, "human_score_refused", scorer=AUTHOR)
    refused["event_type"] = "human_score"
    del refused["detail"]["code"]
    refused["detail"]["comment"] = None


def refused_as(code: str) -> Edit:
    """Suppress a score that could have counted, under a code that it does not deserve."""

    def suppress(entries: list[Entry]) -> None:
        entry = in_taste(entries, BARBARA)[0]
        entry["event_type"] = "human_score_refused"
        del entry["detail"]["comment"]
        entry["detail"]["code"] = code

    return suppress


def late(entries: list[Entry]) -> None:
    (entry,) = in_taste(entries, BARBARA)
    entry["at"] = "2026-11-21T13:02:45.000000Z"


def too_early(entries: list[Entry]) -> None:
    """Give a rating up before its time is over."""
    (entry,) = of(entries, "step_failed", step_id="late")
    (opened,) = of(entries, "hitl_opened", step_id="late")
    entry["at"] = opened["at"]


def unopened(entries: list[Entry]) -> None:
    (entry,) = of(entries, "hitl_opened", step_id="after")
    entries.remove(entry)
    entries.remove(of(entries, "human_score", step_id="after")[0])


def not_escalated(entries: list[Entry]) -> None:
    entries.remove(of(entries, "escalated", step_id="late")[0])


def escalated_elsewhere(entries: list[Entry]) -> None:
    of(entries, "escalated", step_id="provenance")[0]["detail"]["to"] = "taste"


def completed(entries: list[Entry]) -> None:
    """Let a step that failed have been completed, and nobody have been led on."""
    (entry,) = of(entries, "step_failed", step_id="late")
    entry["event_type"] = "step_completed"
    entry["detail"]["status"] = "completed"
    entry["detail"]["result"] = {"items": 2, "scorers": 2, "human_mean": 0.5}
    entries.remove(of(entries, "escalated", step_id="late")[0])


def not_skipped(entries: list[Entry]) -> None:
    entries.remove(of(entries, "step_skipped")[0])


def told_with(step_id: str, **members: object) -> Edit:
    def edit(entries: list[Entry]) -> None:
        for entry in entries:
            if entry["event_type"] in {"step_failed", "step_completed"} and (
                entry["detail"]["step_id"] == step_id
            ):
                entry["detail"]["result"].update(members)

    return edit
