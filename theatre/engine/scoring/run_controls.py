"""What the control items of a run say of its judges: whether they bear a qualification out.

A judge can behave otherwise in a run than on its labelled set: it may know that set by heart. So
what is judged carries a tier only where enough claims of known truth rode along, and show no more
errors than its qualification; and they, not the qualification, correct a score where there are
enough of them to do so. Source: docs/scorers.md, "What the control items decide".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.engine.scoring.corrections import (
    FEWEST_ITEMS,
    SIDES,
    JudgeErrors,
    LabelledItems,
    corrected_score,
    judge_errors,
    labelled_score,
)
from theatre.engine.scoring.measure_policy import Qualifications, known_errors
from theatre.engine.scoring.provider import criteria_scorers

COUNTED_BY: Final = "judge_controls@1"
"""The computation that counts what a judge said of control items."""

FEWEST_CONTROLS: Final = 30
"""So many usable control items of either sort must ride along where a judge carries a tier."""

RECOGNISABLE: Final = 0.6
"""Above this balanced accuracy of a classifier on words, controls can be told from claims."""

CONTRADICTED: Final = "controls-contradict-qualification:"
RATES: Final = ("sensitivity", "specificity")
TOO_FEW: Final = f"fewer than {FEWEST_CONTROLS} control items of a sort in its run"
WORSE: Final = "it errs more on the control items of its run than its qualification says"

RunControls = Mapping[str, Mapping[str, Any]]
"""Criterion → its part of the output of `judge_controls`."""


def read_controls(document: JsonObject, settled: Iterable[JsonObject]) -> RunControls:
    """Return what the steps of a run count, by criterion; `settled` are those of its resolution.

    A step counts that is over the run's own episodes, and asks as the template scores.
    """
    scored = criteria_scorers(document)
    programme = cast("list[dict[str, Any]]", document.get("resolution_programme", []))
    committed = {step["step_id"]: step.get("input_spec", {}) for step in programme}
    found: dict[str, Mapping[str, Any]] = {}
    for step in settled:
        result: Any = step["result"]
        if result.get("computation") != COUNTED_BY or result["over"] != "episodes":
            continue
        asked = committed[step["step_id"]]["params"]["criteria_scorers"]
        found |= {
            criterion: counted
            for criterion, counted in result["output"]["criteria"].items()
            if criterion in scored
            and canonical_line(asked[criterion]) == canonical_line(scored[criterion])
        }
    return found


def why_not_borne_out(controls: Mapping[str, Any] | None, qualified: JsonObject) -> str | None:
    """Return why what a judge did in a run does not bear out its qualification; None if it does."""
    if controls is None or min(controls[side]["asked"] for side in SIDES) < FEWEST_CONTROLS:
        return TOO_FEW
    return WORSE if _is_worse(controls, qualified) else None


def _is_worse(controls: Mapping[str, Any], qualified: Mapping[str, Any]) -> bool:
    """Return whether a rate, of all controls or those of a source, lies below the qualified one."""
    return any(
        None not in (one[rate]["high"], qualified[rate]["low"])
        and one[rate]["high"] < qualified[rate]["low"]
        for one in (controls, *controls["by_source"].values())
        for rate in RATES
    )


def are_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two rates of either name have intervals that do not meet."""
    pairs = [(one[rate], other[rate]) for rate in RATES]
    known = [pair for pair in pairs if None not in (pair[0]["low"], pair[1]["low"])]
    return any(a["high"] < b["low"] or b["high"] < a["low"] for a, b in known)


def contradictions(qualifications: Qualifications, controls: RunControls) -> list[str]:
    """Return a code for each criterion whose judge errs more in the run than it is qualified."""
    return [
        f"{CONTRADICTED}{criterion}"
        for criterion, one in qualifications.items()
        if one is not None
        and criterion in controls
        and _is_worse(controls[criterion], one.document)
    ]


def corrected_scores(
    document: JsonObject,
    pins: Mapping[str, object],
    aggregate: JsonObject,
    qualifications: Qualifications,
    controls: RunControls,
    labelled: Mapping[str, LabelledItems],
) -> JsonObject | None:
    """Return criterion → its score corrected for its measure's errors, with what controls show.

    Those whose template names a qualification, those with control items, and those of whose
    answers people labelled some; None without any. Enough labels correct before all else.
    """
    known = known_errors(document, pins, qualifications)
    worse = {code.removeprefix(CONTRADICTED) for code in contradictions(qualifications, controls)}
    found: JsonObject = {}
    measured = known.keys() | controls.keys()
    for criterion in sorted(measured | labelled.keys()):
        counted, items = controls.get(criterion), labelled.get(criterion)
        shown = None if counted is None else {name: counted[name] for name in _SHOWN}
        if items is not None and (items.correct or criterion not in measured):
            score = labelled_score(aggregate, criterion, items)
            found[criterion] = {**score, "controls": cast("JsonObject | None", shown)}
            continue
        # What the run contradicts is not known.
        stated = None if criterion in worse else known.get(criterion)
        errors, source = _errors_of(counted, stated, is_named=criterion in known)
        score = corrected_score(aggregate, criterion, errors, source=source)
        found[criterion] = {**score, "controls": cast("JsonObject | None", shown)}
    return found or None


_SHOWN: Final = (*SIDES, "unusable", *RATES, "recognised")


def _errors_of(
    controls: Mapping[str, Any] | None, known: JudgeErrors | None, *, is_named: bool
) -> tuple[JudgeErrors | None, str]:
    """Return the errors that correct a score, and where they were seen."""
    seen = None if controls is None else judge_errors(cast("JsonObject", controls))
    if controls is None or seen is None:
        return known, "qualification" if is_named else "controls"
    enough = min(seen.supported.pairs, seen.refused.pairs) >= FEWEST_ITEMS
    # Where words tell them, or the sources differ, it is unknown how it judges the other claims.
    alike = (controls["recognised"] or 0) <= RECOGNISABLE
    alike = alike and not are_apart(*controls["by_source"].values())
    if (enough and alike) or (known is None and not enough):
        return seen, "controls"
    return known, "qualification" if is_named else "controls"
