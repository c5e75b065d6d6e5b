"""Debates over HTTP: taken in as they came, extended by events, never rewritten, evaluated."""

import json
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg import errors

from backend.database.sessions import APPLICATION, OWNER
from backend.main import create_app
from tests.backend.databases import Database
from tests.backend.serving import Client, Reply, at_once, served, settings_for
from tests.backend.test_theatre_routes import NOBODYS
from theatre.debate.evaluators import EVALUATORS, evaluate
from theatre.debate.event_log import events_of
from theatre.debate.history import find_rewrites
from theatre.debate.models import Action
from theatre.debate.validation import read_debate
from theatre.engine.audit_chain import verify_chain
from theatre.engine.canonical_json import (
    JsonObject,
    canonical_bytes,
    canonical_sha256,
    parse_object,
    sha256_hex,
)

CORPUS = Path(__file__).parents[2] / "fixtures" / "debates"
LOOP = (CORPUS / "handwritten" / "print_shop_loop.json").read_bytes()
TALK = (CORPUS / "handwritten" / "rye_or_wheat.json").read_bytes()
JSON = {"Content-Type": "application/json"}
AT = "2026-11-22T00:00:00Z"
NUMBERS = count()


@pytest.fixture
def ada(anybody: Client) -> Client:
    """A new user: no other test sees their debates."""
    return anybody.registered(f"ada{next(NUMBERS)}")


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[Client]:
    """A service of the test's own, where it looks at all rows."""
    with served(create_app(settings_for(database, tmp_path, worker_in_api=False))) as client:
        yield client


@pytest.fixture
def alone(client: Client) -> Client:
    return client.registered("ada")


def submitted(client: Client, data: bytes, *, goes_on: bool = False) -> Reply:
    query = "?goes_on=true" if goes_on else ""
    return client.ask("POST", f"/debates{query}", body=data, headers={**client.headers, **JSON})


def begun(data: bytes) -> bytes:
    """Return an artefact with its first turn alone."""
    document = parse_object(data)
    rest = ("intervention_log", "turns")
    turns = cast("list[JsonObject]", document["turns"])
    kept = {name: value for name, value in document.items() if name not in rest}
    return canonical_bytes({**kept, "turns": turns[:1]})


def later_events(data: bytes) -> list[dict[str, Any]]:
    """Return what the log of the whole has behind that of its first turn."""
    whole = list(events_of(parse_object(data), at="2026-11-22T00:00:00.000000Z"))
    first = list(events_of(parse_object(begun(data)), at="2026-11-22T00:00:00.000000Z"))[:-1]
    return [
        {"event_type": one.event_type, "detail": dict(one.detail)} for one in whole[len(first) :]
    ]


def append(client: Client, path: str, events: Sequence[object], **headers: str) -> Reply:
    return client.post(f"{path}/events", {"events": events}, headers=headers)


def artefact(client: Client, path: str, events: int | None = None) -> bytes:
    query = "" if events is None else f"?events={events}"
    reply = client.get(f"{path}/artefact{query}")
    assert reply.status == 200, reply
    assert reply.headers["etag"] == f'"{sha256_hex(reply.body)}"'
    return reply.body


def test_an_artefact_is_stored_and_served_as_it_came(ada: Client) -> None:
    made = submitted(ada, TALK)
    run = made.document
    path = f"/debates/{run['id']}"
    assert (made.status, made.headers["location"]) == (201, f"/api/v1{path}")
    assert artefact(ada, path) == TALK
    assert run["artefact_sha256"] == sha256_hex(TALK)
    document = parse_object(TALK)
    assert (run["debate_id"], run["run_id"]) == (document["debate_id"], document["run_id"])
    assert (run["turns"], run["is_closed"]) == (3, True)
    again = submitted(ada, TALK)
    assert (again.status, again.document) == (200, run)
    assert ada.get(path).document == run
    log = ada.get(f"{path}/events").document
    verify_chain(log["events"], theatre_id=f"{run['debate_id']}/{run['run_id']}")
    assert (log["total"], log["events"][-1]["entry_hash"]) == (run["events"], run["head_hash"])


