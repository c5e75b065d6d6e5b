"""Evaluators: pure functions over one artefact, each with its own view of it, no two alike.

`crit`, `rca` and `t3` see the blind projection; `pid` sees stored controller values alone;
`raudit` is the only one that is given labels. None of them changes the artefact.
"""

from collections.abc import Callable, Mapping, Sequence

from theatre.debate.blind import blind
from theatre.debate.evaluators import crit, pid, raudit, rca, t3
from theatre.debate.evaluators.results import Evaluation
from theatre.debate.models import Action, Debate
from theatre.debate.validation import DebateArtefact
from theatre.engine.canonical_json import JsonObject

EVALUATORS: Mapping[str, Callable[[Debate], Evaluation]] = {
    "crit": lambda debate: crit.evaluate(blind(debate)),
    "rca": lambda debate: rca.evaluate(blind(debate)),
    "t3": lambda debate: t3.evaluate(blind(debate)),
    "pid": pid.evaluate,
}
"""The evaluators that need no labels, by name."""


RAUDIT = "raudit"
"""The evaluator that is given labels, and says nothing without."""

NAMES = (*EVALUATORS, RAUDIT)


def evaluate(
    artefact: DebateArtefact, names: Sequence[str], labels: Mapping[str, Action] | None = None
) -> list[JsonObject]:
    """Return the results of the evaluators `names`, documents that name the artefact's hash.

    `labels` are the true action by speaker, or by `*` for all; `raudit` alone is given them.
    """
    every: dict[str, Callable[[Debate], Evaluation]] = {
        **EVALUATORS,
        RAUDIT: lambda debate: raudit.evaluate(debate, labels or {}),
    }
    return [
        every[name](artefact.debate).as_document(artefact_sha256=artefact.sha256) for name in names
    ]


__all__ = ["EVALUATORS", "NAMES", "RAUDIT", "Evaluation", "evaluate", "raudit"]
