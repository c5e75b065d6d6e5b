"""`resolved_option` comes from the ground truth, `replay_output_class` from the answer."""

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.theatre.rlmf_runs import BY_COLOUR, COLOURS, episode, export, named, run
from tests.theatre.runs import (
    CHAIN,
    EASEL,
    EASEL_VERSION,
    ERROR,
    EXPECTED,
    PILOT,
    REFUSED,
    TEMPLATE,
    ScriptedAdapter,
    pilot_stage,
    with_changes,
)
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line
from theatre.engine.errors import RlmfExportError
from theatre.engine.rlmf_export.records import agrees, expectation_paths, fork_reading
from theatre.engine.scoring.provider import ABSENT

RED: JsonObject = {"colour": "red"}
FORK = "/fork_definitions"
CHOSEN = "/scoring/criteria_scorers"

Settled = tuple[str | None, str | None, bool | None]


def settled(record: JsonObject) -> Settled:
    settlement = cast("JsonObject", record["settlement"])
    return cast(
        "Settled",
        (record["replay_output_class"], settlement["resolved_option"], settlement["success"]),
    )


def scores(record: JsonObject) -> JsonObject:
    return cast("JsonObject", cast("JsonObject", record["settlement"])["criteria_scores"])


def test_a_mapping_reads_answer_and_truth_each_from_its_own_place(tmp_path: Path) -> None:
    records = [
        episode(1, named("red"), RED),
        episode(2, named("blue"), RED),
        episode(3, named("red"), {"colour": "blue"}),
        episode(4, named("mauve"), RED),
        episode(5, {"output_data": {"colour": 7}}, RED),
        episode(6, {"output_data": {}}, RED),
        episode(7, ERROR, RED),
        episode(8, REFUSED, RED),
        episode(9, named("red"), {"colour": "teal"}),
        episode(10, named("mauve"), {"colour": "teal"}),
        episode(11, ERROR, {"colour": "teal"}),
        episode(12, named("red"), {"recall": 0.5}),
        episode(13, named("red")),
    ]
    exported = export(run(tmp_path, records, changes=BY_COLOUR).bundle)
    assert [settled(record) for record in exported] == [
        ("red", "red", True),
        ("blue", "red", False),
        ("red", "blue", False),
        ("other", "red", False),
        ("other", "red", False),
        ("other", "red", False),
        ("other", "red", False),
        ("other", "red", False),
        ("red", "other", False),
        ("other", "other", True),
        # No answer is no success, whatever option is left for it.
        ("other", "other", False),
        # No ground truth: nothing to succeed at.
        ("red", "other", None),
        ("red", "other", None),
    ]
    assert [record["action_taken"] for record in exported] == [
        record["replay_output_class"] for record in exported
    ]


def test_a_mapping_may_point_into_a_gold_label_and_into_a_hop(tmp_path: Path) -> None:
    changes: dict[str, JsonValue] = {
        **CHAIN,
        FORK: COLOURS,
        "/rlmf_export_config": {
            "fork_id": "f_01",
            "output_path": f"{EASEL}:paint",
            "truth_path": "gold:seen",
        },
        "/product_theatre_config/gold_label_set": "gold_labels.jsonl",
        "/execution_policy/on_threshold": "continue",
    }
    gold = [
        {"episode_id": f"pilot-{seq}", "label": {"seen": "blue"}, "labeller": "a test"}
        for seq in (1, 2, 4)
    ]
    stage = pilot_stage(
        tmp_path,
        [episode(seq, expected=EXPECTED) for seq in (1, 2, 3, 4)],
        changes=changes,
        further={"gold_labels.jsonl": b"".join(canonical_line(label) for label in gold)},
    )
    paints = {1: "blue", 2: "red", 3: "blue", 4: "blue"}
    easel = ScriptedAdapter(
        lambda request: {"output_data": {"paint": paints[request.input_data["seq"]]}},
        version=EASEL_VERSION,
    )
    fourth = stage.draws.alias("pilot-4")
    pilot = ScriptedAdapter(
        lambda request: ERROR if request.episode_id == fourth else {"output_data": {**EXPECTED}}
    )
    finished = stage.run({EASEL: easel, PILOT: pilot})
    assert [settled(record) for record in export(finished.bundle)] == [
        ("blue", "blue", True),
        ("red", "blue", False),
        ("blue", "other", None),
        # The chain broke behind the construct that had the answer: there is none.
        ("other", "blue", False),
    ]


