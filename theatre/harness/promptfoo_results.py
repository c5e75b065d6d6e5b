"""Results of promptfoo as `promptfoo eval -o results.json` writes them (version 3)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from theatre.engine.canonical_json import JsonObject
from theatre.harness.samples import (
    HarnessLog,
    HarnessLogError,
    HarnessSample,
    Measure,
    criterion_name,
    identifier,
    read_score,
)

OUTPUT, PASSED = "output", "passed"
_VERSION = 3
_OURS: dict[str, tuple[str, JsonObject]] = {
    "equals": ("exact_match", {}),
    "contains": ("contains_terms", {"case": True}),
    "icontains": ("contains_terms", {}),
}
"""Type of an assertion → the scorer of ours that decides it, and its parameters."""


def read_promptfoo_results(
    path: Path, *, prompt: int | None = None, with_scores: bool = True
) -> HarnessLog:
    """Read the results of one prompt with one provider, the `prompt`th from 0, or its questions.

    Raises HarnessLogError for another file, and where there are several and `prompt` is None.
    """
    try:
        document = json.loads(path.read_bytes(), parse_constant=str)
        results, about = document["results"], document.get("metadata") or {}
        version, prompts = results["version"], results["prompts"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise HarnessLogError(
            f"expected the results of promptfoo in {path}, as eval -o writes them, got {error!r}"
        ) from error
    if version != _VERSION:
        raise HarnessLogError(f"expected results of version 3 in {path}, got {version!r:.40}")
    if prompt is None and len(prompts) > 1:
        names = ", ".join(f"{at}: {one['provider']}" for at, one in enumerate(prompts))
        raise HarnessLogError(f"expected --prompt N, one of {names}: a run is of one construct")
    if not 0 <= (chosen := prompt or 0) < len(prompts):
        raise HarnessLogError(f"expected --prompt below {len(prompts)}, got {prompt}")
    own = [one for one in results["results"] if one["promptIdx"] == chosen]
    asked = prompts[chosen]
    counts = asked["metrics"]
    tried = counts["testPassCount"] + counts["testFailCount"] + counts["testErrorCount"]
    reported = counts["testPassCount"] / tried if tried else None
    return HarnessLog(
        harness=f"promptfoo@{about.get('promptfooVersion', 'unknown')}",
        construct=identifier(asked["provider"]),
        declared={"provider": asked["provider"], "prompt": asked["raw"]},
        measures=(*_measures(own), Measure(name=PASSED, reported=reported)),
        samples=lambda: (_sample(one, with_scores=with_scores) for one in own),
    )


def _judged(result: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield name, assertion and what promptfoo said of it; a second of a type has its number.

    Those of a set are listed like all others, after an entry for the set, which is no assertion. A
    value is as it was rendered: in the test it may hold variables. A result that promptfoo did not
    grade has the assertions of its test.
    """
    graded = (result.get("gradingResult") or {}).get("componentResults") or []
    found = [(one["assertion"], one) for one in graded if one.get("assertion")]
    if not graded:
        listed = result["testCase"].get("assert") or []
        flat = [inner for one in listed for inner in one.get("assert") or [one]]
        found = [(one, {}) for one in flat]
    seen: dict[str, int] = {}
    for assertion, said in found:
        name = criterion_name(assertion["type"])
        seen[name] = seen.get(name, 0) + 1
        rendered = (said.get("metadata") or {}).get("renderedAssertionValue")
        value = assertion.get("value") if rendered is None else rendered
        numbered = name if seen[name] == 1 else f"{name}_{seen[name]}"
        yield numbered, {**assertion, "value": value}, said


def _measures(results: list[dict[str, Any]]) -> Iterator[Measure]:
    found: dict[str, Measure] = {}
    for one in results:
        for name, assertion, _ in _judged(one):
            scorer, params = _OURS.get(assertion["type"], (None, {}))
            at: JsonObject = {"field": OUTPUT, "expected": name} if scorer else {}
            found.setdefault(name, Measure(name=name, scorer=scorer, params={**at, **params}))
    yield from found.values()


def _sample(result: dict[str, Any], *, with_scores: bool) -> HarnessSample:
    """Return one result; errors of the provider are samples without an answer."""
    output = (result.get("response") or {}).get("output")
    expected: JsonObject = {}
    scores: dict[str, float | None] = {}
    for name, one, said in _judged(result):
        if with_scores:
            scores[name] = read_score(said.get("score"), f"{name} of test {result['testIdx']}")
        value = one["value"]
        if one["type"] == "equals":
            # promptfoo compares texts: its 5 equals an answer that is the text "5".
            is_text = isinstance(output, str) and isinstance(value, bool | int | float)
            expected[name] = json.dumps(value) if is_text else value
        elif one["type"] in _OURS:
            expected[name] = [value]
    return HarnessSample(
        episode_id=f"test-{result['testIdx']}",
        input_data={"prompt": result["prompt"]["raw"]},
        expected_output=expected or None,
        output_data=None if output is None else {OUTPUT: output},
        scores={**scores, PASSED: 1.0 if result["success"] else 0.0},
        error=result.get("error"),
    )
