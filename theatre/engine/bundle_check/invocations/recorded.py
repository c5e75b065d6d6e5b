"""What an invocation record says, read without trust: the first round, its answer, the repeat.

Here nothing is judged: what is missing or misshapen is NOTHING, and the checks say so.
"""

from __future__ import annotations

from theatre.engine.bundle_check.reading.json_values import Nothing, at, same_json
from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import InvocationStatus

FIRST, REPEATED = 0, 1
"""The `repeat` of the calls of a first round, and of a second one."""


EPISODE_RESULT = "episode_result"
"""The member in which the runner of an interactive episode leaves its result."""

JUDGEMENTS = "judgements"
"""The member with the exchanges about each judged criterion."""


def calls_of(record: JsonObject) -> list[JsonValue]:
    """Return the calls of a record, in order; none where it holds no array of them."""
    calls = at(record, "calls")
    return calls if isinstance(calls, list) else []


def round_of(record: JsonObject, repeat: int) -> list[JsonValue]:
    """Return the calls of one round, in order."""
    return [call for call in calls_of(record) if same_json(at(call, "repeat"), repeat)]


def answering_call(record: JsonObject) -> JsonValue | Nothing:
    """Return the call whose answer is the episode's: the last one of the first round."""
    return at(list(round_of(record, FIRST)), -1)


def last_attempt(call: JsonValue | Nothing) -> JsonValue | Nothing:
    """Return the attempt that a call ended with."""
    return at(call, "attempts", -1)


def outputs_of(record: JsonObject, repeat: int) -> list[JsonObject]:
    """Return the outputs of one round, up to the first call that did not succeed.

    Of an interactive episode: what its runner made of it, in the place of its one output.
    """
    played = at(record, EPISODE_RESULT)
    if not isinstance(played, Nothing):
        return [played] if isinstance(played, dict) else []
    outputs: list[JsonObject] = []
    for call in round_of(record, repeat):
        response = at(last_attempt(call), "response")
        output = at(response, "output_data")
        succeeded = at(response, "status") == InvocationStatus.SUCCESS.value
        if not succeeded or not isinstance(output, dict):
            break
        outputs.append(output)
    return outputs


def judgements_of(record: JsonObject) -> dict[str, list[JsonObject]]:
    """Return criterion → exchanges, of those that are objects."""
    judgements = at(record, JUDGEMENTS)
    found: dict[str, list[JsonObject]] = {}
    for criterion, exchanges in judgements.items() if isinstance(judgements, dict) else ():
        told = exchanges if isinstance(exchanges, list) else []
        found[criterion] = [exchange for exchange in told if isinstance(exchange, dict)]
    return found


def differs(record: JsonObject) -> bool:
    """Tell whether an episode was called a second time and not answered the same at every hop."""
    if not round_of(record, REPEATED):
        return False
    first: list[JsonValue] = [*outputs_of(record, FIRST)]
    return not same_json(first, [*outputs_of(record, REPEATED)])
