"""No event can take back what an earlier one said, and no member of an attempt changes unseen."""

import copy
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.theatre.debate.debates import a_debate, as_bytes, attempt, changed, document
from tests.theatre.debate.test_validation import FULL, VALUES, pointers
from theatre.debate.errors import DebateLogError, InvalidDebateError
from theatre.debate.event_log import (
    ATTEMPT_APPENDED,
    DEBATE_CLOSED,
    DEBATE_OPENED,
    INTERVENTION_LOGGED,
    TURN_ACCEPTED,
    TURN_OPENED,
    DebateView,
    after_event,
    append,
    events_of,
    subject_of,
    view_of,
)
from theatre.debate.history import find_rewrites
from theatre.debate.runner import document_as_of
from theatre.debate.validation import read_debate
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject, canonical_bytes

AT = "2026-01-06T00:00:00Z"
HEADER = {name: value for name, value in a_debate().items() if name[0] not in "ti"}
OPENED = {"turn_id": "t0", "turn_index": 0, "speaker_id": "ann"}
SAID = {"content": "try 0", "recommendation": None}
FORGED = {"turn_id": "t9", "turn_index": 9, "speaker_id": "bo", "content": "I never said that."}


def events(*given: tuple[str, dict[str, Any]]) -> list[AuditEvent]:
    return [AuditEvent(event_type=kind, at=AT, detail=detail) for kind, detail in given]


def followed(log: list[AuditEvent]) -> list[DebateView]:
    """Return the view after each event that fits; one that does not is as if never sent."""
    views: list[DebateView] = []
    for seq, one in enumerate(log):
        entry: JsonObject = {"seq": seq, "event_type": one.event_type, "detail": {**one.detail}}
        try:
            views.append(after_event(views[-1] if views else None, entry))
        except DebateLogError:
            continue
    return views


OPEN = (DEBATE_OPENED, {"header": HEADER})
TURN = (TURN_OPENED, {"turn": OPENED})
TRIED = (ATTEMPT_APPENDED, {"turn_index": 0, "attempt": attempt(0)})


@pytest.mark.parametrize(
    ("before", "forged", "message"),
    [
        ([], (DEBATE_OPENED, {"header": {**HEADER, "turns": [FORGED]}}), "'turns' in a header"),
        ([], (DEBATE_OPENED, {"header": {**HEADER, "raudit": {}}}), "'raudit' in a header"),
        ([], (DEBATE_OPENED, {"header": {**HEADER, "intervention_log": [{}]}}), "interventions by"),
        ([OPEN], (TURN_OPENED, {"turn": FORGED}), "'content' of a turn that is being opened"),
        ([OPEN], (TURN_OPENED, {"turn": {**OPENED, "attempts": [{}]}}), "attempts by events"),
        (
            [OPEN, TURN, TRIED],
            (TURN_ACCEPTED, {"turn_index": 0, "turn": {**SAID, "attempts": [attempt(0)]}}),
            "'attempts' of a turn that is open",
        ),
        (
            [OPEN, TURN, TRIED],
            (TURN_ACCEPTED, {"turn_index": 0, "turn": {**SAID, "speaker_id": "bo"}}),
            "'speaker_id' of a turn that is open",
        ),
        (
            [OPEN, TURN, TRIED],
            (TURN_ACCEPTED, {"turn_index": 0, "turn": SAID}),
            "the recommendation of the last attempt",
        ),
        ([OPEN], (DEBATE_CLOSED, {"members": {"turns": [FORGED]}}), "'turns' at the end"),
        ([OPEN], (DEBATE_CLOSED, {"members": {"debate_id": "x"}}), "'debate_id' at the end"),
    ],
)
def test_an_event_that_would_stand_in_the_place_of_another_is_refused(
    before: list[tuple[str, dict[str, Any]]], forged: tuple[str, dict[str, Any]], message: str
) -> None:
    log: list[JsonObject] = []
    for one in events(*before, forged):
        log.append(append(log, one, subject="d/r"))
    assert len(followed(events(*before))) == len(before)
    with pytest.raises(DebateLogError, match=f"line {len(log)}: expected .*{message}"):
        view_of(log, subject="d/r")


