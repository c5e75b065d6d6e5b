"""`hash_chain`: the right record, its recomputed hash, a verbatim quotation; or nothing."""

import hashlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON, case_of, number
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.scorers.hash_chain import SCORER, record_hash

ZEROS = "0" * 64
FIRST: JsonObject = {"id": "r1", "prev_hash": ZEROS, "content": "the rent is in our ledger twice"}
# The SHA-256 of {"content":…,"id":"r1","prev_hash":…} in canonical form, spelt out.
FIRST_TEXT = f'{{"content":"the rent is in our ledger twice","id":"r1","prev_hash":"{ZEROS}"}}'
FIRST_HASH = hashlib.sha256(FIRST_TEXT.encode()).hexdigest()
SECOND: JsonObject = {"id": "r2", "prev_hash": FIRST_HASH, "content": "könnte gehen 👍"}
SECOND_HASH = str(record_hash(SECOND))
SHOWN: list[JsonValue] = [SECOND, FIRST]
CONTENT_HASH = hashlib.sha256(str(FIRST["content"]).encode()).hexdigest()

CITED: JsonObject = {"record_id": "r1", "hash": FIRST_HASH}
QUOTED: JsonObject = {
    "record_id": "r1",
    "content_hash": CONTENT_HASH,
    "quote": "the rent is in our ledger",
}
QUOTABLE: JsonObject = {
    "record_id": "r1",
    "content_hash": CONTENT_HASH,
    "quotes": ["rent is in our ledger", "ledger twice"],
}


def cite(answer: JsonValue, expected: JsonValue, records: JsonValue = None) -> float:
    shown: JsonObject = {"pool": {"shown": SHOWN if records is None else records}}
    params: JsonObject = {"records": "pool.shown"}
    return number(SCORER, case_of(params, answer, expected=expected, input_data=shown))


def quote(
    answer: JsonValue, expected: JsonValue, records: JsonValue = None, longest: int = 28
) -> float:
    shown: JsonObject = {"records": SHOWN if records is None else records}
    params: JsonObject = {
        "records": "records",
        "covers": "content",
        "hash": "content_hash",
        "max_quote": longest,
    }
    return number(SCORER, case_of(params, answer, expected=expected, input_data=shown))


def link(answer: JsonValue, expected: JsonValue) -> float:
    return number(SCORER, case_of({"field": "record"}, answer, expected=expected))


def test_the_hash_of_a_record_covers_all_of_it_but_the_hash_itself() -> None:
    assert record_hash(FIRST) == FIRST_HASH
    assert record_hash({**FIRST, "hash": "anything"}) == FIRST_HASH
    assert record_hash({**FIRST, "prev_hash": SECOND_HASH}) != FIRST_HASH
    assert record_hash({**FIRST, "canvas": "pricing"}) != FIRST_HASH
    assert record_hash({**FIRST, "content": math.nan}) is None


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (CITED, 1.0),
        ({**CITED, "why": "because"}, 1.0),
        ({**CITED, "hash": FIRST_HASH.upper()}, 0.0),
        ({**CITED, "hash": SECOND_HASH}, 0.0),
        ({**CITED, "hash": None}, 0.0),
        ({**CITED, "record_id": "r2"}, 0.0),
        ({"record_id": "r2", "hash": SECOND_HASH}, 0.0),
        ({"record_id": "r1"}, 0.0),
        ({"hash": FIRST_HASH}, 0.0),
        ({}, 0.0),
        ([CITED], 0.0),
        (FIRST_HASH, 0.0),
        (None, 0.0),
    ],
)
def test_a_citation_names_the_record_and_the_hash_over_content_and_previous_hash(
    answer: JsonValue, value: float
) -> None:
    assert cite(answer, {"record_id": "r1"}) == value
    assert cite(answer, CITED) == value


