"""History is only added to: what is rewritten is always found, what is added never blamed."""

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.debate.debates import (
    RUN_ID,
    a_debate,
    as_bytes,
    attempt,
    changed,
    document,
    found,
)
from tests.theatre.debate.test_validation import FULL, leaves, pointers
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from theatre.debate.errors import DebateLogError
from theatre.debate.event_log import append, events_of, subject_of, view_of
from theatre.debate.history import find_rewrites
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_line

AT = "2026-01-06T00:00:00Z"


def log_of(debate: dict[str, Any]) -> list[JsonObject]:
    entries: list[JsonObject] = []
    whole = document(debate)
    for event in events_of(whole, at=AT):
        entries.append(append(entries, event, subject=subject_of(whole)))
    return entries


def longer() -> dict[str, Any]:
    """The debate of two turns that grew: an attempt, a turn, an intervention, a result."""
    debate = a_debate(raud_it={"audit_strength": "neutral"})
    debate["turns"][1]["attempts"].append(attempt(2))
    debate["turns"][1] |= {"content": "try 2", "turn_metadata": {"late": True}}
    debate["intervention_log"].append(debate["intervention_log"][0])
    return debate


def shorter() -> dict[str, Any]:
    debate = a_debate()
    del debate["turns"][2]
    return debate


def test_both_versions_are_valid_and_the_second_extends_the_first() -> None:
    assert (found(shorter()), found(longer())) == ([], [])
    assert list(find_rewrites(document(shorter()), document(longer()))) == []
    assert list(find_rewrites(document(longer()), document(longer()))) == []


@given(at=st.sampled_from(leaves(a_debate())))
@settings(max_examples=80, deadline=None)
def test_whatever_changes_in_place_is_found(at: str) -> None:
    whole = a_debate()
    for value in ("another", 1.5):
        other = changed(at, value, whole)
        findings = list(find_rewrites(document(whole), document(other)))
        assert findings != [], at


def test_a_rewritten_turn_or_attempt_is_named() -> None:
    old = document(a_debate())
    case = document(changed("/turns/1/attempts/0/final_answer", "SELL"))
    (one,) = find_rewrites(old, case)
    assert (one.pointer, one.code) == ("/turns/1/attempts/0", "HISTORY_REWRITTEN")
    assert one.detail == "expected attempt 0 of turn 1 (t1) as before, got another"
    (one,) = find_rewrites(old, document(changed("/turns/0/content", "Prices fall.")))
    assert one.detail == "expected content of turn 0 (t0) as before, got another"


def test_removals_are_named() -> None:
    old = document(a_debate())
    (one,) = find_rewrites(old, document(shorter()))
    assert (one.pointer, one.detail) == ("/turns/2", "expected turn 2 (t2), got no turn there")
    gone = document(changed("/turns/1/attempts/1", ...))
    assert [one.pointer for one in find_rewrites(old, gone)] == ["/turns/1/attempts/1"]
    no_log = document(changed("/intervention_log", None))
    assert [one.pointer for one in find_rewrites(old, no_log)] == ["/intervention_log/0"]


def test_an_earlier_turn_gets_no_further_attempt_and_no_new_member() -> None:
    old = document(a_debate())
    late = a_debate()
    late["turns"][1]["attempts"].append(attempt(2))
    late["turns"][1]["content"] = "try 2"
    assert [one.pointer for one in find_rewrites(old, document(late))] == [
        "/turns/1/attempts/2",
        "/turns/1/content",
    ]
    assert [
        one.pointer for one in find_rewrites(old, document(changed("/turns/0/turn_type", "meta")))
    ] == ["/turns/0/turn_type"]


def test_true_is_no_1_in_history() -> None:
    old, new = document(a_debate(x=1)), document(a_debate(x=True))
    assert [one.pointer for one in find_rewrites(old, new)] == ["/x"]


@pytest.mark.parametrize("debate", [FULL, a_debate(), longer()], ids=["full", "plain", "longer"])
def test_the_artefact_is_the_view_of_its_log(debate: dict[str, Any]) -> None:
    entries = log_of(debate)
    whole = document(debate)
    seen = view_of(entries, subject=f"wool_prices/{RUN_ID}").document()
    assert canonical_bytes(seen) == canonical_bytes(whole)


def test_each_event_extends_the_artefact_as_of_the_one_before() -> None:
    entries = log_of(longer())
    subject = f"wool_prices/{RUN_ID}"
    views = [view_of(entries[:n], subject=subject).document() for n in range(1, len(entries) + 1)]
    for old, new in itertools.pairwise(views):
        assert list(find_rewrites(old, new)) == []


