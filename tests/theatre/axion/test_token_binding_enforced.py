"""No token, no actuation: a token moves the world by the one step it was made for, once."""

import copy
import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.theatre.axion.proposed import prepared, world
from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import ActuationDeniedError
from theatre.axion.common.hashing import Document, hash_json, trace_hash
from theatre.axion.env.gridworld import GridWorld, step_of, successor
from theatre.axion.kernel.actuation import ActuationPort
from theatre.axion.kernel.audit_log import AuditLog, verify_lines
from theatre.axion.kernel.capability import TokenLedger, TokenMint, kernel_secret, request_for

SECRET = kernel_secret(b"0")
LASTING: Document = {
    "scope": {
        "allowed_ops": ["move"],
        "rate_limit": {"max_calls": 1, "per_ms": 50},
        "expiry_ms": 10_000,
    }
}
"""One step in 50 ms, for ten seconds."""


class Door:
    """A world behind a port, a clock to set, and the proposals and tokens to try on it."""

    def __init__(self) -> None:
        self.now = 1_000
        self.stream = io.BytesIO()
        log = AuditLog(self.stream, seed="door", clock=lambda: self.now)
        self.mint = TokenMint(SECRET)
        self.ledger = TokenLedger(TokenMint(SECRET))
        port = ActuationPort(ledger=self.ledger, log=log, clock=lambda: self.now)
        self.world: GridWorld = port.open(world())
        self.proposal = prepared().proposal
        self.steps: list[Document] = self.proposal["payload"]["plan"]["steps"]
        self.token = self.token_for(self.proposal)

    def token_for(self, proposal: Document, request: Document | None = None) -> Document:
        return self.mint.token(
            request or proposal["requested_capabilities"][0],
            proposal_hash=hash_json(proposal),
            trace_hash=trace_hash(proposal["trace"]),
            now=self.now,
        )

    def plan(self, *actions: str) -> None:
        """Let the proposal have several steps, and a token for its moves."""
        self.proposal = copy.deepcopy(self.proposal)
        self.steps = [step_of(action) for action in actions]
        self.proposal["payload"]["plan"]["steps"] = self.steps
        self.token = self.token_for(self.proposal, request_for("move", len(actions), "to walk"))

    def refusals(self) -> list[str]:
        """Return the reasons that the log has for its denials; the chain must hold."""
        lines = self.stream.getvalue().splitlines(keepends=True)
        verify_lines(lines)
        entries = [json.loads(line) for line in lines]
        assert {entry["event"] for entry in entries} <= {"CAPABILITY_DENIED"}
        return [entry["kernel_decision"]["notes"] for entry in entries]


def refused(door: Door, token: Any, *, place: int = 0, step: Document | None = None) -> str:  # noqa: ANN401 - anything may be presented as a token
    """Return why the world refuses; it must be left as it was, and the log must say so."""
    before = door.world.state
    with pytest.raises(ActuationDeniedError) as denied:
        door.world.execute(token, door.proposal, place, step or door.steps[0])
    assert door.world.state == before
    assert door.refusals()[-1] == denied.value.reason
    return denied.value.reason


def test_the_right_token_does_the_right_step_and_nothing_is_denied() -> None:
    door = Door()
    door.world.execute(door.token, door.proposal, 0, door.steps[0])
    assert door.world.state == successor(world(), door.steps[0])
    assert door.refusals() == []


def test_a_world_has_no_way_to_step_but_with_a_token() -> None:
    door = Door()
    public = {name for name in dir(door.world) if not name.startswith("_")}
    assert public == {"execute", "execute_raw", "state"}
    assert GridWorld.__slots__ == ("_execute", "_look", "_refuse")
    with pytest.raises(AttributeError):
        door.world.state = world("social")  # type: ignore[misc]  # that it cannot be set is the point
    with pytest.raises(ActuationDeniedError) as denied:
        door.world._execute(None, door.proposal, 0, door.steps[0])  # noqa: SLF001 - what lies below asks too
    assert denied.value.reason == "no-token"


def test_a_raw_execution_is_recorded_and_does_nothing() -> None:
    door = Door()
    with pytest.raises(ActuationDeniedError) as denied:
        door.world.execute_raw(door.steps[0])
    assert (denied.value.reason, door.refusals(), door.world.state) == ("raw", ["raw"], world())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: None, "no-token"),
        (lambda _: {}, "malformed"),
        (lambda t: {**t, "note": "please"}, "malformed"),
        (lambda t: {**t, "signature": t["signature"] + "\n" * 64}, "signature"),
        (lambda t: {**t, "signature": "0" * 64}, "signature"),
        (lambda t: {**t, "expires_at_ms": t["expires_at_ms"] + 1}, "signature"),
        (lambda t: {**t, "capability": "pickup"}, "signature"),
        (lambda t: {**t, "scope": {**t["scope"], "allowed_ops": ["drop"]}}, "signature"),
        (lambda t: {**t, "binding": {**t["binding"], "trace_hash": "0" * 64}}, "signature"),
    ],
)
def test_a_token_that_is_missing_made_up_or_widened_is_refused(
    change: Callable[[Document], Document | None], reason: str
) -> None:
    door = Door()
    assert refused(door, change(door.token)) == reason