def test_a_page_of_the_log_has_the_bytes_that_were_hashed(ada: Client) -> None:
    # In canonical form 0.0000001 is 1e-7, and "ö" is itself.
    metadata: JsonObject = {"created_at": AT, "ö": 1e-7}
    debate = canonical_bytes({**parse_object(TALK), "metadata": metadata})
    path = f"/debates/{submitted(ada, debate).document['id']}"
    first = ada.get(f"{path}/events?limit=1")
    assert '"ö":1e-7'.encode() in first.body
    entries, page = first.document["events"], first.document
    while page["next_cursor"] is not None:
        reply = ada.get(f"{path}/events?limit=1&cursor={page['next_cursor']}")
        page = reply.document
        assert all(canonical_bytes(entry) in reply.body for entry in page["events"])
        entries += page["events"]
    assert len(entries) == page["total"]
    verify_chain(entries, theatre_id=entries[0]["theatre_id"])


def test_another_artefact_under_the_same_ids_is_refused_to_its_user_alone(
    client: Client, alone: Client, database: Database
) -> None:
    assert submitted(alone, TALK).status == 201
    changed = TALK.replace(b'"content": "', b'"content": "Well. ', 1)
    refused = submitted(alone, changed)
    assert (refused.status, refused.slug) == (409, "debate-exists")
    bob = client.registered("bob")
    assert submitted(bob, changed).status == 201
    assert database.rows("SELECT count(*) FROM debate_runs") == [{"count": 2}]


def test_of_twenty_submissions_at_once_one_makes_the_run(alone: Client, database: Database) -> None:
    replies = at_once(20, lambda: submitted(alone, TALK))
    assert sorted(reply.status for reply in replies) == [200] * 19 + [201]
    assert len({reply.document["id"] for reply in replies}) == 1
    (row,) = database.rows("SELECT count(*) AS runs, max(events) AS events FROM debate_runs")
    assert row["runs"] == 1
    assert database.rows("SELECT count(*) FROM debate_events") == [{"count": row["events"]}]


@pytest.mark.parametrize(
    ("before", "after", "code", "pointer"),
    [
        (b'"schema_version": "2.0.0"', b'"schema_version": "1.0.0"', "E_SCHEMA_VERSION", "/schema"),
        (b'"turn_index": 0', b'"turn_index": 1', "E_", "/turns/"),
        (b'"conviction": 0.', b'"conviction": 7.', "E_SCHEMA", "/turns/"),
    ],
)
def test_what_is_no_artefact_is_refused_with_every_rule_and_without_its_values(
    alone: Client, database: Database, before: bytes, after: bytes, code: str, pointer: str
) -> None:
    assert before in TALK
    refused = submitted(alone, TALK.replace(before, after))
    assert (refused.status, refused.slug) == (422, "debate-invalid")
    found = refused.document["errors"]
    assert any(
        one["rule"].startswith(code) and one["pointer"].startswith(pointer) for one in found
    ), found
    assert "got" not in json.dumps(found)
    assert database.rows("SELECT count(*) FROM debate_runs") == [{"count": 0}]


@pytest.mark.parametrize("body", [b'{"a":1,"a":2}', b'{"a":NaN}', b"[]", b"", b"\xff"])
def test_bytes_that_are_not_strict_json_are_no_debate(ada: Client, body: bytes) -> None:
    refused = submitted(ada, body)
    assert (refused.status, refused.slug) == (400, "malformed-json")


def test_a_run_grows_event_by_event_and_every_version_of_it_stays(ada: Client) -> None:
    opened = submitted(ada, begun(LOOP), goes_on=True).document
    path, known = f"/debates/{opened['id']}", opened["events"]
    assert not opened["is_closed"]
    grown, versions = opened, [artefact(ada, path)]
    for event in later_events(LOOP):
        grown = append(ada, path, [event]).document
        versions.append(artefact(ada, path))
        assert grown["artefact_sha256"] == sha256_hex(versions[-1])
    assert parse_object(versions[-1]) == parse_object(LOOP)
    assert grown["is_closed"]
    for number, data in enumerate(versions):
        assert artefact(ada, path, known + number) == data
        read_debate(data)
    for old, new in pairwise(versions):
        assert list(find_rewrites(parse_object(old), parse_object(new))) == []
    log = ada.get(f"{path}/events").document["events"]
    verify_chain(log, theatre_id=f"{opened['debate_id']}/{opened['run_id']}")
    assert log[-1]["entry_hash"] == grown["head_hash"]
    refused = append(ada, path, later_events(LOOP)[:1])
    assert (refused.status, refused.slug) == (409, "debate-closed")
    assert ada.get(f"{path}/artefact?events={grown['events'] + 1}").status == 404