@pytest.mark.parametrize(
    "changed",
    [
        {**FIRST, "content": "the rent is in our ledger once"},
        {**FIRST, "prev_hash": SECOND_HASH},
        {**FIRST, "canvas": "pricing"},
    ],
)
def test_a_record_that_was_changed_after_its_hash_was_taken_earns_nothing(
    changed: JsonObject,
) -> None:
    for stated in (FIRST_HASH, record_hash(changed)):
        answer: JsonObject = {"record_id": "r1", "hash": stated}
        assert cite(answer, CITED, [changed, SECOND]) == 0.0
    answer = {"record_id": "r1", "hash": record_hash(changed)}
    assert cite(answer, {"record_id": "r1"}, [changed]) == 1.0


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({}, 1.0),
        ({"quote": "our ledger twice"}, 1.0),
        ({"quote": "rent is in our ledger twice"}, 1.0),
        ({"quote": "he rent is in our ledger twi"}, 1.0),  # 28 characters
        ({"quote": "he rent is in our ledger twic"}, 0.0),  # 29
        ({"quote": "the rent is in our"}, 0.0),
        ({"quote": "The rent is in our ledger"}, 0.0),
        ({"quote": "ledger twice!"}, 0.0),
        ({"quote": ""}, 0.0),
        ({"quote": ["ledger twice"]}, 0.0),
        ({"quote": None}, 0.0),
        ({"content_hash": FIRST_HASH}, 0.0),
        ({"record_id": "r2"}, 0.0),
    ],
)
def test_a_quotation_is_a_verbatim_span_that_carries_an_expected_one(
    changes: JsonObject, value: float
) -> None:
    assert quote({**QUOTED, **changes}, QUOTABLE) == value


def test_without_a_limit_the_whole_text_may_be_quoted() -> None:
    params: JsonObject = {"records": "records", "covers": "content", "hash": "content_hash"}
    answer: JsonObject = {**QUOTED, "quote": FIRST["content"]}
    case = case_of(params, answer, expected=QUOTABLE, input_data={"records": SHOWN})
    assert SCORER.score(case) == 1.0


def test_without_expected_quotes_none_is_asked_for() -> None:
    expected: JsonObject = {"record_id": "r1", "content_hash": CONTENT_HASH}
    assert quote({"record_id": "r1", "content_hash": CONTENT_HASH}, expected) == 1.0


def test_a_hash_over_the_whole_record_and_a_quotation_of_its_content_go_together() -> None:
    expected: JsonObject = {"record_id": "r1", "quotes": ["ledger twice"]}
    assert cite({**CITED, "quote": "ledger twice"}, expected) == 1.0
    assert cite({**CITED, "quote": "ledger once"}, expected) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ({**SECOND, "hash": SECOND_HASH}, {"prev_hash": FIRST_HASH}, 1.0),
        ({**SECOND, "hash": SECOND_HASH}, {"prev_hash": FIRST_HASH, "id": "r2"}, 1.0),
        ({**SECOND, "hash": SECOND_HASH}, {"prev_hash": ZEROS}, 0.0),
        ({**SECOND, "hash": SECOND_HASH}, {"prev_hash": FIRST_HASH, "id": "r3"}, 0.0),
        ({**SECOND, "hash": SECOND_HASH, "x": 1}, {"prev_hash": FIRST_HASH}, 0.0),
        ({**SECOND, "hash": FIRST_HASH}, {"prev_hash": FIRST_HASH}, 0.0),
        (SECOND, {"prev_hash": FIRST_HASH}, 0.0),
        ({"hash": "x", "content": math.nan}, {"prev_hash": FIRST_HASH}, 0.0),
        ({"prev_hash": FIRST_HASH, "content": math.nan}, {"prev_hash": FIRST_HASH}, 0.0),
        (None, {"prev_hash": FIRST_HASH}, 0.0),
    ],
)
def test_without_records_the_answer_is_itself_the_next_link(
    answer: JsonValue, expected: JsonValue, value: float
) -> None:
    assert link(answer, expected) == value


