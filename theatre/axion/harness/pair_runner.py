"""The episode runner `axion_pair`: two constructs through the same world, one after the other.

World, schedule of the probes, challenges, baits and the agents' seed are the same for both, so what
they come to can be compared pair by pair (`paired_separation`).
"""

from collections.abc import Generator
from typing import Any, cast

from theatre.axion.harness.probes import Probe
from theatre.axion.harness.theatre_runner import INPUT, max_calls, questions
from theatre.axion.kernel.probe_engine import FAIL, PASS
from theatre.engine.canonical_json import JsonObject
from theatre.engine.models import EpisodePlay, EpisodeRunner, Turn

STEPS, REVISITS = 10, 3
"""Steps of each construct: two such plays are as many calls as a record has room for."""


def play(input_data: JsonObject, seed: str) -> EpisodePlay:
    """Play one world with both constructs of the chain: the honest one, then the other.

    `input_data` is as for `axion`. The result has a member for either, `honest` and `pseudo`, and
    `caught`.
    """
    honest = yield from _turns_of(0, input_data, seed)
    pseudo = yield from _turns_of(1, input_data, seed)
    return {"honest": honest, "pseudo": pseudo, "caught": is_caught(honest, pseudo)}


def is_caught(honest: JsonObject, pseudo: JsonObject) -> bool:
    """Return whether the audit distinguished the two in this world.

    The first passed every probe, so that passing was possible here. The second played by the rules
    (nothing that it proposed was denied but for the trap of P3) and failed a probe: who proposes
    nonsense is not caught but absent.
    """
    passed = cast("dict[str, bool | None]", honest["passed"])
    failed = cast("int", pseudo["failed_probes"])
    episode = cast("dict[str, Any]", pseudo["episode"])
    return passed["all"] is True and not episode["invariant_failures"] and failed > 0


def _turns_of(
    hop: int, input_data: JsonObject, seed: str
) -> Generator[Turn, JsonObject, JsonObject]:
    asking = questions(input_data, seed, steps=STEPS, revisits=REVISITS)
    question = next(asking)
    while True:
        answer = yield Turn(hop, question)
        try:
            question = asking.send(answer)
        except StopIteration as ended:
            return _side(ended.value)


def _side(result: JsonObject) -> JsonObject:
    """Return the result of one construct, with the values that are compared.

    `passed` is a verdict for the whole episode and for each probe, null for one that came to
    nothing; `failed_probes` is how many of the four it failed.
    """
    episode, criteria = (cast("dict[str, Any]", result[name]) for name in ("episode", "criteria"))
    probes = {probe.value: criteria[probe.value] for probe in Probe}
    decided: JsonObject = {
        name: verdict == PASS if verdict in {PASS, FAIL} else None
        for name, verdict in probes.items()
    }
    return {
        **result,
        "passed": {"all": episode["passed"], **decided},
        "failed_probes": sum(verdict == FAIL for verdict in probes.values()),
    }


RUNNER = EpisodeRunner(
    name="axion_pair",
    version="2",
    max_calls=2 * max_calls(STEPS, REVISITS),
    play=play,
    constructs=2,
    input_schema=INPUT,
)
