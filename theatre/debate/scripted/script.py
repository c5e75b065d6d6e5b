"""Writes a structured turn from a scenario's facts. How complete it is comes from the caller."""

from __future__ import annotations

from collections.abc import Callable

from theatre.debate.actions import Action
from theatre.debate.scripted.scenarios import Fact, Scenario
from theatre.engine.canonical_json import JsonObject

_VERBS: dict[Action, str] = {"BUY": "bought", "SELL": "sold", "SHORT": "shorted", "HOLD": "held"}
_SIZES = ((1, 2), (2, 4), (3, 5), (4, 7))
_MONTHS = ((2, 4), (3, 6), (6, 9))

Present = Callable[[str], bool]
"""Tells whether the part of that name is written this time."""


def recommendation(action: Action, *, level: float) -> JsonObject:
    """Return a recommendation; `level` (0 … 1) chooses size, horizon and conviction."""
    low, high = _SIZES[int(level * len(_SIZES)) % len(_SIZES)]
    first, last = _MONTHS[int(level * 12) % len(_MONTHS)]
    return {
        "action": action,
        "position_size_pct_min": low,
        "position_size_pct_max": high,
        "horizon_days_min": first * 30,
        "horizon_days_max": last * 30,
        "conviction": round(0.5 + 0.35 * level, 2),
        "raw_text": f"{action} | SIZE {low}-{high}% | HORIZON {first}-{last} months",
    }


def content(scenario: Scenario, action: Action, other: Action, line: str, present: Present) -> str:
    """Return a turn for `action` against `other`; `line` is its decision."""
    own, against = scenario.facts[action], scenario.facts[other][0]
    parts = [
        _section("CLAIM", _claim(scenario, action, own[0])),
        _section("DECISION", line),
        *(_reason(number, fact, present) for number, fact in enumerate(own, start=1)),
    ]
    if present("rebuttal"):
        parts += [
            _section("COUNTERARGUMENT", f"{against.figure} This {against.cause} could matter."),
            _section("REBUTTAL", f"The {against.cause} is real, but {own[0].why} outweighs it."),
        ]
    parts.append(_section("ASSUMPTIONS", "Terms of trade stay as they were this year."))
    parts.append(_section("EPISTEMIC CLARITY", "The figures are read; the outlook is inferred."))
    if present("mind"):
        parts.append(_section("WHAT WOULD CHANGE MY MIND", own[1].falsifier))
    parts.append(_section("FINAL CONSISTENCY CHECK", f"Claim and decision agree: {action}."))
    return "\n\n".join(parts)


def trace(scenario: Scenario, action: Action) -> str:
    """Return the reasoning that leads to `action`."""
    first, second = scenario.facts[action][:2]
    return (
        f"1. {first.figure} 2. {first.cause} leads to {first.effect}. 3. {second.figure} "
        f"4. So the answer is {action}."
    )


def _claim(scenario: Scenario, action: Action, fact: Fact) -> str:
    return (
        f"{scenario.subject} should be {_VERBS[action]}, because {fact.cause} "
        f"leads to {fact.effect}."
    )


def _reason(number: int, fact: Fact, present: Present) -> str:
    tag = f"[DATA:{fact.source}]" if present(f"data {number}") else "[ASSUMPTION]"
    lines = [f"Evidence: {tag} {fact.figure}"]
    if present(f"mechanism {number}"):
        lines.append(f"Mechanism: {fact.cause} leads to {fact.effect}, and {fact.why} adds to it.")
    if present(f"condition {number}"):
        lines.append(
            f"If {fact.cause} goes on then {fact.effect} follows because {fact.why} holds."
        )
    if present(f"falsifier {number}"):
        lines.append(f"Falsifier: {fact.falsifier}")
    return _section(f"REASON {number}", "\n".join(lines))


def _section(name: str, text: str) -> str:
    return f"### {name}\n{text}"