FAULTY: list[tuple[JsonValue, JsonValue]] = [
    (None, SHOWN),
    ("r1", SHOWN),
    ({}, SHOWN),
    ({"quotes": ["ledger"]}, SHOWN),
    ({"content_hash": CONTENT_HASH}, SHOWN),
    ({**QUOTABLE, "record_id": "r3"}, SHOWN),
    ({**QUOTABLE, "quotes": []}, SHOWN),
    ({**QUOTABLE, "quotes": [""]}, SHOWN),
    ({**QUOTABLE, "quotes": ["ledger", 1]}, SHOWN),
    ({**QUOTABLE, "quotes": "ledger"}, SHOWN),
    ({**QUOTABLE, "quotes": None}, SHOWN),
    (QUOTABLE, []),
    (QUOTABLE, {"r1": FIRST}),
    (QUOTABLE, [FIRST, FIRST]),
    (QUOTABLE, [{"id": "r1"}]),
    (QUOTABLE, [{**FIRST, "content": 1}]),
    (QUOTABLE, [{**FIRST, "content": "\ud800"}]),
    (QUOTABLE, [FIRST["content"], {}]),
]


@pytest.mark.parametrize("expected", [None, [], {}, {"quotes": ["könnte"]}])
@pytest.mark.parametrize("answer", [{**SECOND, "hash": SECOND_HASH}, {}, None])
def test_an_expectation_that_pins_nothing_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue
) -> None:
    assert math.isnan(link(answer, expected))


@pytest.mark.parametrize(("expected", "records"), FAULTY)
@pytest.mark.parametrize("answer", [QUOTED, {}, None])
def test_faulty_ground_truth_leaves_every_answer_unscored(
    answer: JsonValue, expected: JsonValue, records: JsonValue
) -> None:
    assert math.isnan(quote(answer, expected, records))


@pytest.mark.parametrize("records", [[{"id": "r1", "content": math.nan}], [{"id": "r1", "a": "x"}]])
def test_a_record_without_hash_or_text_cannot_be_cited(records: JsonValue) -> None:
    expected: JsonObject = {"record_id": "r1", "quotes": ["x"]}
    assert math.isnan(cite(CITED, expected, records))


def test_an_input_without_the_records_leaves_the_answer_unscored() -> None:
    case = case_of({"records": "records"}, CITED, expected=CITED, input_data={"pool": SHOWN})
    assert math.isnan(number(SCORER, case))


@given(HOSTILE_JSON)
def test_any_answer_scores_0_or_1(answer: JsonValue) -> None:
    for value in (cite(answer, CITED), quote(answer, QUOTABLE), link(answer, CITED)):
        assert value in {0.0, 1.0}


@given(st.sampled_from(sorted(QUOTED)), HOSTILE_JSON)
def test_any_other_value_in_any_member_breaks_the_citation(member: str, value: JsonValue) -> None:
    assert quote({**QUOTED, member: value}, QUOTABLE) == 0.0


@given(st.text(max_size=40), st.text(max_size=20), st.dictionaries(st.text(max_size=4), st.text()))
def test_the_next_link_of_any_chain_scores_1_and_0_with_any_text_added(
    content: str, more: str, rest: dict[str, str]
) -> None:
    record: JsonObject = {**rest, "id": "r2", "prev_hash": FIRST_HASH, "content": content}
    answer: JsonObject = {**record, "hash": record_hash(record)}
    assert link(answer, {"prev_hash": FIRST_HASH}) == 1.0
    assert link({**answer, "content": content + more}, {"prev_hash": FIRST_HASH}) == float(not more)


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({}, True),
        ({"field": "source", "expected": "source", "records": "records"}, True),
        ({"records": "records", "covers": "content", "hash": "h", "max_quote": 1}, True),
        ({"records": ["records"]}, False),
        ({"max_quote": 0}, False),
        ({"max_quote": 2.5}, False),
        ({"covers": ""}, False),
        ({"quote": "quote"}, False),
    ],
)
def test_the_schema_knows_the_parameters(params: JsonObject, *, valid: bool) -> None:
    assert SCORER.pin == "hash_chain@1"
    assert SCORER.needs_expectation
    assert Draft202012Validator(SCORER.params_schema).is_valid(params) is valid
