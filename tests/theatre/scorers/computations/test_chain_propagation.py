"""`chain_propagation`: where a decision is lost, where invented, and what claims are worth."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theatre.scorers.scoring_cases import HOSTILE_JSON
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.schema_registry import SchemaRegistry
from theatre.scorers.computations.chain_propagation import COMPUTATION, DEFAULT_LISTED, MAX_LISTED

CHAIN: list[JsonValue] = ["read", "write", "print"]
PARAMS: JsonObject = {"chain": CHAIN, "field": "carried", "expected": "ought", "decision": "by"}
EFFECTS: JsonObject = {
    "label": "effects",
    "term": "says",
    "claims": {"stance": ["want", "overridden"]},
    "facts": {"write": "tokens", "print": "sheet"},
}


def items(*statements: str) -> list[JsonValue]:
    """Return items, each written "D1 red": a decision and what it says; a want."""
    parts = [statement.split() for statement in statements]
    return [{"by": by, "says": says, "stance": "want"} for by, says in parts]


def episode(
    ought: JsonValue,
    *carried: JsonValue,
    name: str = "e1",
    label: JsonValue = None,
    facts: Mapping[str, JsonValue] | None = None,
) -> JsonObject:
    """Return a line: `ought` of every hop, and what each hop that answered carries."""
    each: JsonValue = {str(hop): ought for hop in CHAIN} if isinstance(ought, list) else ought
    answers: JsonObject = {
        str(hop): {"carried": one, **(facts or {})}
        for hop, one in zip(CHAIN, carried, strict=False)
    }
    return {
        "episode_id": name,
        "input_data": {},
        "expected_output": {"ought": each},
        "label": label,
        "outcome": "scored",
        "hops": answers,
    }


def computed(*episodes: JsonObject, **params: JsonValue) -> dict[str, Any]:
    return COMPUTATION.compute(map(canonical_bytes, episodes), {**PARAMS, **params})


def hop(name: JsonValue, arrived: int, **counts: int | None) -> JsonObject:
    """Return the row of a hop; what is not named is 0, and claims are not measured."""
    none = {"lost": 0, "unanswered": 0, "invented": 0, "claims": None, "without_effect": None}
    return {"hop": name, "arrived": arrived, **none, **counts}


NOTHING: JsonObject = {"total": 0, "listed": []}


def test_what_every_hop_carries_arrives_everywhere() -> None:
    two = items("D1 red", "D2 loud")
    assert computed(episode(two, two, two, two)) == {
        "episodes": 1,
        "unmeasurable": 0,
        "decisions": 2,
        "hops": [hop("read", 2), hop("write", 2), hop("print", 2)],
        "lost": NOTHING,
        "invented": NOTHING,
        "without_effect": NOTHING,
    }


def test_a_decision_is_lost_at_the_first_hop_that_lacks_one_of_its_items_and_at_no_later_one() -> (
    None
):
    ought = items("D1 red", "D1 round", "D2 loud", "D3 slow")
    result = computed(
        episode(
            ought,
            items("D1 red", "D1 round", "D2 loud", "D3 slow"),
            items("D1 red", "D2 loud", "D3 slow"),
            items("D1 red", "D1 round", "D3 slow"),
        )
    )
    assert result["hops"] == [hop("read", 3), hop("write", 2, lost=1), hop("print", 1, lost=1)]
    assert result["lost"] == {
        "total": 2,
        "listed": [
            {"episode_id": "e1", "hop": "write", "decision": "D1", "items": items("D1 round")},
            {"episode_id": "e1", "hop": "print", "decision": "D2", "items": items("D2 loud")},
        ],
    }


def test_what_comes_back_after_it_was_lost_has_not_arrived() -> None:
    one = items("D1 red")
    result = computed(episode(one, [], one, one))
    assert result["hops"] == [hop("read", 0, lost=1), hop("write", 0), hop("print", 0)]
    assert result["invented"] == NOTHING


def test_a_decision_is_invented_where_an_item_of_it_first_stands_that_is_not_expected() -> None:
    ought = items("D1 red")
    result = computed(
        episode(
            ought,
            items("D1 red"),
            items("D1 red", "D9 green", "D9 grey"),
            items("D1 red", "D9 green", "D1 blue"),
        )
    )
    assert result["hops"] == [
        hop("read", 1),
        hop("write", 1, invented=1),
        hop("print", 1, invented=1),
    ]
    assert result["invented"] == {
        "total": 2,
        "listed": [
            {
                "episode_id": "e1",
                "hop": "write",
                "decision": "D9",
                "items": items("D9 green", "D9 grey"),
            },
            {"episode_id": "e1", "hop": "print", "decision": "D1", "items": items("D1 blue")},
        ],
    }


def test_a_decision_with_the_wrong_term_is_lost_and_invented() -> None:
    wrong = items("D1 blue")
    result = computed(episode(items("D1 red"), wrong, wrong, wrong))
    assert result["hops"] == [hop("read", 0, lost=1, invented=1), hop("write", 0), hop("print", 0)]


def test_each_hop_is_held_to_what_is_expected_of_it() -> None:
    ought: JsonObject = {
        "read": items("D1 red"),
        "write": items("D1 blue", "D2 loud"),
        "print": items("D1 blue", "D2 loud"),
    }
    answers = [items("D1 red"), items("D1 blue", "D2 loud"), items("D1 red", "D2 loud")]
    result = computed(episode(ought, *answers))
    assert result["decisions"] == 2
    assert result["hops"] == [hop("read", 2), hop("write", 2), hop("print", 1, lost=1, invented=1)]


def test_behind_a_hop_without_an_answer_nothing_is_lost_and_nothing_arrives() -> None:
    ought = items("D1 red", "D2 loud")
    result = computed(
        episode(ought, items("D1 red"), name="e1"),
        episode(ought, name="e2"),
        episode(ought, ought, ought, ought, name="e3"),
    )
    assert result["decisions"] == 6
    assert result["hops"] == [
        hop("read", 3, lost=1, unanswered=2),
        hop("write", 2, unanswered=1),
        hop("print", 2),
    ]


def test_repeated_and_reordered_items_are_neither_lost_nor_invented() -> None:
    ought = items("D1 red", "D2 loud")
    answer = [*reversed(ought), *ought]
    assert computed(episode(ought, answer, answer, answer))["hops"] == [
        hop("read", 2),
        hop("write", 2),
        hop("print", 2),
    ]


@pytest.mark.parametrize("answer", [None, "D1", {"by": "D1"}, 7])
def test_an_answer_that_holds_no_array_carries_nothing(answer: JsonValue) -> None:
    one = items("D1 red")
    assert computed(episode(one, answer, one, one))["hops"] == [
        hop("read", 0, lost=1),
        hop("write", 0),
        hop("print", 0),
    ]


def test_an_item_that_names_no_decision_is_invented_by_nobody_in_particular() -> None:
    odd: list[JsonValue] = [3, {"by": 4}, "red"]
    result = computed(episode([], odd, odd, odd))
    assert result["hops"] == [hop("read", 0, invented=1), hop("write", 0), hop("print", 0)]
    assert result["invented"] == {
        "total": 1,
        "listed": [
            {"episode_id": "e1", "hop": "read", "decision": None, "items": ["red", 3, {"by": 4}]}
        ],
    }


@pytest.mark.parametrize("ought", [None, 3, {"read": [], "write": []}, {"read": 1, "write": 2}])
def test_an_episode_without_an_expectation_for_each_hop_is_unmeasurable(ought: JsonValue) -> None:
    result = computed(episode(ought, items("D1 red")))
    assert (result["episodes"], result["unmeasurable"], result["decisions"]) == (0, 1, 0)
    assert result["hops"] == [hop("read", 0), hop("write", 0), hop("print", 0)]


def test_all_are_counted_and_as_many_listed_as_asked_for() -> None:
    episodes = [episode(items("D1 red"), [], name=f"e{n}") for n in range(DEFAULT_LISTED + 3)]
    for params, listed in (({}, DEFAULT_LISTED), ({"listed": 2}, 2), ({"listed": 0}, 0)):
        lost = computed(*episodes, **params)["lost"]
        assert lost["total"] == DEFAULT_LISTED + 3
        assert [one["episode_id"] for one in lost["listed"]] == [f"e{n}" for n in range(listed)]


LABEL: JsonObject = {
    "effects": {"red": ["ink"], "loud": ["volume"], "wide": ["size"]},
    "tokens": {"ink": "#f00"},
    "sheet": {"ink": "#f00", "volume": 11, "size": 2.0},
}


def held(answer: list[JsonValue], facts: JsonObject, label: JsonValue = LABEL) -> dict[str, Any]:
    """Return the result where all hops carry `answer`, and all show `facts` as both."""
    shown: JsonObject = {"tokens": facts, "sheet": facts}
    line = episode(answer, answer, answer, answer, label=label, facts=shown)
    return computed(line, effects=EFFECTS)


def test_a_claim_is_without_effect_where_a_fact_that_follows_from_its_term_differs() -> None:
    result = held(items("D1 red", "D2 loud", "D3 wide"), {"ink": "#f00", "volume": 10, "size": 2})
    assert result["hops"] == [
        hop("read", 3),
        hop("write", 3, claims=1, without_effect=0),
        hop("print", 3, claims=3, without_effect=1),
    ]
    assert result["without_effect"] == {
        "total": 1,
        "listed": [
            {
                "episode_id": "e1",
                "hop": "print",
                "decision": "D2",
                "items": items("D2 loud"),
                "facts": ["volume"],
            }
        ],
    }


def test_a_fact_that_is_not_there_differs() -> None:
    result = held(items("D1 red"), {})
    assert result["hops"] == [
        hop("read", 1),
        hop("write", 1, claims=1, without_effect=1),
        hop("print", 1, claims=1, without_effect=1),
    ]


def test_two_decisions_that_claim_one_term_are_two_claims() -> None:
    result = held(items("D1 red", "D2 red"), {"ink": "#0f0"})
    assert result["hops"] == [
        hop("read", 2),
        hop("write", 2, claims=2, without_effect=2),
        hop("print", 2, claims=2, without_effect=2),
    ]


def test_what_claims_nothing_or_has_no_facts_is_held_to_nothing() -> None:
    avoided: list[JsonValue] = [{"by": "D1", "says": "red", "stance": "avoid"}]
    nothing: list[JsonValue] = [*avoided, "red", {"stance": "want", "says": 1}]
    for answer in (avoided, items("D1 green"), nothing):
        for row in [held(answer, {})["hops"]]:
            assert [(one["claims"], one["without_effect"]) for one in row] == [
                (None, None),
                (0, 0),
                (0, 0),
            ]


def test_without_a_label_no_claim_can_be_held() -> None:
    rows = held(items("D1 red"), {}, label=None)["hops"]
    assert [one["claims"] for one in rows] == [None, 0, 0]


def test_a_line_that_is_no_json_is_unmeasurable() -> None:
    result = COMPUTATION.compute([b"{", b"[]", b'{"expected_output": NaN}'], PARAMS)
    assert (result["episodes"], result["unmeasurable"]) == (0, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"chain": []},
        {"chain": ["read", "read"]},
        {"field": ""},
        {"listed": -1},
        {"listed": MAX_LISTED + 1},
        {"listed": "all"},
        {"effects": {**EFFECTS, "facts": {}}},
        {"effects": {**EFFECTS, "fact": 1}},
        {"effects": {"label": "effects", "term": "says"}},
        {"effects": {**EFFECTS, "claims": {"stance": "want"}}},
        {"hops": 3},
    ],
)
def test_params_that_do_not_fit_are_refused_by_the_schema(wrong: JsonObject) -> None:
    registry = SchemaRegistry()
    assert [*registry.validate_inline(COMPUTATION.params_schema, {**PARAMS, **wrong})]
    assert not [
        *registry.validate_inline(COMPUTATION.params_schema, {**PARAMS, "effects": EFFECTS})
    ]


ITEM = st.fixed_dictionaries(
    {},
    optional={
        "by": st.sampled_from(["D1", "D2"]) | HOSTILE_JSON,
        "says": st.sampled_from(["red", "loud"]) | HOSTILE_JSON,
        "stance": st.sampled_from(["want", "avoid"]) | HOSTILE_JSON,
    },
)
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "carried": st.lists(ITEM | HOSTILE_JSON, max_size=4) | HOSTILE_JSON,
        "tokens": st.dictionaries(st.sampled_from(["ink", "size"]), HOSTILE_JSON) | HOSTILE_JSON,
        "sheet": HOSTILE_JSON,
    },
)


@settings(deadline=None)
@given(
    answers=st.dictionaries(st.sampled_from(["read", "write", "print"]), ANSWER | HOSTILE_JSON),
    label=st.just(LABEL) | HOSTILE_JSON,
    ought=st.lists(ITEM, max_size=3) | HOSTILE_JSON,
)
def test_no_answer_makes_it_raise_and_its_counts_add_up(
    answers: JsonObject, label: JsonValue, ought: JsonValue
) -> None:
    line = {**episode(ought), "label": label, "hops": answers}
    # As a plain dump: lines that no strict parser lets in are lines, too.
    raw = json.dumps(line).encode("utf-8", "surrogatepass")
    result: dict[str, Any] = COMPUTATION.compute([raw], {**PARAMS, "effects": EFFECTS})
    assert canonical_bytes(result)
    hops = result["hops"]
    gone = 0
    for one in hops:
        gone += one["lost"] + one["unanswered"]
        if one["unanswered"]:
            break
        assert one["arrived"] == result["decisions"] - gone
        assert (one["claims"] or 0) >= (one["without_effect"] or 0)
