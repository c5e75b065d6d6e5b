"""The controller by hand: steps and routing; every value that it stored replays to 1e-9."""

from typing import Any

import pytest

from tests.theatre.debate.scripted_runs import FIXTURES
from theatre.debate.evaluators import EVALUATORS
from theatre.debate.models import Debate
from theatre.debate.pid import (
    ControlConfig,
    Gains,
    PidMemory,
    Quadrant,
    Strength,
    binary_entropy,
    config_in,
    divergence_of,
    next_strength,
    persona_of,
    pid_step,
    quadrant_of,
)
from theatre.engine.canonical_json import JsonObject, parse_object

CONFIG = ControlConfig()


def test_a_step_weighs_error_sum_and_change() -> None:
    gains = Gains(k_p=2, k_i=10, k_d=100)
    first, memory = pid_step(PidMemory(), 0.5, gains, integral_limit=10)
    assert (first, memory) == (2 * 0.5 + 10 * 0.5, PidMemory(0.5, 0.5))
    second, memory = pid_step(memory, 0.25, gains, integral_limit=10)
    assert (second, memory) == (2 * 0.25 + 10 * 0.75 - 100 * 0.25, PidMemory(0.75, 0.25))


def test_the_sum_of_errors_does_not_wind_up() -> None:
    gains = Gains(k_p=0, k_i=1, k_d=0)
    memory = PidMemory()
    outputs = []
    for error in (0.6, 0.6, -3.0, 0.4):
        output, memory = pid_step(memory, error, gains, integral_limit=1.0)
        outputs.append(round(output, 12))
    assert outputs == [0.6, 1.0, -1.0, -0.6]


@pytest.mark.parametrize(
    ("divergence", "quality", "quadrant", "expected"),
    [
        (0.04, 0.79, Quadrant.STUCK, Strength(beta_pid=0.65, beta_applied=0.6)),
        (0.05, 0.79, Quadrant.CHAOTIC, Strength(beta_pid=0.65, beta_applied=0.65)),
        (0.04, 0.80, Quadrant.CONVERGED, Strength(beta_pid=0.65, beta_applied=0.45)),
        (0.05, 0.80, Quadrant.HEALTHY, Strength(beta_pid=0.65, beta_applied=0.45)),
    ],
)
def test_quadrants_route_the_strength_of_the_next_audit(
    divergence: float, quality: float, quadrant: Quadrant, expected: Strength
) -> None:
    assert quadrant_of(divergence, quality, CONFIG) is quadrant
    assert next_strength(0.5, 0.2, quadrant, CONFIG) == expected


def test_the_strength_stays_within_0_and_1() -> None:
    assert next_strength(0.95, 3.0, Quadrant.CHAOTIC, CONFIG).beta_applied == 1.0
    assert next_strength(0.1, -3.0, Quadrant.CHAOTIC, CONFIG).beta_applied == 0.0
    assert next_strength(0.95, 0.0, Quadrant.STUCK, CONFIG).beta_applied == 1.0


def test_divergence_of_qualities_is_in_bits_and_never_negative() -> None:
    assert divergence_of([0.0, 1.0]) == 1.0
    assert divergence_of([0.3, 0.3]) == 0.0
    assert divergence_of([0.7]) == 0.0
    assert divergence_of([0.2, 0.6]) == pytest.approx(
        binary_entropy(0.4) - (binary_entropy(0.2) + binary_entropy(0.6)) / 2
    )


def test_personas_are_thirds_of_the_strength() -> None:
    assert [persona_of(beta) for beta in (0.0, 0.33, 0.66, 0.67, 1.0)] == [
        "collaborative",
        "balanced",
        "balanced",
        "adversarial",
        "adversarial",
    ]


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