@pytest.mark.parametrize(
    "wrong",
    ["another turn", "a later attempt", "no event", "a bad turn", "another past", "an end of lies"],
)
def test_events_that_do_not_fit_are_refused_and_none_of_them_is_stored(
    alone: Client, database: Database, wrong: str
) -> None:
    path = f"/debates/{submitted(alone, begun(LOOP), goes_on=True).document['id']}"
    before = alone.get(path).document
    good, *_ = events = later_events(LOOP)
    opening = next(one for one in events if one["event_type"] == "turn_opened")
    turn = opening["detail"]["turn"]
    forged = {**turn, "content": "I never said that."}
    unfitting = {
        "another turn": {**opening, "detail": {"turn": {**turn, "turn_index": 7}}},
        "a later attempt": {
            "event_type": "attempt_appended",
            "detail": {"turn_index": turn["turn_index"], "attempt": {"attempt_index": 5}},
        },
        "no event": {"event_type": "turn_rewritten", "detail": {}},
        "a bad turn": {
            "event_type": "attempt_appended",
            "detail": {"turn_index": turn["turn_index"], "attempt": {"attempt_index": 0}},
        },
        "another past": {
            "event_type": "turn_accepted",
            "detail": {"turn_index": turn["turn_index"], "turn": {**forged, "attempts": []}},
        },
        "an end of lies": {
            "event_type": "debate_closed",
            "detail": {"members": {"debate_id": "another"}},
        },
    }
    fitting = events[:-1] if wrong == "an end of lies" else [good]
    refused = append(alone, path, [*fitting, unfitting[wrong]])
    assert (refused.status, refused.slug) == (422, "debate-invalid"), refused
    assert refused.document["errors"]
    assert alone.get(path).document == before
    assert database.rows("SELECT count(*) FROM debate_events") == [{"count": before["events"]}]


def test_of_twenty_appends_to_one_version_one_is_made(ada: Client) -> None:
    opened = submitted(ada, begun(LOOP), goes_on=True)
    path, event = f"/debates/{opened.document['id']}", later_events(LOOP)[0]
    etag = opened.headers["etag"]
    replies = at_once(20, lambda: append(ada, path, [event], **{"If-Match": etag}))
    assert sorted(reply.status for reply in replies) == [200] + [412] * 19
    assert ada.get(path).document["events"] == opened.document["events"] + 1


def test_a_run_that_goes_on_has_not_got_what_its_end_adds(ada: Client) -> None:
    document = {**parse_object(TALK), "raud_it": {}}
    refused = submitted(ada, canonical_bytes(document), goes_on=True)
    assert (refused.status, refused.slug) == (422, "debate-invalid")
    assert refused.document["errors"][0]["rule"] == "debate-log-invalid"


def test_evaluations_are_those_of_the_command_line_and_lie_beside_the_artefact(ada: Client) -> None:
    path = f"/debates/{submitted(ada, TALK).document['id']}"
    names = sorted(EVALUATORS)
    made = ada.post(f"{path}/evaluations", {"evaluators": names}).document["evaluations"]
    expected = evaluate(read_debate(TALK), names)
    assert [one["evaluation"] for one in made] == expected
    assert [one["sha256"] for one in made] == [canonical_sha256(one) for one in expected]
    assert {one["artefact_sha256"] for one in made} == {sha256_hex(TALK)}
    assert artefact(ada, path) == TALK
    kept = ada.get(f"{path}/evaluations").document["evaluations"]
    assert sorted(kept, key=lambda one: names.index(one["evaluator"])) == made
    again = ada.post(f"{path}/evaluations", {"evaluators": names[:1]}).document["evaluations"]
    assert again[0]["sha256"] == made[0]["sha256"]
    assert ada.get(f"{path}/evaluations").document["evaluations"] == kept


def test_an_evaluation_stays_that_of_the_artefact_it_was_made_of(ada: Client) -> None:
    path = f"/debates/{submitted(ada, begun(LOOP), goes_on=True).document['id']}"
    ada.post(f"{path}/evaluations", {"evaluators": ["crit"]})
    earlier = sha256_hex(artefact(ada, path))
    append(ada, path, later_events(LOOP))
    assert ada.get(f"{path}/evaluations").document["evaluations"] == []
    (kept,) = ada.get(f"{path}/evaluations?artefact_sha256={earlier}").document["evaluations"]
    assert (kept["artefact_sha256"], kept["evaluator"]) == (earlier, "crit")


@pytest.mark.parametrize("names", [[], ["raud_it"], ["crit", "crit"], "crit"])
def test_who_evaluates_is_one_of_the_evaluators_each_once(ada: Client, names: object) -> None:
    path = f"/debates/{submitted(ada, TALK).document['id']}"
    refused = ada.post(f"{path}/evaluations", {"evaluators": names})
    assert (refused.status, refused.slug) == (422, "validation-error")


