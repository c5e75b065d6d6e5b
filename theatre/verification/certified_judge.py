"""The judge in a verification certificate, and its second opinion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import ANSWER
from theatre.engine.rlmf_export import SealedBundle, judgements_of
from theatre.engine.scoring.paths import at_path
from theatre.verification.judge.second_opinion import COMPUTATION

_JUDGE = "scoring.criteria_scorers.precision.params.judge"
_UNKNOWN = "unknown"
_COMMITTED = ("model", "temperature", "repeats")


def find_origins(record: JsonObject) -> Iterator[str]:
    """Yield for each answer of a judge in an invocation record where it came from.

    Scheme, host and port only: the rest may be private to the operator of the judge.
    """
    for exchanges in judgements_of(record).values():
        for exchange in exchanges:
            yield _origin(cast("JsonObject", exchange[ANSWER]).get("origin"))


def _origin(recorded: JsonValue) -> str:
    try:
        parts = urlsplit(recorded if isinstance(recorded, str) else "")
    except ValueError:
        return _UNKNOWN
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if parts.scheme and host else _UNKNOWN


def certified_judge(sealed: SealedBundle, origins: Mapping[str, int]) -> JsonObject | None:
    """Return the committed judge and what its second opinion came to; None without a judge.

    `origins` counts the answers by address: a server there may call itself by the name of any
    model. `second_opinion` is null where the programme has no such step, or did not
    complete it.
    """
    judge = at_path(sealed.template, _JUDGE)
    if not isinstance(judge, dict):
        return None
    return {
        **{name: judge[name] for name in _COMMITTED},
        "origins": dict(sorted(origins.items())),
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
