"""Bytes stay as they came; schema and models say the same; nothing makes validation crash."""

import contextlib
import copy
import gc
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.drawn import drawn
from tests.theatre.debate.debates import ADVICE, a_debate, as_bytes, changed, findings
from theatre.debate.errors import InvalidDebateError
from theatre.debate.models import Debate
from theatre.debate.validation import SCHEMA, read_debate
from theatre.engine.canonical_json import canonical_bytes, parse_object
from theatre.engine.schema_registry import SchemaRegistry

REGISTRY = SchemaRegistry()

FULL: dict[str, Any] = a_debate(
    raud_it={"audit_strength": 1, "metrics": {}, "notes": None},
    integrity={"sha256": "0" * 64, "byte_length": 3, "canon": "RFC 8785"},
)
FULL["turns"][0] |= {
    "turn_type": "argument",
    "turn_metadata": {"x": 1},
    "rca_trace": {"reasoning_steps": "a", "final_answer": "BUY", "structured_steps": ["a"]},
    "recommendation": ADVICE,
}
FULL["turns"][1]["attempts"][0]["audit"] = {
    "crit": {"gamma_mean": 0.5, "theta_mean": 1, "threshold_pass": False, "feedback": "more"},
    "rca": {"blind_verification": True, "verdict": "pass", "violation_type": None},
    "t3": {"required_rung": "L2", "pearl_rung_detected": None, "trap_type": "T7", "pass": True},
    "pid": {"e_t": 1, "u_t": None, "k_p": 0.1},
    "raudit": {"audit_strength": "polite", "behavioral_metrics": {"n": 1}, "retry_regime": "F+"},
}


def leaves(value: object) -> list[str]:
    """Return the pointers that lead to no object and no array."""
    every = pointers(value)
    return [one for one in every if not any(other.startswith(f"{one}/") for other in every)]


def pointers(value: object, path: str = "") -> list[str]:
    found = [path] if path else []
    if isinstance(value, dict):
        found += [one for key, item in value.items() for one in pointers(item, f"{path}/{key}")]
    elif isinstance(value, list):
        found += [one for i, item in enumerate(value) for one in pointers(item, f"{path}/{i}")]
    return found


VALUES: st.SearchStrategy[object] = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        -1,
        2.0,
        2.5,
        1e300,
        "",
        "x",
        "L2",
        "pass",
        "BUY",
        "2026-01-01T00:00:00Z",
        "a" * 201,
        "2026-01-01T00:00:00Z\n",
        "0" * 64,
        [],
        [None],
        {},
        {"a": 1},
        [{}],
        ...,
    ]
)


def model_accepts(document: object) -> bool:
    try:
        Debate.model_validate(document)
    except ValidationError:
        return False
    return True


@given(at=st.sampled_from(pointers(FULL)), value=VALUES)
@settings(max_examples=drawn(400), deadline=None)
def test_schema_and_models_accept_the_same(at: str, value: object) -> None:
    document = parse_object(as_bytes(changed(at, value, FULL)))
    assert model_accepts(document) == (REGISTRY.validate(SCHEMA, document) == [])


@given(at=st.lists(st.sampled_from(pointers(FULL)), min_size=1, max_size=3), value=VALUES)
@settings(
    max_examples=drawn(200), deadline=None, suppress_health_check=[HealthCheck.filter_too_much]
)
def test_whatever_is_broken_is_told_by_pointer_and_rule(at: list[str], value: object) -> None:
    document: dict[str, Any] = copy.deepcopy(FULL)
    for pointer in at:
        try:
            document = changed(pointer, value, document)
        except (KeyError, IndexError, TypeError, ValueError):
            continue  # an earlier change took the place away
    for finding in findings(document):
        assert finding.pointer == "" or finding.pointer.startswith("/")
        assert (finding.rule[0], finding.code[1]) in {("R", "_"), ("s", "_")}
        assert finding.detail != ""


@given(data=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@settings(max_examples=drawn(100), deadline=None)
def test_any_bytes_are_refused_by_name(data: bytes) -> None:
    assert {finding.rule for finding in findings(data)} & {"R18", "schema:required"}


@given(cut=st.integers(0, 3000), junk=st.binary(max_size=4))
@settings(max_examples=drawn(100), deadline=None)
def test_torn_and_spoilt_bytes_are_refused_or_still_valid(cut: int, junk: bytes) -> None:
    whole = as_bytes(FULL)
    findings(whole[:cut] + junk + whole[cut + len(junk) :])


def test_the_full_example_is_valid_and_keeps_what_it_does_not_know() -> None:
    data = json.dumps(FULL, indent=3).encode() + b"\n"
    artefact = read_debate(data)
    assert artefact.data == data
    assert artefact.debate.participants[0].model_extra == {"shoe_size": 38}
    dumped = artefact.debate.model_dump(by_alias=True, exclude_unset=True)
    assert canonical_bytes(dumped) == canonical_bytes(artefact.document)


def test_the_recommendation_is_the_one_closed_object() -> None:
    document = changed("/turns/0/recommendation/stop_loss", 5, FULL)
    ((finding),) = findings(document)
    assert (finding.pointer, finding.rule) == (
        "/turns/0/recommendation/stop_loss",
        "schema:additionalProperties",
    )
    schema = json.dumps(parse_object(schema_bytes()))
    assert schema.count('"additionalProperties"') == 1


def schema_bytes() -> bytes:
    from theatre.engine.schema_registry import resource_root  # used once

    return (resource_root() / "docs" / "schemas" / SCHEMA).read_bytes()


@pytest.mark.parametrize("name", ["raud_it", "raudit"])
def test_both_spellings_of_the_run_level_audit_are_read(name: str) -> None:
    debate = read_debate(as_bytes(a_debate(**{name: {"audit_strength": "polite"}}))).debate
    assert getattr(debate, name).audit_strength == "polite"
    assert findings(a_debate(**{name: 3})) != ()


def test_models_are_frozen() -> None:
    debate = read_debate(as_bytes(FULL)).debate
    with pytest.raises(ValidationError, match="frozen"):
        debate.turns[0].content = "rewritten"  # type: ignore[misc]  # the point of the test


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("data", [as_bytes(a_debate()), b"{}", b"no JSON"])
def test_reading_leaves_the_collector_as_it_was(data: bytes, *, is_on: bool) -> None:
    was_on = gc.isenabled()
    try:
        (gc.enable if is_on else gc.disable)()
        with contextlib.suppress(InvalidDebateError):
            read_debate(data, registry=REGISTRY)
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()
