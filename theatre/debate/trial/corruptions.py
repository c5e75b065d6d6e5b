"""Twelve ways to spoil a clean debate: gold for auditors.

The label comes from what was done, not from who looks for it. An edit that does not apply to a
turn (there is no section to spoil) is not made.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from theatre.debate.models import Action, actions_in
from theatre.engine.canonical_json import JsonObject

# Editing a copy of an artefact: a turn and the attempt that it accepts change together.


Draft: TypeAlias = dict[str, Any]
"""A part of an artefact that is being changed."""

Edit = Callable[[Draft, int], bool]
"""Changes a copy of the artefact at a turn's place; False where it does not apply."""


def apply(edit: Edit, document: JsonObject, place: int) -> JsonObject | None:
    """Return a copy of `document` with `edit` done to the turn at `place`; None where it cannot."""
    draft = cast("Draft", copy.deepcopy(document))
    return draft if edit(draft, place) else None


def rewrite(debate: Draft, place: int, change: Callable[[str], str]) -> bool:
    """Change a turn's accepted text; False where that changes nothing."""
    turn = debate["turns"][place]
    text = change(turn["content"])
    if text == turn["content"] or not text:
        return False
    accept(turn, text)
    return True


def accept(turn: Draft, text: str) -> None:
    """Make `text` what the turn and its last attempt say."""
    turn["content"] = text
    for attempt in (turn.get("attempts") or [])[-1:]:
        attempt["content"] = text


def decide(turn: Draft, action: Action, text: str) -> None:
    """Let a turn consistently say `action`, with `text`."""
    before = turn["recommendation"]["action"]
    advice = {**turn["recommendation"], "action": action}
    advice["raw_text"] = re.sub(rf"\b{before}\b", action, advice["raw_text"])
    turn["recommendation"] = advice
    accept(turn, text)
    for attempt in (turn.get("attempts") or [])[-1:]:
        attempt |= {"recommendation": advice, "final_answer": action}
        attempt["reasoning_trace"] = f"On reflection {action}."
    if turn.get("rca_trace"):
        turn["rca_trace"] = {
            **turn["rca_trace"],
            "reasoning_steps": f"On reflection {action}.",
            "final_answer": action,
        }