@given(line=st.integers(0, 9), data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_change_of_any_event_breaks_the_chain(line: int, data: st.DataObject) -> None:
    entries = copy.deepcopy(log_of(a_debate()))
    at = data.draw(st.sampled_from(pointers(entries[line])))
    entries[line] = changed(at, "changed", entries[line])
    with pytest.raises(DebateLogError, match=f"line {line + 1}|line {line + 2}"):
        view_of(entries, subject=f"wool_prices/{RUN_ID}")


def event(kind: str, **detail: JsonValue) -> AuditEvent:
    return AuditEvent(event_type=kind, at=AT, detail=detail)


OPEN = event("debate_opened", header={"debate_id": "d", "run_id": "r"})
TURN = event("turn_opened", turn={"turn_index": 0})


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "empty log"),
        ([TURN], "line 1: expected debate_opened first"),
        ([OPEN, OPEN], "line 2: expected an event of a debate"),
        ([OPEN, TURN, TURN], "expected the open turn to be accepted first"),
        ([OPEN, event("attempt_appended", turn_index=0, attempt={})], "expected turn_opened first"),
        ([OPEN, TURN, event("attempt_appended", turn_index=1, attempt={})], "expected turn 0"),
        (
            [OPEN, TURN, event("attempt_appended", turn_index=0, attempt={"attempt_index": 1})],
            "expected attempt 0 next, got 1",
        ),
        (
            [
                OPEN,
                TURN,
                event(
                    "attempt_appended", turn_index=0, attempt={"attempt_index": 0, "content": "a"}
                ),
                event("turn_accepted", turn_index=0, turn={"content": "b"}),
            ],
            "line 4: expected the content of the last attempt",
        ),
        ([OPEN, TURN, event("debate_closed", members={})], "got the end"),
        ([OPEN, event("debate_closed", members={}), TURN], "no event after debate_closed"),
        ([OPEN, event("turn_opened", turn=3)], "expected an object turn, got 3"),
    ],
)
def test_an_event_that_does_not_fit_is_refused_at_its_line(
    events: list[AuditEvent], message: str
) -> None:
    entries: list[JsonObject] = []
    for one in events:
        entries.append(append(entries, one, subject="d/r"))
    with pytest.raises(DebateLogError, match=message):
        view_of(entries, subject="d/r")


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def check(folder: Path, *arguments: str | Path) -> Answer:
    return forked("debate", *arguments, home=folder / "home")


def test_the_command_line_says_what_is_wrong_and_where(tmp_path: Path) -> None:
    good = written(tmp_path, "good.json", as_bytes(a_debate()))
    bad = written(tmp_path, "bad.json", as_bytes(changed("/turns/0/speaker_id", "cleo")))
    answer = check(tmp_path, "validate", good, bad, good, "--json")
    assert answer.code == 5
    assert [
        (one["valid"], [f["code"] for f in one["findings"]]) for one in answer.document["files"]
    ] == [(True, []), (False, ["E_SPEAKER_UNKNOWN"]), (False, ["E_DUPLICATE_RUN"])]
    assert check(tmp_path, "validate", good).stdout == f"{good}: valid\n"


def test_the_command_line_names_the_rewritten_attempt(tmp_path: Path) -> None:
    forged = changed("/turns/1/attempts/0/content", "I never said that.")
    old = written(tmp_path, "old.json", as_bytes(a_debate()))
    new = written(tmp_path, "new.json", as_bytes(forged))
    log = written(tmp_path, "log.jsonl", b"".join(map(canonical_line, log_of(a_debate()))))
    for against in (("--earlier", old), ("--log", log)):
        answer = check(tmp_path, "check", new, *against)
        assert answer.code == 10
        assert "expected attempt 0 of turn 1 (t1) as before, got another" in answer.stdout
        assert check(tmp_path, "check", old, *against).code == 0


def test_a_rewritten_attempt_is_named_though_the_forger_broke_a_rule_as_well(
    tmp_path: Path,
) -> None:
    old = written(tmp_path, "old.json", as_bytes(a_debate()))
    forged = changed("/turns/1/attempts/1/content", "I never said that.")
    answer = check(
        tmp_path, "check", written(tmp_path, "new.json", as_bytes(forged)), *("--earlier", old)
    )
    assert answer.code == 10
    assert "R10 E_ACCEPTED_ATTEMPT_MISMATCH at /turns/1/content" in answer.stdout
    assert "expected attempt 1 of turn 1 (t1) as before, got another" in answer.stdout
    shapeless = written(tmp_path, "bad.json", as_bytes(changed("/turns", 3)))
    assert check(tmp_path, "check", shapeless, "--earlier", old).code == 5
