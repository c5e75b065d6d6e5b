"""Which option of a fork an answer amounts to, and which one the ground truth says is right.

The two come from two sources: the answer, and the committed expectation. Never from a score:
computed from one value they would always agree, and the export would say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes
from theatre.engine.errors import RlmfExportError
from theatre.engine.rlmf_export.sealed_bundle import SealedEpisode
from theatre.engine.scoring.case_values import answered_at, expected_at
from theatre.engine.scoring.criteria_scorers import calibration_criterion, criteria_scorers
from theatre.engine.scoring.paths import ABSENT, Absent
from theatre.engine.template_validator.fork_options import (
    FALLS_SHORT,
    MEETS,
    export_mapping,
    judged_fork,
    option_ids,
    residual_option,
)

Hops: TypeAlias = Mapping[str, JsonObject]
Paths: TypeAlias = tuple[str | None, str | None]
"""Where an answer and what it is checked against lie; None is the whole of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionPair:
    """Two option ids of the fork: `resolved` by the ground truth, `answered` by the construct.

    `judged` says whether there was ground truth to judge by. Without it both are the residual
    option, or None where the fork has none.
    """

    resolved: str | None
    answered: str | None
    judged: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkReading:
    """A fork, and how episodes are read in its options; `hops` is empty where a call failed."""

    fork_id: str
    option_ids: tuple[str, ...]
    read: Callable[[SealedEpisode, Hops], OptionPair]


def fork_reading(document: JsonObject) -> ForkReading:
    """Return how the template's runs are read: by its mapping, by expectation, or not at all.

    Raises RlmfExportError for a template whose forks cannot tell one answer from another and
    leave no option for the rest.
    """
    forks = cast("list[JsonObject]", document["fork_definitions"])
    mapping, judged = export_mapping(document), judged_fork(document)
    if mapping:
        fork = _mapped_fork(forks, mapping)
        return _reading(fork, _by_mapping(fork, mapping))
    if judged is not None:
        return _reading(judged, _by_expectation(judged, expectation_paths(document)))
    rest = residual_option(forks[0])
    if rest is None:
        raise RlmfExportError(
            "expected rlmf_export_config, a fork with the options meets and falls_short, or a "
            "residual option in the first fork; got none: the answers cannot be told apart"
        )
    return _reading(forks[0], lambda *_: OptionPair(resolved=rest, answered=rest, judged=False))


def expectation_paths(document: JsonObject) -> tuple[Paths, ...]:
    """Return the (field, expected) paths that say whether an answer meets the expectation.

    Those of the criterion that stated probabilities are about, where there is one; else of every
    criterion that names an `expected` path; else the whole answer against the whole expectation.
    """
    chosen = criteria_scorers(document)
    calibrated = calibration_criterion(document)
    judging = [calibrated] if calibrated in chosen else list(chosen)
    params = [cast("JsonObject", chosen[criterion].get("params", {})) for criterion in judging]
    paths = [(_path(each, "field"), _path(each, "expected")) for each in params]
    return tuple(each for each in paths if each[1] is not None) or ((None, None),)


def _path(params: JsonObject, name: str) -> str | None:
    path = params.get(name)
    return path if isinstance(path, str) else None


def _mapped_fork(forks: list[JsonObject], mapping: JsonObject) -> JsonObject:
    named = [fork for fork in forks if fork["fork_id"] == mapping.get("fork_id")]
    complete = all(isinstance(mapping.get(name), str) for name in ("output_path", "truth_path"))
    if not named or not complete:
        raise RlmfExportError(
            "expected rlmf_export_config with fork_id (of a fork), output_path and truth_path, "
            f"got {', '.join(mapping)}"
        )
    return named[0]


def _reading(fork: JsonObject, read: Callable[[SealedEpisode, Hops], OptionPair]) -> ForkReading:
    return ForkReading(
        fork_id=cast("str", fork["fork_id"]), option_ids=tuple(option_ids(fork)), read=read
    )


def _by_mapping(
    fork: JsonObject, mapping: JsonObject
) -> Callable[[SealedEpisode, Hops], OptionPair]:
    options, rest = set(option_ids(fork)), residual_option(fork)
    output_path = cast("str", mapping["output_path"])
    truth_path = cast("str", mapping["truth_path"])

    def option(value: JsonValue | Absent) -> str | None:
        return value if isinstance(value, str) and value in options else rest

    def read(episode: SealedEpisode, hops: Hops) -> OptionPair:
        truth = expected_at(truth_path, episode.truth.expected_output, episode.label)
        return OptionPair(
            resolved=option(truth),
            answered=option(answered_at(output_path, hops)),
            judged=not isinstance(truth, Absent),
        )

    return read


def _by_expectation(
    fork: JsonObject, paths: tuple[Paths, ...]
) -> Callable[[SealedEpisode, Hops], OptionPair]:
    rest = residual_option(fork)

    def read(episode: SealedEpisode, hops: Hops) -> OptionPair:
        applying = [
            (field, expected)
            for field, path in paths
            if not isinstance(expected := _expected(path, episode), Absent) and expected != {}
        ]
        if not applying:
            return OptionPair(resolved=rest, answered=rest, judged=False)
        met = all(agrees(answered_at(field, hops), expected) for field, expected in applying)
        return OptionPair(resolved=MEETS, answered=MEETS if met else FALLS_SHORT, judged=True)

    return read


def _expected(path: str | None, episode: SealedEpisode) -> JsonValue | Absent:
    expected_output = episode.truth.expected_output
    if path is None:
        return ABSENT if expected_output is None else expected_output
    return expected_at(path, expected_output, episode.label)


def agrees(answer: JsonValue | Absent, expected: JsonValue) -> bool:
    """Return whether an answer is the expected JSON value, or holds every member of it."""
    if isinstance(answer, Absent):
        return False
    if isinstance(answer, dict) and isinstance(expected, dict):
        return all(
            name in answer and canonical_bytes(answer[name]) == canonical_bytes(value)
            for name, value in expected.items()
        )
    return canonical_bytes(answer) == canonical_bytes(expected)