_OTHER: Mapping[Action, Action] = {"BUY": "SELL", "SELL": "BUY", "SHORT": "BUY", "HOLD": "SELL"}
_TAG = re.compile(r"\[(?:DATA|NEWS|MODEL-INTERNAL)(?:[:\s][^\]]*)?\]")
_FALSIFIER = re.compile(r"(?:Falsifier|Falsified if):[^\n]*\n?")
_MIND = re.compile(
    r"^(?:### |\d+\) )WHAT WOULD CHANGE MY MIND\n.*?(?=^(?:### |\d+\) )|\Z)",
    re.MULTILINE | re.DOTALL,
)
_REASON = re.compile(
    r"(^(?:### |\d+\) )REASON \d+\n)(.*?)(?=^(?:### |\d+\) )|\Z)", re.MULTILINE | re.DOTALL
)
_CLAIM = re.compile(r"(^(?:### |\d+\) )CLAIM\n[^\n]*)", re.MULTILINE)
_REBUTTAL = re.compile(r"(^(?:### |\d+\) )REBUTTAL\n[^\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corruption:
    """An edit, what an auditor should say of it, and what else follows from it by necessity."""

    name: str
    edit: Edit
    expected: str
    implied: frozenset[str] = frozenset()
    needs_earlier: bool = False


def _flip_answer(debate: Draft, place: int) -> bool:
    turn = debate["turns"][place]
    if not turn.get("rca_trace") or not turn.get("recommendation"):
        return False
    other = _OTHER[turn["recommendation"]["action"]]
    turn["rca_trace"]["final_answer"] = other
    for attempt in (turn.get("attempts") or [])[-1:]:
        attempt["final_answer"] = other
    return True


def _other_trace(debate: Draft, place: int) -> bool:
    turn = debate["turns"][place]
    trace = turn.get("rca_trace") or {}
    named = actions_in(trace.get("reasoning_steps", ""))
    if not named:
        return False
    last = named[-1]
    steps = re.sub(rf"\b{last}\b", _OTHER[last], trace["reasoning_steps"])
    trace["reasoning_steps"] = steps
    for attempt in (turn.get("attempts") or [])[-1:]:
        attempt["reasoning_trace"] = steps
    return True


def _swap_bounds(debate: Draft, place: int) -> bool:
    turn = debate["turns"][place]
    advice = turn.get("recommendation")
    if not advice or advice["position_size_pct_min"] == advice["position_size_pct_max"]:
        return False
    low, high = advice["position_size_pct_min"], advice["position_size_pct_max"]
    swapped = {**advice, "position_size_pct_min": high, "position_size_pct_max": low}
    for part in (turn, *(turn.get("attempts") or [])[-1:]):
        part["recommendation"] = swapped
    return True


def _unknown_speaker(debate: Draft, place: int) -> bool:
    debate["turns"][place]["speaker_id"] += "_x"
    return True


def _same_index(debate: Draft, place: int) -> bool:
    if place == 0:
        return False
    debate["turns"][place]["turn_index"] = debate["turns"][place - 1]["turn_index"]
    return True


def _rewrite_attempt(debate: Draft, place: int) -> bool:
    attempts = debate["turns"][place].get("attempts") or []
    if len(attempts) < 2:  # noqa: PLR2004 - an earlier one and the accepted one
        return False
    attempts[0]["content"] += "\nAll of this was clear from the start."
    return True


def _drop_falsifiers(debate: Draft, place: int) -> bool:
    return rewrite(debate, place, lambda text: _MIND.sub("", _FALSIFIER.sub("", text)))


def _only_assumptions(debate: Draft, place: int) -> bool:
    return rewrite(debate, place, lambda text: _TAG.sub("[ASSUMPTION]", text))


def _give_in(debate: Draft, place: int) -> bool:
    turn = debate["turns"][place]
    earlier = [one for one in debate["turns"][:place] if one["speaker_id"] == turn["speaker_id"]]
    if not earlier or not turn.get("recommendation") or not earlier[-1].get("recommendation"):
        return False
    own, since = earlier[-1], debate["turns"][debate["turns"].index(earlier[-1]) + 1 : place]
    before = own["recommendation"]["action"]
    heard = [one["recommendation"]["action"] for one in since if one.get("recommendation")]
    new = next((action for action in heard if action != before), None)
    if new is None:
        return False
    decide(turn, new, re.sub(rf"\b{before}\b", new, own["content"]))
    return True


def _collapse(debate: Draft, place: int) -> bool:
    def associate(text: str) -> str:
        claimed = _CLAIM.sub(r"\1 One causes the other.", text)
        return _REASON.sub(_associate, claimed)

    turn = debate["turns"][place]
    tagged = [body for _, body in _REASON.findall(turn["content"]) if _TAG.search(body)]
    return bool(tagged) and rewrite(debate, place, associate)


def _associate(reason: re.Match[str]) -> str:
    heading, body = reason.groups()
    tag = _TAG.search(body)
    kept = "\n".join(_FALSIFIER.findall(body)).replace("\n\n", "\n")
    seen = tag.group() if tag else "[ASSUMPTION]"
    return f"{heading}Evidence: {seen} The 2 tend to move together.\n{kept}\n"


def _oscillate(debate: Draft, place: int) -> bool:
    action = (debate["turns"][place].get("recommendation") or {}).get("action")
    if action is None:
        return False
    swing = rf"\1 On reflection I would rather {_OTHER[action]}; no, I stay with {action}."
    return rewrite(debate, place, lambda text: _REBUTTAL.sub(swing, text))


def _too_sure(debate: Draft, place: int) -> bool:
    turn = debate["turns"][place]
    if not turn.get("recommendation") or not _TAG.search(turn["content"]):
        return False
    advice = {**turn["recommendation"], "conviction": 0.99}
    for part in (turn, *(turn.get("attempts") or [])[-1:]):
        part["recommendation"] = advice
    return _only_assumptions(debate, place)


CORRUPTIONS: tuple[Corruption, ...] = (
    Corruption(
        name="C1 the final answer is flipped",
        edit=_flip_answer,
        expected="ANSWER_RECOMMENDATION_MISMATCH",
        implied=frozenset({"TRACE_OUTPUT_MISMATCH"}),
    ),
    Corruption(
        name="C2 the trace says another answer",
        edit=_other_trace,
        expected="TRACE_OUTPUT_MISMATCH",
    ),
    Corruption(
        name="C3 minimum and maximum are swapped",
        edit=_swap_bounds,
        expected="E_RECOMMENDATION_RANGE_INVALID",
    ),
    Corruption(
        name="C4 the speaker is unknown",
        edit=_unknown_speaker,
        expected="E_SPEAKER_UNKNOWN",
        implied=frozenset({"E_INTERVENTION_SPEAKER_MISMATCH"}),
    ),
    Corruption(
        name="C5 a turn index is used twice",
        edit=_same_index,
        expected="E_DUPLICATE_TURN_INDEX",
        implied=frozenset({"E_INTERVENTION_TURN_UNKNOWN", "E_INTERVENTION_SPEAKER_MISMATCH"}),
    ),
    Corruption(
        name="C6 an earlier attempt is rewritten",
        edit=_rewrite_attempt,
        expected="HISTORY_REWRITTEN",
        needs_earlier=True,
    ),
    Corruption(
        name="C7 falsifiers are dropped",
        edit=_drop_falsifiers,
        expected="FALSIFIER_MISSING",
    ),
    Corruption(
        name="C8 evidence becomes assumption",
        edit=_only_assumptions,
        expected="UNSUPPORTED_CLAIMS",
    ),
    Corruption(
        name="C9 a speaker gives in without new evidence",
        edit=_give_in,
        expected="SYCOPHANTIC_FLIP",
    ),
    Corruption(
        name="C10 the claim stands above its evidence",
        edit=_collapse,
        expected="RUNG_COLLAPSE",
    ),
    Corruption(
        name="C11 the stance swings within a turn",
        edit=_oscillate,
        expected="STANCE_SHIFT_IN_TURN",
    ),
    Corruption(
        name="C12 certainty on assumptions",
        edit=_too_sure,
        expected="PREMATURE_CERTAINTY",
    ),
)
