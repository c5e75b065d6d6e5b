"""What a verification certificate says of its judge, and of the second opinion beside it."""

from __future__ import annotations

from typing import Any, cast

from theatre.engine.canonical_json import JsonObject
from theatre.engine.rlmf_export import SealedBundle
from theatre.engine.scoring.paths import at_path
from theatre.verification.judge.second_opinion import COMPUTATION

_JUDGE = "scoring.criteria_scorers.precision.params.judge"
_COMMITTED = ("model", "temperature", "repeats")


def certified_judge(sealed: SealedBundle) -> JsonObject | None:
    """Return the committed judge and what its second opinion came to; None where nobody judged.

    `second_opinion` is null where the programme has no such step, or did not complete it.
    """
    judge = at_path(sealed.template, _JUDGE)
    if not isinstance(judge, dict):
        return None
    return {
        **{name: judge[name] for name in _COMMITTED},
        "second_opinion": _second_opinion(sealed),
    }


def _second_opinion(sealed: SealedBundle) -> JsonObject | None:
    settled = cast("list[dict[str, Any]]", sealed.resolution["steps"])
    committed = cast("list[dict[str, Any]]", sealed.template["resolution_programme"])
    steps = {step["step_id"]: step for step in committed}
    for step in settled:
        result = step["result"]
        if result.get("computation") == COMPUTATION.pin:
            params = steps[step["step_id"]]["input_spec"]["params"]
            return {"beyond": params["beyond"], **result["output"]}
    return None
