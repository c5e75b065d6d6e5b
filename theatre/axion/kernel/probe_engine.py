"""P5-MCI: whether the published model does what the published claims say of a changed factor.

A function of one closed document (`schemas/ext/p5_input.json`) in which no world has room. What
it can show is that claims and model agree; not that the model is what the agent acts by. The kernel
runs it as a process: closed documents in, verdicts out, nothing else to look at.
"""

import hmac
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from theatre.axion.common.canonical_json import canonical_bytes
from theatre.axion.common.errors import EffectSyntaxError
from theatre.axion.common.hashing import Document, Draws, commitment, factor_digest
from theatre.axion.common.schema_load import violations
from theatre.axion.kernel.effect_dsl import effect_of, mutate
from theatre.axion.kernel.frames import read_frame, write_frame
from theatre.axion.kernel.replay import LinearModel, model_of, units
from theatre.engine.canonical_json import parse_object
from theatre.engine.errors import TheatreError

PROTOCOL = "p5-mci@1"
MOST_CHECKS = 3
PASS, FAIL, INCONCLUSIVE = "PASS", "FAIL", "INCONCLUSIVE"


def p5_input(
    proposal: Mapping[str, Any], *, episode_id: str, step: int, nonce: str, seed: bytes
) -> Document:
    """Return the closed document for one step: of the proposal only what P5-MCI may see."""
    trace, interface = proposal["trace"], proposal["interface"]
    return {
        "protocol": PROTOCOL,
        "episode_id": episode_id,
        "step": step,
        "interface": interface,
        "factor_dim": interface["factor_dim"],
        "factors": trace["factors"],
        "replay_model": trace["replay_model"],
        "claims": [claim for claim in trace["causal_claims"] if claim["var"].startswith("F:")],
        "factor_snapshot": trace["factor_snapshot"],
        "revealed_nonce": nonce,
        "challenge_seed": seed.hex(),
    }


def examine(document: Document) -> Document:
    """Return the verdict on one closed document, with every check.

    Claims are tried in an order drawn from `challenge_seed` until three gave an answer. FAIL:
    the snapshot does not open, there is no claim, or one claim is false or unreadable. PASS: one
    at least is true and none false. INCONCLUSIVE: no mutation changed anything.
    """
    model = model_of(document["replay_model"], document["factor_dim"])
    factors = [units(factor) for factor in document["factors"]]
    choice = model.choice(factors)
    claims = document["claims"]
    order = Draws(bytes.fromhex(document["challenge_seed"])).shuffled(range(len(claims)))
    checks = until_decided(
        check_claim(place, claims[place], model, factors, choice) for place in order
    )
    return verdict_on(checks, protocol=PROTOCOL, opened=_opens(document), choice=choice)


def until_decided(checks: Iterable[Document]) -> list[Document]:
    """Return the first checks, until three of them gave an answer."""
    taken: list[Document] = []
    for check in checks:
        taken.append(check)
        if sum(one["result"] != INCONCLUSIVE for one in taken) == MOST_CHECKS:
            break
    return taken


def verdict_on(checks: Sequence[Document], *, protocol: str, opened: bool, choice: str) -> Document:
    """Return the verdict that `checks` come to; verdicts as in `examine`."""
    results = Counter(check["result"] for check in checks)
    failed = results[FAIL] or not checks or not opened
    return {
        "protocol": protocol,
        "verdict": FAIL if failed else (PASS if results[PASS] else INCONCLUSIVE),
        "snapshot_opens": opened,
        "choice": choice,
        "attempted": len(checks),
        "passed": results[PASS],
        "failed": results[FAIL],
        "inconclusive": results[INCONCLUSIVE],
        "mirrored": sum(check["mirrored"] for check in checks),
        "pivotal": sum(check["pivotal"] for check in checks),
        "checks": checks,
    }


def _opens(document: Document) -> bool:
    """Return whether the snapshot commits to these very factors under the revealed nonce."""
    spec, snapshot = document["interface"], document["factor_snapshot"]
    digest = factor_digest(document["factors"], spec)
    expected = commitment(document["revealed_nonce"], digest, spec)
    return hmac.compare_digest(
        expected + digest, snapshot["commitment"] + snapshot["factor_digest"]
    )


def check_claim(
    place: int, claim: Mapping[str, Any], model: LinearModel, factors: list[int], choice: str
) -> Document:
    """Return what comes of one claim at `factors` (units), where `model` chooses `choice`.

    FAIL: it is false or unreadable. INCONCLUSIVE: what it would change stays as it is.
    """
    check: Document = {"claim": place, "mirrored": False, "pivotal": False, "replayed": None}
    try:
        effect = effect_of(claim)
    except EffectSyntaxError as error:
        return {**check, "result": FAIL, "reason": str(error)}
    if effect.factor >= len(factors):
        return {**check, "result": FAIL, "reason": f"expected a factor, got F:{effect.factor}"}
    mutation = mutate(factors[effect.factor], effect.change, effect.value)
    if mutation is None:
        return {**check, "result": INCONCLUSIVE, "reason": "the mutation changes nothing"}
    changed = factors.copy()
    changed[effect.factor] = mutation.value
    replayed = model.choice(changed)
    return {
        "claim": place,
        "mirrored": mutation.mirrored,
        "pivotal": replayed != choice,
        "replayed": replayed,
        "result": PASS if replayed == effect.action else FAIL,
        "reason": f"expected {effect.action}, the model chooses {replayed}",
    }


def answer(data: bytes) -> bytes:
    """Return the verdict on one document, canonical, or `{"refused": why}`."""
    try:
        document = parse_object(data)
        if violations("ext/p5_input", document):
            return canonical_bytes({"refused": "expected a closed P5 input, got something else"})
        return canonical_bytes(examine(document))
    except TheatreError as error:
        return canonical_bytes({"refused": str(error)})


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer message after message until the other end closes."""
    while (data := read_frame(requests)) is not None:
        write_frame(answers, answer(data))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