def test_meets_is_judged_by_the_expectation_and_not_by_the_score(tmp_path: Path) -> None:
    nearly: JsonObject = {"output_data": {"colour": "red", "recall": 0.45}}
    records = [
        episode(1, None, EXPECTED),
        episode(2, nearly, EXPECTED),
        episode(3, named("blue"), EXPECTED),
        episode(4, ERROR, EXPECTED),
        episode(5, REFUSED, EXPECTED),
        episode(6, named("red"), {"recall": 0.5}),
        episode(7, named("red")),
    ]
    exported = export(run(tmp_path, records).bundle)
    assert [settled(record) for record in exported] == [
        ("meets", "meets", True),
        ("falls_short", "meets", False),
        ("falls_short", "meets", False),
        ("falls_short", "meets", False),
        ("falls_short", "meets", False),
        ("meets", "meets", True),
        (None, None, None),
    ]
    # Within the committed tolerance: the best score there is, and still not what was expected.
    assert scores(exported[1]) == {"colour": 1, "recall": 1}


def test_the_criterion_of_stated_probabilities_alone_says_whether_an_answer_meets(
    tmp_path: Path,
) -> None:
    changes: dict[str, JsonValue] = {"/scoring/calibration_criterion": "colour"}
    records = [
        episode(1, {"output_data": {"colour": "red", "recall": 0}}, EXPECTED),
        episode(2, {"output_data": {"colour": "blue", "recall": 0.5}}, EXPECTED),
        episode(3, named("red"), {"recall": 0.5}),
    ]
    exported = export(run(tmp_path, records, changes=changes).bundle)
    assert [settled(record) for record in exported] == [
        ("meets", "meets", True),
        ("falls_short", "meets", False),
        (None, None, None),
    ]


def test_a_fork_of_neither_kind_leaves_everything_to_its_residual_option(tmp_path: Path) -> None:
    fork: JsonValue = [
        {
            "fork_id": "f_07",
            "options": [
                {"option_id": "now", "label": "Now"},
                {"option_id": "rest", "label": "None of these"},
            ],
        }
    ]
    records = [episode(1, None, EXPECTED), episode(2, ERROR, EXPECTED)]
    exported = export(run(tmp_path, records, changes={FORK: fork}).bundle)
    assert [settled(record) for record in exported] == [("rest", "rest", None)] * 2
    assert [record["fork"] for record in exported] == [
        {"fork_id": "f_07", "options": ["now", "rest"]}
    ] * 2


def test_a_judged_fork_may_have_an_option_for_what_cannot_be_judged(tmp_path: Path) -> None:
    fork: Any = [
        {
            "fork_id": "f_01",
            "options": [
                {"option_id": "meets", "label": "Meets it"},
                {"option_id": "falls_short", "label": "Falls short"},
                {"option_id": "none", "label": "Nothing to judge by"},
            ],
        }
    ]
    records = [episode(1, named("blue"), EXPECTED), episode(2, named("red"))]
    exported = export(run(tmp_path, records, changes={FORK: fork}).bundle)
    assert [settled(record) for record in exported] == [
        ("falls_short", "meets", False),
        ("none", "none", None),
    ]


