"""Documents frozen for good, results that survive the journal, ranges of numbers, and criteria."""

import itertools
import json
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.theatre.test_template_validator import ERRORS, REPLAY, VALIDATOR, edited
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, canonical_line
from theatre.engine.errors import ParseError
from theatre.engine.models import (
    EpisodeOutcome,
    EpisodeResult,
    FrozenArray,
    FrozenObject,
    InvocationRecord,
    InvocationStatus,
    Scored,
    Scorer,
    ScorerKind,
    TheatreCriteria,
    Verdict,
    freeze_json,
    freeze_object,
    sequence_ranges,
)

OBJECT_CHANGES: list[Callable[[dict[str, JsonValue]], object]] = [
    lambda value: value.__setitem__("a", 9),
    lambda value: value.__delitem__("a"),
    lambda value: value.__ior__({"b": 9}),
    lambda value: value.clear(),
    lambda value: value.pop("a"),
    lambda value: value.pop("absent", None),
    lambda value: value.popitem(),
    lambda value: value.setdefault("b", 9),
    lambda value: value.update({"a": 9}),
    lambda value: value.update(b=9),
]
ARRAY_CHANGES: list[Callable[[list[JsonValue]], object]] = [
    lambda value: value.__setitem__(0, 9),
    lambda value: value.__setitem__(slice(None), []),
    lambda value: value.__delitem__(0),
    lambda value: value.__iadd__([9]),
    lambda value: value.__imul__(2),
    lambda value: value.append(9),
    lambda value: value.clear(),
    lambda value: value.extend([9]),
    lambda value: value.insert(0, 9),
    lambda value: value.pop(),
    lambda value: value.remove(1),
    lambda value: value.reverse(),
    lambda value: value.sort(key=str),
]


@pytest.mark.parametrize("change", OBJECT_CHANGES)
def test_no_method_changes_a_frozen_object(change: Callable[[JsonObject], object]) -> None:
    document: JsonObject = {"a": 1}
    frozen = freeze_object(document)
    with pytest.raises(TypeError, match="a committed document cannot be changed"):
        change(frozen)
    assert frozen == {"a": 1}
    change(document)  # a plain one allows it


@pytest.mark.parametrize("change", ARRAY_CHANGES)
def test_no_method_changes_a_frozen_array(change: Callable[[list[JsonValue]], object]) -> None:
    document: list[JsonValue] = [2, 1]
    frozen = freeze_json(document)
    assert isinstance(frozen, FrozenArray)
    with pytest.raises(TypeError, match="a committed document cannot be changed"):
        change(frozen)
    assert frozen == [2, 1]
    change(document)
    assert document != [2, 1]  # on a plain one it is a change


@pytest.mark.parametrize(
    ("frozen", "plain", "mutable", "readable"),
    [(FrozenObject, dict, MutableMapping, Mapping), (FrozenArray, list, MutableSequence, Sequence)],
)
def test_every_method_that_a_mutable_container_adds_is_refused(
    frozen: type, plain: type, mutable: type, readable: type
) -> None:
    added = set(dir(mutable)) - set(dir(readable)) | {"__ior__", "__imul__", "sort"}
    changing = added & set(dir(plain))
    assert len(changing) >= 8
    assert {name for name in changing if getattr(frozen, name) is getattr(plain, name)} == set()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text("aé", max_size=2),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab"), inner),
        max_leaves=12,
    )
)
def test_a_frozen_document_has_the_same_canonical_bytes_and_is_frozen_all_through(
    document: JsonValue,
) -> None:
    frozen = freeze_json(document)
    assert canonical_bytes(frozen) == canonical_bytes(document)
    assert json.loads(json.dumps(frozen)) == document
    assert freeze_json(frozen) == frozen
    stack = [frozen]
    while stack:
        item = stack.pop()
        assert isinstance(item, (FrozenObject, FrozenArray)) is isinstance(item, (dict, list))
        if isinstance(item, (dict, list)):
            stack.extend(item.values() if isinstance(item, dict) else item)


def test_a_frozen_document_is_a_copy() -> None:
    inner: JsonObject = {"list": [1]}
    frozen = freeze_object({"inner": inner})
    inner["list"] = []
    assert frozen == {"inner": {"list": [1]}}


@pytest.mark.parametrize(
    ("sequences", "ranges"),
    [
        ([], []),
        ([5], [(5, 5)]),
        ([1, 2, 3], [(1, 3)]),
        ([1, 2, 3, 7], [(1, 3), (7, 7)]),
        ([2, 4, 6], [(2, 2), (4, 4), (6, 6)]),
    ],
)
def test_ascending_numbers_are_told_as_ranges(
    sequences: list[int], ranges: list[tuple[int, int]]
) -> None:
    assert sequence_ranges(iter(sequences)) == ranges


