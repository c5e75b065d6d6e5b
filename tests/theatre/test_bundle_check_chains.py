"""The independent check of chains, repeats and output shapes: each rule broken by itself.

The forger rewrites records, trail, sums and hashes; nothing but the rule itself can tell.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.every_feature import (
    DIFFERING,
    DISCARDED,
    LAST,
    MISFIT,
    MISMATCHED,
    READER,
    READER_VERSION,
    REPEATED,
)
from tests.theatre.forged_bundle import (
    Effort,
    Files,
    changed,
    check,
    document,
    failed_ids,
    load,
    resealed,
    store,
)
from tests.theatre.record_edits import Edit, Record, each, forged, of_answer, of_call, records_in
from tests.theatre.runs import PILOT, VERSION
from theatre.engine.canonical_json import canonical_json

ALONE, TWICE, OTHERWISE = 9, 1, 2
"""Episodes that succeeded: called once; twice with the same answer; twice with another one."""


@pytest.fixture(scope="module")
def files(every_feature: Path) -> Files:
    return load(every_feature)


def test_a_run_with_every_feature_passes_every_check(files: Files, tmp_path: Path) -> None:
    report = check(store(files, tmp_path / "bundle"))
    assert [line.as_document() for line in report.failed] == []
    assert report.consistent
    facts: Any = document(files, "tier.json")["facts"]
    counted = set(DIFFERING) - set(DISCARDED)
    assert (facts["determinism_differences"], facts["version_mismatches"]) == (len(counted), 1)
    assert facts["adapter_pin"] == "local@1"
    certificate = document(files, "certificate.json")
    assert certificate["construct_chain_versions"] == {READER: READER_VERSION, PILOT: VERSION}


def test_the_run_ended_in_every_way_that_the_tests_need(files: Files) -> None:
    rounds = {
        seq: [(call["hop"], call["repeat"]) for call in record["calls"]]
        for seq, record in records_in(files).items()
    }
    both = [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert {seq for seq, calls in rounds.items() if calls == both} == set(REPEATED)
    assert rounds[ALONE] == rounds[MISFIT] == rounds[LAST] == both[:2]
    assert rounds[MISMATCHED] == rounds[DISCARDED[0]] == both[:1]


def test_a_forger_who_changes_nothing_leaves_no_trace(files: Files, tmp_path: Path) -> None:
    untouched = forged(files, ALONE, lambda _: None)
    assert check(store(untouched, tmp_path / "bundle")).consistent


# fmt: off
CALLS: list[tuple[str, int, Edit, str]] = [
    ("another output upstream", ALONE,
     of_call(1, "request", "input_data", "upstream", READER, to={}), "input_data/upstream"),
    ("nothing upstream", ALONE,
     of_call(1, "request", "input_data", "upstream", to={}), "input_data/upstream"),
    ("the output of the first round upstream in the second", OTHERWISE,
     of_call(3, "request", "input_data", "upstream", PILOT, to={}), "input_data/upstream"),
    ("another limit for the second hop", ALONE,
     of_call(1, "request", "metadata", "timeout_seconds", to=20), "metadata/timeout_seconds 4"),
    ("another retry policy for the second hop", ALONE,
     of_call(1, "request", "metadata", "retry_policy", "max_retries", to=0), "retry_policy"),
    ("the pin of the first hop for the second", ALONE,
     of_call(1, "request", "construct_version", to="feed" * 10), "request/construct_version"),
    ("the first construct twice", ALONE,
     of_call(1, "construct_id", to=READER), f'construct_id "{PILOT}"'),
    ("a hop of another number", ALONE, of_call(1, "hop", to=2), "hop 1"),
    ("the invocation id of another hop", ALONE,
     lambda r: r["calls"][1]["request"].update(
         invocation_id=r["calls"][0]["request"]["invocation_id"]), "invocation_id"),
    ("the invocation id of the first round", TWICE,
     lambda r: r["calls"][2]["request"].update(
         invocation_id=r["calls"][0]["request"]["invocation_id"]), "invocation_id"),
    ("a response to another hop", ALONE,
     of_answer(1, 0, invocation_id="00000000-0000-5000-8000-000000000000"), "invocation_id"),
    ("not deterministic", ALONE,
     of_call(0, "request", "metadata", "deterministic", to=False), "metadata/deterministic true"),
    ("another adapter for the second hop", ALONE,
     of_call(1, "adapter", to="local@2"), "the adapter that the trail names"),
    ("a source of no sort", TWICE, of_call(3, "version_source", to="told"), "version_source"),
    ("no second call", TWICE, lambda r: r["calls"].__delitem__(slice(2, 4)),
     "a call of hop 0, repeat 1"),
    ("a second call that nobody asked for", ALONE,
     lambda r: r["calls"].extend(again(r["calls"])), "2 calls"),
    ("a second call behind a failure", LAST,
     lambda r: r["calls"].extend(again(r["calls"])), "2 calls"),
    ("a call behind one that failed", DISCARDED[0],
     lambda r: r["calls"].extend(again(r["calls"])), "1 calls"),
    ("one attempt less at the second hop", LAST,
     lambda r: r["calls"][1]["attempts"].pop(), "2 attempts at a failing call"),
    ("an output that does not fit", ALONE,
     lambda r: r["calls"][1]["attempts"][0]["response"]["output_data"].update(again="one"),
     "an output that fits the committed output_spec"),
    ("an output that does not fit when asked again", OTHERWISE,
     lambda r: r["calls"][3]["attempts"][0]["response"]["output_data"].update(again="one"),
     "an output that fits the committed output_spec"),
    ("a rejected output that fits", MISFIT, of_call(1, "attempts", 0, "raw",
     to='{"colour":"red"}'), "an output that does not fit"),
    ("a rejected output in another form", MISFIT, of_call(1, "attempts", 0, "raw",
     to='{"colour": 7}'), "raw with an output as canonical JSON"),
    ("a rejected output that is none", MISFIT, of_call(1, "attempts", 0, "raw", to="x"),
     "raw with an output as canonical JSON"),
    ("no rejected output", MISFIT, of_call(1, "attempts", 0, "raw", to=None),
     "raw with the output that did not fit"),
    ("no pointer to what does not fit", MISFIT, of_answer(1, 0, error_detail="did not fit"),
     "error_detail with the pointer /colour"),
    ("a misfit where no shape was committed", DISCARDED[0],
     each(of_call(0, "attempts", 0, "reason", to="output-spec"),
          of_answer(0, 0, construct_version="feed" * 10)), "no reason output-spec"),
    ("a misfit of another construct", MISFIT, of_answer(1, 0, construct_id=READER),
     "construct_id where the reason is output-spec"),
    ("nothing sent, where something could be", LAST,
     of_call(1, "attempts", 1, "reason", to="unsendable-input"), "no reason unsendable-input"),
    ("a discarded record that was not asked as committed", DISCARDED[1],
     of_call(0, "request", "metadata", "timeout_seconds", to=20), "metadata/timeout_seconds 4"),
]
# fmt: on


def again(calls: list[Record]) -> list[Record]:
    return [call | {"repeat": 1} for call in deepcopy(calls)]


@pytest.mark.parametrize(
    ("seq", "edit", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CALLS]
)
def test_a_call_that_was_not_committed_is_named(
    files: Files, tmp_path: Path, seq: int, edit: Edit, expected: str
) -> None:
    report = check(store(forged(files, seq, edit), tmp_path / "bundle"))
    told = {line.id: line.expected for line in report.failed}
    assert set(told) == {"invocations"}
    assert expected in told["invocations"]


# fmt: off
OTHER: list[tuple[str, int, Edit, set[str]]] = [
    ("another version of the second hop", ALONE, of_answer(1, 0, construct_version="feed" * 10),
     {"version-pins"}),
    ("another version of a repeat", TWICE, of_answer(3, 0, construct_version="0" * 40),
     {"version-pins"}),
    ("a misfit of another version", MISFIT, of_answer(1, 0, construct_version="0" * 40),
     {"version-pins", "invocations"}),
    ("a misfit that timed out", MISFIT, of_answer(1, 0, status="timeout"),
     {"invocations", "aggregate", "resolution", "certificate-fields"}),
    ("a mismatch that is none at a discarded call", DISCARDED[0],
     of_answer(0, 0, construct_version=None), {"version-pins"}),
    ("a repeat that differed, made the same", OTHERWISE,
     lambda r: r["calls"][3]["attempts"][0]["response"].update(
         output_data=r["calls"][1]["attempts"][0]["response"]["output_data"]),
     {"tier"}),
    ("a repeat that was the same, made to differ", TWICE,
     lambda r: r["calls"][3]["attempts"][0]["response"]["output_data"].update(again=5), {"tier"}),
    ("a repeat that failed, not counted", TWICE,
     lambda r: r["calls"].__setitem__(slice(2, 4), [refused(r["calls"][2])]), {"tier"}),
    ("a mismatch at a call that succeeded when asked again", LAST,
     each(of_call(1, "attempts", 1, "reason", to="version-mismatch"),
          of_answer(1, 1, construct_version="0" * 40)), {"tier"}),
    ("half a second round", TWICE, lambda r: r["calls"].pop(), {"invocations", "tier"}),
    ("a mock as the first hop", ALONE, of_call(0, "adapter", to="mock@1"),
     {"invocations", "tier"}),
    ("a claimed version of the first hop", ALONE, of_call(0, "version_source", to="claimed"),
     {"certificate-fields"}),
]
# fmt: on


def refused(call: Record) -> Record:
    """Return the call as if the construct had declined it."""
    declined = deepcopy(call)
    declined["attempts"][0]["response"].update(
        status="refused", output_data=None, error_detail="not again"
    )
    return declined


@pytest.mark.parametrize(
    ("seq", "edit", "failed"), [pytest.param(*case[1:], id=case[0]) for case in OTHER]
)
def test_what_follows_from_a_call_is_held_against_it(
    files: Files, tmp_path: Path, seq: int, edit: Edit, failed: set[str]
) -> None:
    assert failed_ids(check(store(forged(files, seq, edit), tmp_path / "bundle"))) == failed


def test_a_success_that_stops_half_way_through_the_chain_is_no_answer(
    files: Files, tmp_path: Path
) -> None:
    halved = forged(files, ALONE, lambda record: record["calls"].pop())
    report = check(store(halved, tmp_path / "bundle"))
    told = {line.id: line.actual for line in report.failed}
    assert told["scores"] == "not computed because the record of episode 9 holds no answer"
    assert set(told) == {
        *("invocations", "outcomes", "scores", "aggregate", "data-audit", "baselines"),
        "resolution",
    }


@pytest.mark.parametrize("member", ["determinism_differences", "version_mismatches"])
def test_a_fact_that_is_not_that_of_the_records_is_named(
    files: Files, tmp_path: Path, member: str
) -> None:
    def lower(tier: Record) -> None:
        tier["facts"][member] -= 1

    lowered = resealed(changed(files, "tier.json", lower), Effort.CERTIFIED_HASH)
    assert failed_ids(check(store(lowered, tmp_path / "bundle"))) == {"tier"}


def test_an_output_that_was_cut_at_the_limit_is_left_at_that(files: Files, tmp_path: Path) -> None:
    raw = canonical_json({"colour": 7, "text": "x" * 2**20})[: 2**20]
    cut = forged(files, MISFIT, of_call(1, "attempts", 0, "raw", to=raw))
    assert check(store(cut, tmp_path / "bundle")).consistent
    short = forged(files, MISFIT, of_call(1, "attempts", 0, "raw", to=raw[:-40]))
    assert failed_ids(check(store(short, tmp_path / "short"))) == {"invocations"}
