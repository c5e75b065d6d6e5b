"""P5' of the interface `full`: the agent is asked again, in a world with one variable changed.

The agent's choice is a pure function of a state, so asking it about a world that is not leaves
no trace in the one that is.
"""

import hmac
import re
from collections.abc import Callable, Mapping

from theatre.axion.common.hashing import Document, Draws, commitment
from theatre.axion.env.gridworld import CLAIMABLE, mutated_state
from theatre.axion.env.normalize_state import FOCUS_VARS, GridState
from theatre.axion.interfaces.full import state_digest
from theatre.axion.kernel.probe_engine import FAIL, INCONCLUSIVE, PASS, until_decided, verdict_on
from theatre.axion.kernel.replay import ACTIONS

PROTOCOL = "p5-full@1"
_SENTENCE = re.compile(
    r"IF (?P<variable>[a-z.]+) (?P<change>INC|DEC|UNSET) "
    rf"THEN CHOICE (?P<action>{'|'.join(ACTIONS)})"
)


def examine_full(
    proposal: Document,
    *,
    state: GridState,
    choose: Callable[[GridState], str],
    nonces: Mapping[str, str],
    seed: bytes,
) -> Document:
    """Return the verdict on the claims of `proposal`, which was made in `state`.

    Verdicts mean what they mean in P5-MCI; the fork snapshot must open to the true state.
    """
    trace, choice = proposal["trace"], choose(state)
    checks = until_decided(
        check_full_claim(claim, state, choose, choice)
        for claim in Draws(seed).shuffled(trace["causal_claims"])
    )
    opened = all(_opens(fork, state, nonces) for fork in trace["fork_snapshots"])
    return verdict_on(checks, protocol=PROTOCOL, opened=opened, choice=choice)


def check_full_claim(
    claim: Document, state: GridState, choose: Callable[[GridState], str], choice: str
) -> Document:
    """Return what comes of one claim in `state`, where the agent chooses `choice`."""
    sentence = claim["expected_effect_on_choice"]
    match = _SENTENCE.fullmatch(sentence)
    check: Document = {"claim": sentence, "mirrored": False, "pivotal": False, "replayed": None}
    if match is None or (match["variable"], match["change"]) not in CLAIMABLE:
        reason = f"expected IF <variable> <change> THEN CHOICE <ACTION>, got {sentence!r:.100}"
        return {**check, "result": FAIL, "reason": reason}
    other = mutated_state(state, match["variable"], match["change"])
    if other is None:
        return {**check, "result": INCONCLUSIVE, "reason": "the mutation changes nothing"}
    replayed = choose(other)
    return {
        "claim": sentence,
        "mirrored": False,
        "pivotal": replayed != choice,
        "replayed": replayed,
        "result": PASS if replayed == match["action"] else FAIL,
        "reason": f"expected {match['action']}, the agent chooses {replayed}",
    }


def _opens(fork: Document, state: GridState, nonces: Mapping[str, str]) -> bool:
    nonce, names = nonces.get(fork["nonce_ref"]), fork["focus_vars"]
    if nonce is None or not set(names) <= set(FOCUS_VARS):
        return False
    digest = state_digest(state, names)
    expected = commitment(nonce, digest, names) + digest
    return hmac.compare_digest(expected, fork["commitment"] + fork["state_digest"])