@given(st.sets(st.integers(1, 60)))
def test_ranges_name_every_number_once_and_never_touch(numbers: set[int]) -> None:
    ranges = sequence_ranges(sorted(numbers))
    assert [n for low, high in ranges for n in range(low, high + 1)] == sorted(numbers)
    assert all(earlier[1] + 1 < later[0] for earlier, later in itertools.pairwise(ranges))


DOCUMENTS: st.SearchStrategy[JsonObject] = st.sampled_from(
    [
        {"attempts": [{"raw": None}], "share": 0.5},
        {"calls": [], "invocation": {}, "outcome": "scored"},
        {"a": {}, "outcome": 'x"},"outcome":"', "text": ',"invocation":{'},
    ]
)
RESULTS = st.builds(
    EpisodeResult,
    seq=st.integers(1, 99),
    episode_id=st.text("eé1", min_size=1, max_size=4),
    status=st.sampled_from(InvocationStatus),
    outcome=st.sampled_from(EpisodeOutcome),
    scores=st.dictionaries(
        st.sampled_from(["accuracy", "invocation", "outcome"]),
        st.builds(Scored, st.integers(0, 10**9)) | st.sampled_from(Verdict),
    ),
    facts=st.just({"adapters": {"invocation": "http@1"}, "confidence": 0.25}),
    record=st.builds(InvocationRecord, DOCUMENTS),
)


RESULT = EpisodeResult(
    seq=3,
    episode_id="e3",
    status=InvocationStatus.SUCCESS,
    outcome=EpisodeOutcome.SCORED,
    scores={"accuracy": Scored(500_000_000), "recall": Verdict.DECLINED},
    facts={"confidence": None},
    record=InvocationRecord({"episode_id": "e3"}),
)


@given(RESULTS)
def test_a_result_survives_the_journal(result: EpisodeResult) -> None:
    line = result.line
    assert line == canonical_line(result.as_document())
    again = EpisodeResult.from_line(line)
    assert again == result
    assert again.record.line == result.record.line == canonical_line(result.record.document)
    assert again.record.document == result.record.document


@pytest.mark.parametrize(
    "spelling",
    [
        lambda line: line.replace(b":", b": "),
        lambda line: line.removesuffix(b"\n"),
        lambda line: b" " + line,
        lambda line: line.replace(b'"status":"success"', b'"status":"success","more":1'),
        lambda line: line.replace(b'"seq":3', b'"seq":3.0'),
    ],
)
def test_a_line_of_another_spelling_is_not_read(spelling: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ParseError, match="expected the canonical line of a result"):
        EpisodeResult.from_line(spelling(RESULT.line))


def test_the_journal_spells_scores_as_billionths_and_gaps_by_name() -> None:
    assert RESULT.as_document() == {
        "seq": 3,
        "episode_id": "e3",
        "status": "success",
        "outcome": "scored",
        "scores": {"accuracy": 500_000_000, "recall": "declined"},
        "facts": {"confidence": None},
        "invocation": {"episode_id": "e3"},
    }


def test_a_scorer_is_pinned_by_name_and_version() -> None:
    scorer = Scorer(
        name="half", version="3", kind=ScorerKind.EXACT, params_schema={}, score=lambda _: 0.5
    )
    assert scorer.pin == "half@3"


WEIGHTS = "/criteria/weights"


def test_criteria_are_frozen_and_closed() -> None:
    criteria = TheatreCriteria(criteria_ids=("a", "b"))
    assert (criteria.criteria_human, criteria.weights) == ("", {})
    with pytest.raises(FrozenInstanceError):
        criteria.criteria_human = "changed"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Unexpected keyword argument"):
        TypeAdapter(TheatreCriteria).validate_python({"criteria_ids": ["a"], "bonus": 1})


def test_weights_may_miss_one_by_a_millionth_and_by_no_more() -> None:
    for weight, is_valid in ((0.300001, True), (0.300002, False)):
        report = VALIDATOR.validate(edited(REPLAY, {f"{WEIGHTS}/left": weight}))
        assert (report.errors == ()) is is_valid


def test_each_rule_of_weights_has_a_case_in_the_table() -> None:
    assert {case.rule for case in ERRORS if case.rule.startswith("weights-")} == {
        "weights-cover-criteria",
        "weights-finite-and-not-negative",
        "weights-sum-to-one",
        "weights-within-criteria",
    }