NO_REST: JsonValue = [
    {
        "fork_id": "f_01",
        "options": [{"option_id": "now", "label": "Now"}, {"option_id": "later", "label": "Later"}],
    }
]
MAPPING: JsonObject = {"fork_id": "f_01", "output_path": "colour", "truth_path": "colour"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({FORK: NO_REST}, r"got none: the answers cannot be told apart$"),
        ({"/rlmf_export_config": MAPPING | {"fork_id": "f_09"}}, r"got fork_id, output_path, "),
        ({"/rlmf_export_config": {"fork_id": "f_01"}}, r"got fork_id$"),
        ({"/rlmf_export_config": MAPPING | {"truth_path": 1}}, r"output_path and truth_path, got"),
    ],
)
def test_a_template_that_tells_no_answers_apart_is_refused(
    changes: dict[str, JsonValue], message: str
) -> None:
    with pytest.raises(RlmfExportError, match=message) as caught:
        fork_reading(with_changes(TEMPLATE, changes))
    assert caught.value.code == "export-refused"


def test_before_2_1_0_there_is_no_mapping() -> None:
    mapping = MAPPING | {"fork_id": "f_09"}
    changes: dict[str, JsonValue] = {"/schema_version": "2.0.1", "/rlmf_export_config": mapping}
    assert fork_reading(with_changes(TEMPLATE, changes)).option_ids == ("meets", "falls_short")
    with pytest.raises(RlmfExportError):
        fork_reading(with_changes(TEMPLATE, changes | {"/schema_version": "2.1.0"}))


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({}, (("colour", "colour"), ("recall", "recall"))),
        ({"/scoring/calibration_criterion": "recall"}, (("recall", "recall"),)),
        (
            {f"{CHOSEN}/colour": {"scorer": "label_accuracy", "params": {"expected": "gold:"}}},
            ((None, "gold:"),),
        ),
        ({f"{CHOSEN}/colour": {"scorer": "exact_match"}}, (("recall", "recall"),)),
        (
            {
                f"{CHOSEN}/colour": {"scorer": "exact_match"},
                f"{CHOSEN}/recall": {"scorer": "json_schema", "params": {"schema": {}}},
            },
            ((None, None),),
        ),
        (
            {"/schema_version": "2.0.1", "/scoring": {}},
            (("colour", "colour"), ("recall", "recall")),
        ),
    ],
)
def test_what_is_compared_with_what_is_committed(
    changes: dict[str, JsonValue], paths: tuple[tuple[str | None, str | None], ...]
) -> None:
    assert expectation_paths(with_changes(TEMPLATE, changes)) == paths


def test_without_a_path_the_whole_answer_is_held_against_the_whole_expectation(
    tmp_path: Path,
) -> None:
    bare: JsonObject = {"scorer": "exact_match"}
    changes: dict[str, JsonValue] = {CHOSEN: {"colour": bare, "recall": bare}}
    changes["/scorer_pins"] = {"exact_match": "1"}
    records = [
        episode(1, {"output_data": {**EXPECTED, "more": 1}}, EXPECTED),
        episode(2, named("blue"), EXPECTED),
        episode(3, named("red"), {}),
        episode(4, named("red")),
    ]
    exported = export(run(tmp_path, records, changes=changes).bundle)
    assert [settled(record)[0] for record in exported] == ["meets", "falls_short", None, None]


@pytest.mark.parametrize(
    ("answer", "expected", "agreeing"),
    [
        (1, 1.0, True),
        (1, True, False),
        ("a", "a", True),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"a": 1.0}, True),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1}}, False),
        ({"b": 1}, {"a": 1}, False),
        ("a", {"a": 1}, False),
        (None, None, True),
        (ABSENT, None, False),
    ],
)
def test_an_answer_agrees_that_is_the_expected_value_or_holds_each_member_of_it(
    answer: JsonValue, expected: JsonValue, *, agreeing: bool
) -> None:
    assert agrees(answer, expected) is agreeing


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(value=JSON, other=JSON)
def test_whatever_the_values_agreement_is_told_and_everything_agrees_with_itself(
    value: JsonValue, other: JsonValue
) -> None:
    assert agrees(value, value)
    assert agrees(value, other) in {True, False}
