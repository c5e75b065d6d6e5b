"""The runtime rules R1 … R16, each a named check over one artefact (docs/debate.md, "The rules").

R17 (a pair of ids once in a collection) and R18 (strict JSON) need more or less than an artefact:
they are in `theatre.debate.validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from theatre.debate.models import Debate, Finding
from theatre.debate.rules.identity import (
    Report,
    accepted_attempt,
    agent_ids,
    attempt_order,
    interventions,
    mode,
    retry_count,
    rounds,
    schema_version,
    speakers,
    turn_ids,
    turn_indices,
    turn_order,
)
from theatre.debate.rules.numbers import audit_numbers, final_answers, ranges, sizes

Check = Callable[[Debate], Iterator[Report]]

RULES: dict[str, Check] = {
    "R1": schema_version,
    "R2": agent_ids,
    "R3": speakers,
    "R4": turn_ids,
    "R5": turn_indices,
    "R6": turn_order,
    "R7": rounds,
    "R8": attempt_order,
    "R9": mode,
    "R10": accepted_attempt,
    "R11": retry_count,
    "R12": ranges,
    "R13": sizes,
    "R14": final_answers,
    "R15": audit_numbers,
    "R16": interventions,
}

SOFTENED = {
    "E_TURN_ORDER": "W_TURN_INDEX_NOT_MONOTONIC",
    "E_RETRY_COUNT_MISMATCH": "W_RETRY_COUNT_MISMATCH",
}
"""Errors that lenient reading turns into warnings."""


def rule_findings(debate: Debate, *, lenient: bool = False) -> list[Finding]:
    """Return what every rule finds, rule by rule; `lenient` softens errors of `SOFTENED`."""
    found = []
    for rule, check in RULES.items():
        for report in check(debate):
            code = SOFTENED.get(report.code, report.code) if lenient else report.code
            found.append(
                Finding(
                    pointer=report.pointer,
                    rule=rule,
                    code=code,
                    severity="error" if code.startswith("E_") else "warning",
                    detail=report.detail,
                )
            )
    return found
