"""Turns that were spoken for the tests of evaluators, and what is said of them."""

from typing import Any

from tests.theatre.debate.debates import ADVICE, a_debate
from tests.theatre.debate.scripted_runs import scripted
from theatre.debate.blind import BlindTurn, blind_turn
from theatre.debate.evaluators import EVALUATORS, crit, rca
from theatre.debate.evaluators.crit import quality_of
from theatre.debate.models import Debate, Turn
from theatre.engine.canonical_json import canonical_bytes

TURN = """### CLAIM
Wool should be bought, because the smaller clip leads to higher prices.

### DECISION
BUY | SIZE 3-5.5% | HORIZON 3-6 months

### REASON 1
Evidence: [DATA:clip] The clip fell by 14 % against the 30 % expected, and mills expect growth.
If the clip stays small then auction prices rise because mills hold little stock.
Falsifier: unsold bales above 5 %.

### REASON 2
Evidence: [ASSUMPTION] Uniform makers like wool.

### COUNTERARGUMENT
Synthetic yarn could lower demand for coarse grades. Yes.

### REBUTTAL
Synthetic yarn cannot replace fine grades.

### WHAT WOULD CHANGE MY MIND
Two weak auctions.

### FINAL CONSISTENCY CHECK
Claim and decision agree: BUY.
"""


def turn(content: str = TURN, **members: object) -> BlindTurn:
    given: dict[str, Any] = {
        "turn_id": "t",
        "turn_index": 3,
        "speaker_id": "ann",
        "content": content,
        "recommendation": ADVICE,
        **members,
    }
    return blind_turn(Turn.model_validate(given))


def of_one_turn(content: str) -> dict[str, Any]:
    first = {**a_debate()["turns"][0], "content": content}
    return a_debate(turns=[first], intervention_log=None)


def codes(spoken: BlindTurn, context: rca.Context | None = None) -> list[str]:
    return [one.code for one in rca.violations(spoken, context or rca.Context())]


def flaws(content: str, **members: object) -> list[str]:
    said = turn(content, **members)
    return [one.code for one in crit.findings_of(said, quality_of(said))]


def results(debate: Debate, names: tuple[str, ...]) -> list[bytes]:
    return [
        canonical_bytes(EVALUATORS[name](debate).as_document(artefact_sha256="")) for name in names
    ]


FORGEABLE: Any = scripted(5)
