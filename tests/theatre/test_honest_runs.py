"""Of whatever an honest run is made, its own check passes, and so does `verify_bundle.py`.

Template, dataset and answers are drawn. Engine and check are written apart from one another: where
they differ, a run that was honest is thrown away. `ECHELON_TEST_RUNS` draws more.
"""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.rated_runs import desk_of, rate, rating, rubric_step
from tests.theatre.runs import (
    EASEL,
    EASEL_VERSION,
    ERROR,
    LATE,
    PILOT,
    REFUSED,
    VERSION,
    Finished,
    ScriptedAdapter,
    Stage,
    call_step,
    checked,
    pilot_stage,
)
from theatre.cli.audits import salted_lines
from theatre.engine.bundle_check.standalone import verify
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_line
from theatre.engine.errors import RunStoppedError
from theatre.engine.oracle_contract import OracleInvocationRequest
from theatre.files.published_bundle import publish_bundle
from theatre.scorers import load_scorers

RUNS = int(os.environ.get("ECHELON_TEST_RUNS", "100" if os.environ.get("ECHELON_SOAK") else "6"))
MISMATCH: JsonObject = {"construct_version": "0" * 40}
TIMEOUT: JsonObject = {"status": "timeout", "output_data": None, "error_detail": "slow"}
WORDS = [
    "ab",
    "Ωmega",
    "x y",
    "\u200bhid",
    "<|im_start|>",
    "l" * 9,
    "answer is seven",
    "0",
    "",
    "ﬁ",
]
NUMBERS: list[JsonValue] = [0, 7, 0.5, 1e21, 1e-7, -0.0, 5e-324, 2**53 - 1]
PLAIN: list[JsonValue] = [None, True, False, *WORDS, *NUMBERS]
FAILURES = [ERROR, REFUSED, MISMATCH, TIMEOUT]

Draw = Callable[[random.Random], Any]


def some(values: Sequence[Any], most: int) -> Draw:
    return lambda drawn: drawn.sample(values, drawn.randint(0, most))


def one(values: Sequence[Any]) -> Draw:
    return lambda drawn: drawn.choice(values)


def day(drawn: random.Random) -> str:
    return f"2026-01-{drawn.randint(1, 28):02d}T00:00:00Z"


def tree(drawn: random.Random) -> JsonValue:
    forms: list[Draw] = [one(PLAIN), some(PLAIN, 3), lambda d: {d.choice("abc"): d.choice(PLAIN)}]
    value: JsonValue = drawn.choice(forms)(drawn)
    return value


# Scorer → its parameters, what is expected, and what is answered where that is of another form.
SCORERS: Mapping[str, tuple[JsonObject, Draw | None, Draw | None]] = {
    "exact_match": ({}, tree, None),
    "numeric_tolerance": ({"abs": 0.1}, one(NUMBERS), None),
    "label_accuracy": ({}, one("abc"), None),
    "text_match": ({"at": "begin"}, one(WORDS), None),
    "set_f1": ({}, some(PLAIN, 4), None),
    "field_match": ({}, lambda drawn: {"m": drawn.choice("ab"), "n": tree(drawn)}, None),
    "sequence_similarity": ({}, some(PLAIN, 4), None),
    "contains_terms": ({}, lambda drawn: drawn.sample(["a", "seven", "Ω"], 2), one(WORDS)),
    "freshness_decay": ({"half_life_seconds": 86400}, day, None),
    "brier": (
        {"label": "l"},
        one("ab"),
        lambda drawn: {"l": drawn.choice("ab"), "confidence": drawn.choice([0, 0.3, 1, None, 7])},
    ),
    "record_completeness": ({"required": ["x", "y"]}, None, one([{"x": 1, "y": "z"}, {}, 7])),
    "json_schema": ({"schema": {"type": "object"}}, None, one([{}, 3])),
    "timestamp_order": ({}, None, lambda drawn: [day(drawn) for _ in range(drawn.randint(0, 4))]),
}


