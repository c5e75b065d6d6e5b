"""The episode runner `debate`: an auditor, a team, or a team with and without control.

`input_data.play` says which. Whatever a construct answers, the episode comes to an end and to a
result: an answer that no turn can be made of ends its debate, and leaves no artefact to be scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from theatre.debate.debaters import PROTOCOL
from theatre.debate.episodes.asking import AGENTS, Setting, play_debate
from theatre.debate.episodes.pairs import BEGUN
from theatre.debate.errors import DebateRunError
from theatre.debate.trial.corruptions import CORRUPTIONS
from theatre.engine.canonical_json import JsonObject, sha256_hex
from theatre.engine.models import EpisodePlay, EpisodeRunner

TEAM_ROUNDS, CONTROL_ROUNDS, MAX_RETRIES = 2, 1, 2
_HALF = "8"
"""Half of all digests come before it."""

FAULTS: Mapping[str, str] = {one.expected: one.name.partition(" ")[2] for one in CORRUPTIONS}
"""What an auditor may say of a turn, and what it means; auditors receive this text."""


def play(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Play one episode of an auditor, a team or a trial of control.

    `audit`: `debate`, and perhaps an `earlier` version of it; `twin` is the same pair once more,
    changed in a way that means nothing. `team` and `control`: `case`, which is what the debaters
    are told. `probes`: `begun_true` and `begun_false`, each with a `case` and an `opening`, a first
    attempt that the loop rejects.
    """
    return _PLAYS[cast("str", input_data["play"])](input_data, seed)


def _audit(input_data: JsonObject, _seed: str) -> EpisodePlay:
    """Return `findings`, and `twin_findings` where there is a twin, as they were answered."""
    answer = yield _audit_team(input_data)
    result: JsonObject = {"findings": answer.get("findings")}
    twin = input_data.get("twin")
    if isinstance(twin, dict):
        answer = yield _audit_team(twin)
        result["twin_findings"] = answer.get("findings")
    return result


def _audit_team(given: JsonObject) -> JsonObject:
    return {
        "protocol": PROTOCOL,
        "ask": "audit",
        "debate": given["debate"],
        "earlier": given.get("earlier"),
        "codes": dict(FAULTS),
    }


def _team(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Return the artefact, and what its last turn recommends how surely."""
    case = cast("JsonObject", input_data["case"])
    setting = Setting(case=case, mode="posthoc", rounds=TEAM_ROUNDS, max_retries=0)
    try:
        debate = yield from play_debate(setting, seed)
    except DebateRunError as error:
        return {"ended": str(error)}
    last = cast("list[JsonObject]", debate["turns"])[-1]
    advice = cast("JsonObject", last.get("recommendation") or {})
    return {
        "debate": debate,
        "action": advice.get("action"),
        "confidence": advice.get("conviction"),
    }


def _control(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Return both artefacts of a case: without control, and in the loop."""
    case = cast("JsonObject", input_data["case"])
    plain = Setting(case=case, mode="posthoc", rounds=CONTROL_ROUNDS, max_retries=0)
    looped = Setting(case=case, mode="in_loop", rounds=CONTROL_ROUNDS, max_retries=MAX_RETRIES)
    try:
        posthoc = yield from play_debate(plain, seed)
        in_loop = yield from play_debate(looped, seed)
    except DebateRunError as error:
        return {"ended": str(error)}
    return {"posthoc": posthoc, "in_loop": in_loop}


def _probes(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Return the artefacts of two turns in the loop, each of which began with what was given.

    The seed decides which comes first: order must not tell which of them begins true.
    """
    order = BEGUN if sha256_hex(seed.encode("utf-8")) < _HALF else BEGUN[::-1]
    result: JsonObject = {}
    for begun in order:
        given = cast("JsonObject", input_data[begun])
        setting = Setting(
            case=cast("JsonObject", given["case"]),
            mode="in_loop",
            rounds=1,
            max_retries=MAX_RETRIES,
            agents=AGENTS[:1],
            opening=cast("JsonObject", given["opening"]),
        )
        try:
            result[begun] = yield from play_debate(setting, seed)
        except DebateRunError as error:
            result[begun] = {"ended": str(error)}
    return result


_PLAYS = {"audit": _audit, "team": _team, "control": _control, "probes": _probes}

RUNNER = EpisodeRunner(
    name="debate",
    version="2",
    max_calls=max(len(AGENTS) * TEAM_ROUNDS, len(AGENTS) * CONTROL_ROUNDS * (1 + 1 + MAX_RETRIES)),
    play=play,
)
