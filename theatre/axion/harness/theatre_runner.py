"""The episode runner `axion`: world, kernel and probes on the engine's side, one call a question.

A construct is sent the state, the offers and its own seed; it answers with a proposal, or
with the step it presents. Whatever it answers, the play continues: what is no proposal is denied.
"""

import io
import re
from collections.abc import Generator, Mapping
from typing import Any

from theatre.axion.agents.base import Prepared
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.hashing import NO_HASH, Document, derived_secret
from theatre.axion.harness.episode import Episode
from theatre.axion.harness.kernel_session import KernelSession
from theatre.axion.harness.ladder import PIVOTAL_SHARE
from theatre.axion.harness.probes import PRESENTATIONS, Probe
from theatre.axion.harness.records import (
    REVISITS,
    WALLCLOCK,
    EpisodePlan,
    Question,
    Reply,
    episode_record,
    strictest,
)
from theatre.axion.harness.scenarios import SCENARIOS, scenario
from theatre.axion.interfaces.mci_latent import MCI_LATENT
from theatre.axion.kernel.probe_engine import FAIL, INCONCLUSIVE, PASS
from theatre.engine.canonical_json import JsonObject
from theatre.engine.errors import CanonicalisationError
from theatre.engine.models import EpisodePlay, EpisodeRunner

PROTOCOL = "axion@2"
STEPS = 24
"""Steps of an episode."""

_HEX = re.compile(r"[0-9a-f]{64}")


def play(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Play one episode: `input_data` names scenario, seed (hex) and clutter."""
    result = yield from questions(input_data, seed, steps=STEPS, revisits=REVISITS)
    return result


def max_calls(steps: int, revisits: int) -> int:
    """Return how many questions an episode can have; a record has room for 38."""
    return steps + PRESENTATIONS + revisits


def questions(
    input_data: JsonObject, seed: str, *, steps: int, revisits: int
) -> Generator[JsonObject, JsonObject, JsonObject]:
    """Play `steps` steps with one construct: yield each question, return what came of it.

    After the last step `revisits` worlds are shown once more. Challenges, offers and tokens follow
    from `seed`, which no construct is sent.
    """
    plan = _plan(input_data, steps, revisits)
    room = KernelSession(io.BytesIO(), seed=seed.encode("utf-8"), watchdog_ms=None)
    episode = Episode(plan, MCI_LATENT, room)
    agent_seed = derived_secret("agent", seed).hex()
    turns = episode.turns()
    question = next(turns)
    while True:
        answer = yield _asked(question, agent_seed)
        try:
            question = turns.send(_reply(question, answer))
        except StopIteration:
            return _result(plan, episode, room)


def _plan(input_data: Mapping[str, Any], steps: int, revisits: int) -> EpisodePlan:
    name, seed = input_data["scenario"], input_data["scenario_seed"]
    clutter = input_data.get("clutter", 0)
    return EpisodePlan(
        number=0,
        scenario=name,
        seed=seed,
        clutter=clutter,
        steps=steps,
        probes=frozenset(Probe),
        revisits=revisits,
        state=scenario(name, bytes.fromhex(seed), clutter=clutter),
    )


def _asked(question: Question, agent_seed: str) -> JsonObject:
    asked: JsonObject = {
        "protocol": PROTOCOL,
        "agent_seed": agent_seed,
        "interface": MCI_LATENT.as_document(),
        "env": question.state.as_document(),
    }
    if question.own is not None:
        return {**asked, "ask": "present", "own": question.own}
    offers: JsonObject = {
        "snapshot_rebate": question.offers.snapshot_rebate,
        "raw_energy_cost": question.offers.raw_energy_cost,
    }
    return {**asked, "ask": "propose", "offers": offers}


def _reply(question: Question, answer: Mapping[str, Any]) -> Reply:
    """Return what an answer says, whatever it holds; what says nothing proposes nothing."""
    if question.own is not None:
        step = answer.get("step")
        return _writable(step) if isinstance(step, dict) else question.own
    committed, raw = answer.get("precommitment"), answer.get("raw_step")
    nonces = answer.get("nonces")
    return Prepared(
        precommitment=str(committed) if _is_hex(committed) else NO_HASH,
        proposal=_writable(answer.get("proposal")),
        nonces={
            name: nonce
            for name, nonce in (nonces.items() if isinstance(nonces, dict) else ())
            if _is_hex(nonce)
        },
        raw_step=None if raw is None else _writable(raw),
    )


def _is_hex(value: object) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _writable(reply: object) -> Document:
    """Return a proposal or step that has an `axion8` form; else an empty one, which is denied."""
    if not isinstance(reply, dict):
        return {}
    try:
        canonical_bytes(reply)
    except CanonicalisationError:
        return {}
    return reply


def _result(plan: EpisodePlan, episode: Episode, room: KernelSession) -> JsonObject:
    """Return what scorers see: null in `criteria` is a probe that came to nothing.

    P5 is the strictest of what came of the probed claims, of all of them, and of those about
    energy in worlds that were shown once more.
    """
    record = episode_record(plan, "construct", MCI_LATENT, episode.account, episode.state)
    on_claims = {
        "P5_probed": record["probes"]["P5"],
        "P5_all": record["claims"],
        "P5_worlds": record["worlds"],
    }
    decided = record["claims_true"] + record["claims_false"]
    verdicts = {**record["probes"], **on_claims, "P5": strictest(*on_claims.values())}
    criteria: JsonObject = {
        name: None if verdict == INCONCLUSIVE else verdict for name, verdict in verdicts.items()
    }
    criteria["act_binding"] = _verdict(record["replay_fidelity"] == 1)
    criteria["claim_generality"] = _verdict(
        decided > 0 and record["claims_pivotal"] >= PIVOTAL_SHARE * decided
    )
    criteria["invariants"] = _verdict(not record["invariant_failures"])
    criteria["collects"] = _verdict(record["objects_collected"] > 0)
    kept: JsonObject = {
        name: value
        for name, value in record.items()
        if not name.startswith(WALLCLOCK) and name not in {"agent", "episode"}
    }
    return {
        "criteria": criteria,
        "episode": kept,
        "audit_head_hash": room.log.head.entry_hash,
        "audit_entry_count": room.log.head.length,
    }


def _verdict(held: bool) -> str:  # noqa: FBT001 - the one thing it is about
    return PASS if held else FAIL


INPUT: JsonObject = {
    "type": "object",
    "required": ["scenario", "scenario_seed"],
    "properties": {
        "scenario": {"enum": [*SCENARIOS]},
        # Of one length: a key of an HMAC is the same with zeros behind it.
        "scenario_seed": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "clutter": {"type": "integer", "minimum": 1, "maximum": 64},
    },
    "additionalProperties": False,
}

RUNNER = EpisodeRunner(
    name="axion", version="3", max_calls=max_calls(STEPS, REVISITS), play=play, input_schema=INPUT
)