def test_a_token_of_another_kernel_is_refused() -> None:
    door = Door()
    door.mint = TokenMint(kernel_secret(b"1"))
    assert refused(door, door.token_for(door.proposal)) == "signature"


@pytest.mark.parametrize("name", ["proposal_hash", "trace_hash", "scope_hash"])
def test_each_binding_counts_though_the_kernel_itself_signed_the_token(name: str) -> None:
    door = Door()
    unsigned = {key: item for key, item in door.token.items() if key != "signature"}
    unsigned["binding"] = {**unsigned["binding"], name: "0" * 64}
    # The required formula: SHA-256 of the secret and the token without its signature.
    signature = hashlib.sha256(SECRET + canonical_bytes(unsigned)).hexdigest()
    assert refused(door, {**unsigned, "signature": signature}) == "binding"


def test_a_token_ends_when_it_expires() -> None:
    door = Door()
    door.now = door.token["expires_at_ms"]
    assert refused(door, door.token) == "expired"
    door.now = door.token["issued_at_ms"] - 1
    assert refused(door, door.token) == "expired"


def test_a_revoked_token_is_refused() -> None:
    door = Door()
    door.ledger.revoke(door.token["revocation_id"])
    assert refused(door, door.token) == "revoked"


def test_a_replayed_token_is_refused() -> None:
    door = Door()
    door.world.execute(door.token, door.proposal, 0, door.steps[0])
    assert refused(door, door.token) == "rate-limit"


def test_a_second_token_for_the_same_proposal_does_not_repeat_its_step() -> None:
    door = Door()
    door.world.execute(door.token, door.proposal, 0, door.steps[0])
    assert refused(door, door.token_for(door.proposal)) == "cursor"


def test_a_token_for_one_direction_moves_in_no_other() -> None:
    door = Door()
    own = door.steps[0]
    assert own["op"] == "move"
    for direction in {"N", "S", "E", "W"} - {own["args"]["direction"]}:
        other = {"op": "move", "args": {"direction": direction}}
        assert refused(door, door.token, step=other) == "step"


def test_steps_of_a_plan_are_done_once_each_and_in_order() -> None:
    door = Door()
    door.plan("MOVE_N", "MOVE_S", "MOVE_N")
    assert refused(door, door.token, place=1, step=door.steps[1]) == "cursor"
    door.world.execute(door.token, door.proposal, 0, door.steps[0])
    assert refused(door, door.token, place=0, step=door.steps[0]) == "cursor"
    assert refused(door, door.token, place=1, step=door.steps[0]) == "step"
    door.world.execute(door.token, door.proposal, 1, door.steps[1])
    door.world.execute(door.token, door.proposal, 2, door.steps[2])
    assert refused(door, door.token, place=3, step=door.steps[0]) == "rate-limit"


def test_behind_the_last_step_there_is_none_though_the_token_has_uses_left() -> None:
    door = Door()
    (step,) = door.steps
    door.token = door.token_for(door.proposal, request_for(step["op"], 2, "to go on"))
    door.world.execute(door.token, door.proposal, 0, step)
    assert refused(door, door.token, place=1, step=step) == "cursor"


def test_a_token_may_be_used_so_often_in_its_time_and_then_again() -> None:
    door = Door()
    door.plan("MOVE_N", "MOVE_S")
    door.token = door.token_for(door.proposal, {**request_for("move", 1, "to walk"), **LASTING})
    door.world.execute(door.token, door.proposal, 0, door.steps[0])
    door.now += 49
    assert refused(door, door.token, place=1, step=door.steps[1]) == "rate-limit"
    door.now += 1
    door.world.execute(door.token, door.proposal, 1, door.steps[1])


def test_an_op_outside_the_tokens_scope_is_refused_though_the_plan_has_it() -> None:
    door = Door()
    door.plan("PICKUP")
    assert refused(door, door.token) == "scope"


@pytest.mark.parametrize(
    "edit",
    [
        lambda p: p["trace"]["nodes"][0].update(summary="another thought"),
        lambda p: p["payload"].update(intent="another intent"),
        lambda p: p["env"].update(tick=1),
    ],
)
def test_a_token_does_nothing_for_another_proposal(edit: Callable[[Document], Any]) -> None:
    door = Door()
    door.proposal = copy.deepcopy(door.proposal)
    edit(door.proposal)
    assert refused(door, door.token) == "binding"