MEMBERS = """turns attempts content recommendation rca_trace turn_id turn_index speaker_id
intervention_log raud_it raudit debate_id colour"""
ANY_MEMBERS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(MEMBERS.split()),
    st.sampled_from([None, 0, "try 1", "ann", [], [FORGED], {}]),
    max_size=3,
)
ANY_EVENT: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    st.builds(lambda more: (DEBATE_OPENED, {"header": {**HEADER, **more}}), ANY_MEMBERS),
    st.builds(lambda more: (TURN_OPENED, {"turn": {**OPENED, **more}}), ANY_MEMBERS),
    st.builds(
        lambda at, more: (ATTEMPT_APPENDED, {"turn_index": 0, "attempt": {**attempt(at), **more}}),
        st.integers(0, 2),
        ANY_MEMBERS,
    ),
    st.builds(
        lambda said, more: (TURN_ACCEPTED, {"turn_index": 0, "turn": {**said, **more}}),
        st.sampled_from([{}, SAID, {"content": "try 0"}, {"content": "try 1"}]),
        ANY_MEMBERS,
    ),
    st.just((INTERVENTION_LOGGED, {"intervention": {"turn_index": 0}})),
    st.builds(lambda more: (DEBATE_CLOSED, {"members": more}), ANY_MEMBERS),
)


@given(log=st.lists(ANY_EVENT, max_size=14))
@settings(max_examples=150, deadline=None)
def test_whatever_events_come_each_view_extends_the_one_before(
    log: list[tuple[str, dict[str, Any]]],
) -> None:
    views = [one.document() for one in followed(events(OPEN, TURN, TRIED, *log))]
    assert len(views) >= 3
    for old, new in pairwise(views):
        assert list(find_rewrites(old, new)) == []


@given(at=st.sampled_from(pointers(FULL)), value=VALUES)
@example(at="/intervention_log", value=None)
@example(at="/intervention_log", value=[])
@settings(max_examples=200, deadline=None)
def test_every_valid_artefact_is_the_view_of_its_events(at: str, value: object) -> None:
    data = as_bytes(changed(at, value, FULL))
    try:
        whole = read_debate(data).document
    except InvalidDebateError:
        return
    log: list[JsonObject] = []
    for one in events_of(whole, at=AT):
        log.append(append(log, one, subject=subject_of(whole)))
    seen = view_of(log, subject=subject_of(whole)).document()
    assert canonical_bytes(seen) == canonical_bytes(whole)


def test_a_run_is_shown_as_of_each_of_its_events() -> None:
    whole, log = document(FULL), list[JsonObject]()
    for one in events_of(whole, at=AT):
        log.append(append(log, one, subject=subject_of(whole)))
    shown = [document_as_of(log, last) for last in range(1, len(log) + 1)]
    views = [view_of(log[:last], subject=subject_of(whole)) for last in range(1, len(log) + 1)]
    assert shown == [canonical_bytes(view.document()) for view in views]
    assert len(set(shown)) >= 6  # of some events nothing is to be seen


def test_every_member_of_an_earlier_attempt_is_held_at_every_depth() -> None:
    """Changed, taken away, added to: the attempt is named, and it alone."""
    old = document(FULL)
    old["turns"][1]["attempts"][0] |= {
        "reasoning_trace": "Clip is small.",
        "attempt_metadata": {"tokens": 9},
        "unheard_of": [{"deep": [1, {"deeper": "x"}]}],
    }
    where = "/turns/1/attempts/0"
    inside = [one for one in pointers(old) if one.startswith(f"{where}/")]
    assert len(inside) > 40
    for pointer in inside:
        for value in ("another", 1.5, True, None, ...):
            new = changed(pointer, value, old)
            if canonical_bytes(document(new)) != canonical_bytes(old):
                found = [one.pointer for one in find_rewrites(old, document(new))]
                assert found == [where], (pointer, value)
    for pointer in [where, *inside]:
        try:
            new = changed(f"{pointer}/added", 1, old)
        except (TypeError, ValueError):  # no object
            continue
        assert [one.pointer for one in find_rewrites(old, document(new))] == [where]


def test_what_a_turn_said_without_attempts_is_its_one_attempt_and_stays() -> None:
    old = a_debate()
    new = copy.deepcopy(old)
    new["turns"][2] |= {"content": "try 0", "recommendation": None, "attempts": [attempt(0)]}
    assert [one.pointer for one in find_rewrites(document(old), document(new))] == [
        "/turns/2/attempts/0",
        "/turns/2/content",
    ]
