"""Precision, recall and reply accuracy as a judge is asked for them: one pass each.

Each is a generator that yields requests and is sent what came of them. The number of requests
follows from the change alone, and no answer of a judge can make a measure raise.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias, cast

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_json
from theatre.engine.models import ScoringCase
from theatre.engine.scoring.provider import at_path
from theatre.judging.panel import NotMeasurableError, Votes
from theatre.judging.rubrics import Asking, ordered
from theatre.verification.judge.controls import AnsweredControl, ControlPlan, plan_controls
from theatre.verification.judge.questions import RUBRICS, Change, change_of, read_change
from theatre.verification.lexical import SUMMARY_CHARACTERS, CoveredChanges, JudgedClaim

MAX_CLAIMS = 50
"""How many distinct claims a judge is asked about; more are not supported."""

CLAIM_CHARACTERS = 1_000
REPLY_CHARACTERS = 4_000
"""A judge is shown all of a claim or reply; a longer one is not supported, and wrong."""

QUESTION_CHARACTERS = 20_000
"""The longest question together with its answer: more is not a real question."""

MAX_CHANGES = 8
"""How many important changes of one part of a diff count."""

_CHANGE_CHARACTERS = 500
_REPLY_SCORES = {"right": Fraction(1), "partly": Fraction(1, 2), "wrong": Fraction(0)}


Measure: TypeAlias = Asking[Votes]
"""Comes to the votes of one judge, from 0 to 1, item by item; None where there is none to rate."""


def claim_verdicts(case: ScoringCase) -> Asking[list[JudgedClaim]]:
    """Return a verdict on each claim that counts; none where the answer is no array.

    Of several claims with the same words, but for case and white space, the last one is judged.
    Supported is what some part of the diff supports and none contradicts. A claim beyond
    MAX_CLAIMS, a longer one than CLAIM_CHARACTERS, and one that is no text, is not supported.
    """
    verdicts, _ = yield from verdicts_with_controls(case)
    return verdicts


def verdicts_with_controls(
    case: ScoringCase,
) -> Asking[tuple[list[JudgedClaim], list[AnsweredControl]]]:
    """Return the same, and what the judge says of the controls that ride along.

    A request of controls alone that has no usable answer costs no score.
    """
    change = _change(case)
    answer = case.answer if isinstance(case.answer, list) else []
    places = {
        " ".join(claim.split()).casefold(): place
        for place, claim in enumerate(answer)
        if isinstance(claim, str)
    }
    # All of a claim or nothing: behind what a judge is shown there could stand a lie.
    asked = [at for at in places.values() if len(cast("str", answer[at])) <= CLAIM_CHARACTERS]
    texts = {place: cast("str", answer[place]) for place in asked[:MAX_CLAIMS]}
    held: set[int] = set()
    controls: list[AnsweredControl] = []
    if texts:
        plan = plan_controls(case, change.diff, [*texts.values()], whole=not change.omitted)
        if plan.labelled_first:
            controls += yield from _about_set(case, plan)
        planted = dict(enumerate(plan.planted, start=len(answer)))
        shown = texts | {place: control.text for place, control in planted.items()}
        held = yield from _supported(case, change, shown)
        controls += [AnsweredControl(one, place in held) for place, one in planted.items()]
        if not plan.labelled_first:
            controls += yield from _about_set(case, plan)
    unreadable = (place for place, claim in enumerate(answer) if not isinstance(claim, str))
    judged = [
        JudgedClaim(place=place, supported=place in held)
        for place in (*places.values(), *unreadable)
    ]
    return judged, controls


def _about_set(case: ScoringCase, plan: ControlPlan) -> Asking[list[AnsweredControl]]:
    if not plan.labelled:
        return []
    change = change_of(plan.labelled_diff, cast("JsonObject", case.params["judge"]))
    texts = {place: control.text for place, control in enumerate(plan.labelled)}
    try:
        held = yield from _supported(case, change, texts)
    except NotMeasurableError:
        return [AnsweredControl(control, None) for control in plan.labelled]
    return [AnsweredControl(one, place in held) for place, one in enumerate(plan.labelled)]


def _supported(case: ScoringCase, change: Change, texts: dict[int, str]) -> Asking[set[int]]:
    """Ask about claims by place; return those that a part supports and none contradicts."""
    supported: set[int] = set()
    contradicted: set[int] = set()
    for part in change.in_parts():
        verdicts = yield from _verdicts(case, "claims", part, texts)
        supported |= {place for place, verdict in verdicts.items() if verdict == "supported"}
        contradicted |= {place for place, verdict in verdicts.items() if verdict == "contradicted"}
    return supported - contradicted


def precision(case: ScoringCase) -> Measure:
    """Return 1 or 0 for each distinct claim (`claim_verdicts`); None where nothing is claimed.

    0 where the answer is no array.
    """
    judged = yield from claim_verdicts(case)
    if not isinstance(case.answer, list):
        return [Fraction(0)]
    return [Fraction(claim.supported) for claim in judged] or None


def covered_changes(case: ScoringCase) -> Asking[CoveredChanges | None]:
    """Return how many important changes a judge finds, and finds in the summary.

    It finds them in the diff alone, before it is shown a summary, of which the first
    SUMMARY_CHARACTERS characters count. None where it finds none, or the answer is no text.
    """
    change = _change(case)
    if not isinstance(case.answer, str):
        return None
    found: list[str] = []
    for part in change.in_parts():
        said = yield from _ask(case, "changes", part)
        changes = cast("list[str]", said["changes"])[:MAX_CHANGES]
        found += [text[:_CHANGE_CHARACTERS] for text in changes if text.strip()]
    if not found:
        return None
    data: JsonObject = {"summary": case.answer[:SUMMARY_CHARACTERS]}
    verdicts = yield from _verdicts(case, "coverage", data, dict(enumerate(found)))
    surfaced = sum(verdict is True for verdict in verdicts.values())
    return CoveredChanges(total=len(found), surfaced=surfaced)


def recall(case: ScoringCase) -> Measure:
    """Return surfaced / important changes (`covered_changes`); None where there are none.

    0 where the answer is no text.
    """
    covered = yield from covered_changes(case)
    if not isinstance(case.answer, str):
        return [Fraction(0)]
    return None if covered is None else [Fraction(covered.surfaced, covered.total)]


def reply_accuracy(case: ScoringCase) -> Measure:
    """Return 1, 1/2 or 0 for a reply that is right, partly right, or wrong.

    It is held against the committed answer and the list of files. 0 where it is no text, or a
    longer one than REPLY_CHARACTERS.
    """
    change = _change(case)
    question = at_path(case.input_data, cast("str", case.params["question"]))
    if not isinstance(question, str) or not isinstance(case.expected, dict):
        raise NotMeasurableError
    if len(question) + len(canonical_json(case.expected)) > QUESTION_CHARACTERS:
        raise NotMeasurableError
    if not isinstance(case.answer, str) or len(case.answer) > REPLY_CHARACTERS:
        return [Fraction(0)]
    data: JsonObject = {
        **change.files,
        "question": question,
        "expected": case.expected,
        "reply": case.answer,
    }
    said = yield from _ask(case, "reply", data)
    return [_REPLY_SCORES[cast("str", said["verdict"])]]


MEASURES: dict[str, Callable[[ScoringCase], Measure]] = {
    "precision": precision,
    "recall": recall,
    "reply_accuracy": reply_accuracy,
}


def _change(case: ScoringCase) -> Change:
    change = read_change(case)
    if change is None:
        raise NotMeasurableError
    return change


def _ask(case: ScoringCase, prompt: str, data: JsonObject) -> Asking[JsonObject]:
    """Ask once; NotMeasurableError where the answer is not usable."""
    judge = cast("JsonObject", case.params["judge"])
    said = yield from RUBRICS.ask(prompt, judge, data, _seed(case, prompt, data))
    if said is None:
        raise NotMeasurableError
    return said


def _verdicts(
    case: ScoringCase, prompt: str, data: JsonObject, texts: dict[int, str]
) -> Asking[dict[int, Any]]:
    """Ask for one verdict on each text, in the order that is drawn; return them by place.

    NotMeasurableError unless each has exactly one.
    """
    members, item = _ITEMS[prompt]
    shown = ordered(_seed(case, prompt, data), texts)
    numbered: JsonValue = [
        {item: number, "text": texts[place]} for number, place in enumerate(shown, start=1)
    ]
    said = yield from _ask(case, prompt, {**data, members: numbered})
    rows = cast("list[dict[str, Any]]", said["verdicts"])
    verdicts = [(int(row.pop(item)), *row.values()) for row in map(dict, rows)]
    if sorted(number for number, _ in verdicts) != list(range(1, len(shown) + 1)):
        raise NotMeasurableError
    return {shown[number - 1]: verdict for number, verdict in verdicts}


def _seed(case: ScoringCase, prompt: str, data: JsonObject) -> str:
    """Return the seed of the orders in one request: another one for each part of a diff."""
    return f"{case.judge_seed}/{prompt}/{data.get('part', 1)}"


_ITEMS = {"claims": ("claims", "claim"), "coverage": ("changes", "change")}
"""The member with what gets verdicts, and what an item there is called."""