class HonestRun:
    """A theatre that is drawn from a seed, and what its constructs answer to each episode."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.drawn = drawn = random.Random(seed)  # noqa: S311 - no secret
        self.folder = folder
        # A few are long: their records lie in parts.
        self.total = drawn.choice([1001, 1100]) if seed % 12 == 11 else drawn.randint(1, 80)
        self.is_chain, has_labels = drawn.random() < 0.25, drawn.random() < 0.25
        self.is_rated, self.is_withheld = drawn.random() < 0.2, drawn.random() < 0.2
        self.names = drawn.sample([*SCORERS], drawn.randint(1, 4))
        self.labelled = self.names[::2] if has_labels else []
        self.frequency = {name: drawn.choice([1, 1, 0.5, 0.05]) for name in self.names}
        self.skill, self.failing = drawn.choice([0, 0.3, 0.9, 1]), drawn.choice([0, 0.05, 0.3])
        self.clusters = drawn.choice([0, 0, 2, 7, 30])
        self.criteria = {f"c_{name}": self._criterion(name) for name in self.names}
        self.changes = self._changes()
        self.answers: dict[str, dict[str, JsonObject]] = {}
        labels: list[JsonObject] = []
        rows = [self._episode(seq, labels) for seq in range(1, self.total + 1)]
        further = {}
        if self.labelled:
            further = {"gold_labels.jsonl": b"".join(map(canonical_line, labels))}
        self.stage: Stage = pilot_stage(folder, rows, changes=self.changes, further=further)
        self.episode_of = {self.stage.draws.alias(name): name for name in self.answers}

    def _criterion(self, name: str) -> JsonObject:
        params, expects, _ = SCORERS[name]
        places: JsonObject = {"field": f"a_{name}"}
        if expects is not None:
            places["expected"] = f"{'gold:' * (name in self.labelled)}e_{name}"
        return {"scorer": name, "params": {**params, **places}}

    def _changes(self) -> dict[str, JsonValue]:
        drawn, total = self.drawn, [0]
        while not sum(total):
            total = [drawn.randint(0, 3) for _ in self.names]
        weights: JsonObject = {
            f"c_{name}": share / sum(total) for name, share in zip(self.names, total, strict=True)
        }
        policy: JsonObject = {
            "retry_policy": {"max_retries": 0, "backoff_seconds": 0},
            "sanitise_input": drawn.random() < 0.5,
            "max_concurrency": drawn.choice([1, 3, 16]),
            "failure_threshold": drawn.choice([0, 0.05, 0.2, 1]),
            "on_threshold": drawn.choice(["settle", "continue"]),
        }
        if drawn.random() < 0.2 and not self.is_rated:
            policy["repeats"] = drawn.choice([2, 5])
        else:
            policy["deterministic_sample"] = drawn.choice([0, 0, 5])
        steps: list[JsonValue] = [call_step()]
        own: dict[str, JsonValue] = {}
        if self.is_rated:
            steps.append(rubric_step())
            share = drawn.choice([0.5, 1])
            own["/hitl_steps"] = [rating(criterion_id=drawn.choice([*self.criteria]), share=share)]
            own["/metadata"] = {"author": "Ada Author"}
        if self.labelled:
            own["/product_theatre_config/gold_label_set"] = "gold_labels.jsonl"
        if self.is_chain:
            own["/product_theatre_config/construct_chain"] = [EASEL, PILOT]
        if self.is_withheld:
            own["/product_theatre_config/disclosure"] = "withheld"
            own["/product_theatre_config/withheld"] = {"share": drawn.choice([0.2, 0.9])}
        versions = {PILOT: VERSION} | ({EASEL: EASEL_VERSION} if self.is_chain else {})
        installed = load_scorers()
        return own | {
            "/schema_version": "2.2.0",
            "/version_pins/constructs": {**versions},
            "/criteria": {
                "criteria_ids": [*self.criteria],
                "criteria_human": "As expected.",
                **({"weights": weights} if drawn.random() < 0.7 else {}),
            },
            "/scoring": {
                "criteria_scorers": {**self.criteria},
                "holdout_split": drawn.choice([0, 0.2, 0.5]),
            },
            "/scorer_pins": {name: installed[name].version for name in self.names},
            "/execution_policy": policy,
            "/resolution_programme": [*steps, {"step_id": "aggregate", "type": "aggregation"}],
        }

    def _episode(self, seq: int, labels: list[JsonObject]) -> JsonObject:
        drawn, name = self.drawn, f"e-{seq}"
        expected, label, said = JsonObject(), JsonObject(), JsonObject()
        for scorer in self.names:
            _, expects, answers = SCORERS[scorer]
            wanted = None if expects is None else expects(drawn)
            if expects is not None and drawn.random() < self.frequency[scorer]:
                (label if scorer in self.labelled else expected)[f"e_{scorer}"] = wanted
            if drawn.random() < self.skill and answers is None:
                said[f"a_{scorer}"] = wanted
            elif drawn.random() < 0.95:
                said[f"a_{scorer}"] = (answers or tree)(drawn)
        said["confidence"] = drawn.choice([0, 0.3, drawn.random(), 1, None, "high"])
        answer: JsonObject = {"output_data": said}
        if drawn.random() < self.failing:
            answer = answer | drawn.choice(FAILURES)
        first = drawn.choice([ERROR, MISMATCH]) if drawn.random() < self.failing / 3 else {}
        self.answers[name] = {PILOT: answer, EASEL: {"output_data": {}} | first}
        labels.append({"episode_id": name, "label": label, "labeller": "a test"})
        # Some questions are alike.
        question = {"seq": seq} if drawn.random() < 0.8 else {}
        row: JsonObject = {
            "episode_id": name,
            "input_data": {**question, "asked": tree(drawn)},
            "expected_output": expected,
        }
        if self.clusters and drawn.random() < 0.95:
            row["cluster_key"] = f"k{drawn.randrange(self.clusters)}"
        return row

    def run(self) -> Finished:
        """Run it to its end, in one go or two, with what people say."""
        pilot = ScriptedAdapter(self._answer)
        adapters = {PILOT: pilot}
        if self.is_chain:
            adapters[EASEL] = ScriptedAdapter(self._answer, version=EASEL_VERSION)
        run = partial(self.stage.run, adapters, batch_size=self.drawn.choice([10, 100]))
        calls = self.drawn.randint(1, 40)
        try:
            finished = run(
                around=lambda one: replace(one, is_stopping=lambda: len(pilot.asked) >= calls)
            )
        except RunStoppedError:
            finished = run()
        if self.is_rated and self.stage.state != "RESOLVED":
            for person in ("Bea", "Cem"):
                items = desk_of(self.stage).rubric.items
                rate(self.stage, person, {item: self.drawn.randint(1, 5) for item in items})
            finished = run()
        return finished

    def _answer(self, request: OracleInvocationRequest) -> JsonObject:
        return self.answers[self.episode_of[request.episode_id]][request.construct_id]


def problems(bundle: Path) -> list[object]:
    """Return what the check and the file of plain Python find wrong."""
    report, verdict = checked(bundle), verify(bundle, now=LATE)
    found: list[object] = [one for one in report.checks if one.status == "fail"]
    return found + [pair for pair in verdict.problems.items() if pair[1]]


@pytest.mark.parametrize("seed", range(RUNS))
def test_an_honest_run_is_not_thrown_away(seed: int, tmp_path: Path) -> None:
    drawn = HonestRun(seed, tmp_path / "run")
    finished = drawn.run()
    assert finished.resolution["outcome"] in {"certified", "no_certificate"}, finished.resolution
    if not finished.bundle.is_dir():
        return
    assert problems(finished.bundle) == []
    opened, lines = salted_lines(finished.bundle)
    if drawn.is_withheld and not drawn.is_rated and (closed := opened.withheld()):
        publish_bundle(finished.bundle, tmp_path / "published", lines, closed)
        assert problems(tmp_path / "published") == []