def test_raudit_says_for_each_set_of_labels_what_it_says_on_the_command_line(ada: Client) -> None:
    path = f"/debates/{submitted(ada, LOOP).document['id']}"
    chosen: list[dict[str, Action]] = [{"*": "BUY"}, {"*": "SELL"}, {"*": "BUY", "ann": "SELL"}]
    made = [
        ada.post(f"{path}/evaluations", {"evaluators": ["raudit"], "labels": labels}).document
        for labels in [*chosen, chosen[0]]
    ]
    found = [one["evaluations"][0]["evaluation"] for one in made]
    expected = [evaluate(read_debate(LOOP), ["raudit"], labels)[0] for labels in chosen]
    assert found == [*expected, expected[0]]
    assert found[0]["summary"] != found[1]["summary"]
    kept = ada.get(f"{path}/evaluations").document["evaluations"]
    assert [one["evaluation"]["config"] for one in kept] == [{"labels": one} for one in chosen]


def test_nobody_but_raudit_is_told_the_labels(ada: Client) -> None:
    path = f"/debates/{submitted(ada, LOOP).document['id']}"
    names = [*sorted(EVALUATORS), "raudit"]
    blind = ada.post(f"{path}/evaluations", {"evaluators": names[:-1]}).document["evaluations"]
    asked = {"evaluators": names, "labels": {"*": "BUY"}}
    made = ada.post(f"{path}/evaluations", asked).document["evaluations"]
    assert [one["sha256"] for one in made[:-1]] == [one["sha256"] for one in blind]
    assert made[-1]["evaluator"] == "raudit"


@pytest.mark.parametrize(
    "asked",
    [
        {"evaluators": ["raudit"]},
        {"evaluators": ["raudit"], "labels": {}},
        {"evaluators": ["crit"], "labels": {"*": "BUY"}},
        {"evaluators": ["raudit"], "labels": {"*": "WAIT"}},
        {"evaluators": ["raudit"], "labels": {"": "BUY"}},
        {"evaluators": ["raudit"], "labels": {str(n): "BUY" for n in range(1001)}},
    ],
)
def test_labels_are_actions_and_come_with_raudit_alone(
    ada: Client, asked: dict[str, object]
) -> None:
    path = f"/debates/{submitted(ada, TALK).document['id']}"
    refused = ada.post(f"{path}/evaluations", asked)
    assert (refused.status, refused.slug) == (422, "validation-error")
    assert ada.get(f"{path}/evaluations").document["evaluations"] == []


def test_runs_are_listed_by_debate_and_run_and_page_by_page(ada: Client) -> None:
    files = sorted((CORPUS / "handwritten").glob("*.json"))[:5]
    runs = [submitted(ada, file.read_bytes()).document for file in files]
    listed = ada.get("/debates?limit=2").document
    assert (listed["total"], listed["debates"]) == (5, runs[:-3:-1])
    further = ada.get(f"/debates?limit=2&cursor={listed['next_cursor']}").document
    assert further["debates"] == runs[2:0:-1]
    for member in ("debate_id", "run_id"):
        found = ada.get(f"/debates?{member}={runs[0][member]}").document
        assert found["debates"] == [runs[0]]
    assert ada.get("/debates?run_id=none").document["total"] == 0


def test_a_debate_that_is_not_there_is_not_there(ada: Client) -> None:
    for path in ("", "/artefact", "/events", "/evaluations"):
        reply = ada.get(f"/debates/{NOBODYS}{path}")
        assert (reply.status, reply.slug) == (404, "not-found")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE debate_runs SET document = 'x'",
        "UPDATE debate_runs SET run_id = 'another'",
        "UPDATE debate_runs SET events = events, turns = 1",
        "DELETE FROM debate_runs",
        "UPDATE debate_events SET entry = 'x'",
        "DELETE FROM debate_events",
        "DELETE FROM debate_evaluations",
    ],
)
@pytest.mark.parametrize("goes_on", [False, True])
def test_the_database_itself_rewrites_no_history(
    alone: Client, database: Database, change: str, *, goes_on: bool
) -> None:
    path = f"/debates/{submitted(alone, begun(LOOP), goes_on=goes_on).document['id']}"
    alone.post(f"{path}/evaluations", {"evaluators": ["crit"]})
    for role, refusal in (
        (APPLICATION, errors.DatabaseError),
        (OWNER, errors.IntegrityConstraintViolation),
    ):
        with pytest.raises(refusal), database.connected(role) as connection:
            connection.execute(change.encode())
