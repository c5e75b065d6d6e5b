"""Every value that the controller stored replays to 1e-9, and a changed one is found."""

from typing import Any

import pytest

from tests.theatre.debate.scripted_runs import FIXTURES
from theatre.debate.evaluators import EVALUATORS
from theatre.debate.models import Debate
from theatre.debate.pid import ControlConfig, Gains, config_in
from theatre.engine.canonical_json import JsonObject, parse_object

LOOPS = sorted((FIXTURES / "scripted").glob("*-in_loop.json"))


def loop(place: int = 0) -> Any:  # noqa: ANN401  # a document that tests change
    return parse_object(LOOPS[place].read_bytes())


def found(document: JsonObject) -> list[tuple[str, str]]:
    """Return codes and details of what `pid` finds."""
    result = EVALUATORS["pid"](Debate.model_validate(document))
    assert result.summary["control_replay_ok"] is not any(
        one.code == "CONTROL_REPLAY_MISMATCH" for one in result.findings
    )
    return [(one.code, one.detail) for one in result.findings]


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_every_run_of_the_corpus_replays(path: Any) -> None:  # noqa: ANN401  # a path
    assert found(parse_object(path.read_bytes())) == []


@pytest.mark.parametrize("member", ["e_t", "u_t", "beta_pid", "beta_applied", "rho_bar"])
@pytest.mark.parametrize("by", [2e-9, -0.1])
def test_a_figure_that_was_changed_by_two_billionths_is_found(member: str, by: float) -> None:
    document = loop()
    document["turns"][1]["attempts"][0]["audit"]["pid"][member] += by
    codes = {code for code, _ in found(document)}
    assert "CONTROL_REPLAY_MISMATCH" in codes


def test_another_quadrant_and_another_strength_before_an_attempt_are_found() -> None:
    document = loop()
    document["turns"][1]["attempts"][0]["audit"]["pid"]["quadrant"] = "CHAOTIC"
    ((code, detail),) = found(document)
    assert (code, "/turns/1/attempts/0/audit/pid/quadrant" in detail) == (
        "CONTROL_REPLAY_MISMATCH",
        True,
    )
    document = loop()
    document["turns"][1]["attempts"][0]["control_state"]["beta"] += 0.01
    assert {code for code, _ in found(document)} == {
        "CONTROL_REPLAY_MISMATCH",
        "CONTROL_STATE_MISMATCH",
    }


def test_the_configuration_is_the_stored_one_and_without_it_only_outputs_replay() -> None:
    document = loop()
    document["run_metadata"]["control"]["decay"] = 0.5
    assert {code for code, _ in found(document)} == {"CONTROL_REPLAY_MISMATCH"}
    for control in (None, 3, {**loop()["run_metadata"]["control"], "decay": "slow"}):
        document["run_metadata"]["control"] = control
        assert found(document) == []
    config = ControlConfig(gains=Gains(k_p=0.5), decay=0.7)
    assert config_in(config.as_document()) == config
