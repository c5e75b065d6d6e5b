"""Adversaries: their table, what leaks to them, and rehearsals of a template with them.

The table says what each tries, how it ends, and which rule ensures that.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, Field

from theatre.api.rehearsal import rehearse, with_adapter
from theatre.api.theatre_run import RunOptions
from theatre.api.workspace import CONSTRUCTS_FILE, Workspace
from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_bytes, parse_object
from theatre.engine.models import EpisodeResult, GroundTruthEpisode, read_episodes, read_gold_labels
from theatre.engine.replay import Progress, Rehearsal
from theatre.engine.schema_registry import resource_root
from theatre.engine.scoring.provider import Absent, criteria_scorers, expected_at
from theatre.engine.templates import ProductTheatreTemplate
from theatre.engine.tier_assigner import VerificationTier
from theatre.files.datasets import DatasetRoots
from theatre.oracles.construct_registry import ConstructRegistry, construct_version

TABLE = "adversaries.toml"


class Kind(StrEnum):
    """The kinds of adversaries."""

    ANSWERS = "answers"
    """Answers in the construct's place; works against any template."""
    TASK = "task"
    """Answers in the construct's place; made for one family of tasks."""
    JUDGES = "judges"
    """Is a measure, or says of one what it is worth."""
    READS = "reads"
    """A program that looks for the answers where it should not see them."""
    RECORD = "record"
    """Changes what is recorded or published, or says more than there was."""


class Adversary(BaseModel):
    """One row. `program` is a file in the table's folder, `mode` its argument.

    `tested` names the tests that carry it out, where the table's own do not.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Kind
    does: str
    ends: str
    guard: str
    rule: str
    families: tuple[str, ...] = ()
    program: str | None = None
    mode: str | None = None
    tested: str | None = None


class PaidCriteria(BaseModel):
    """Criteria of a shipped template on which some adversaries reach the construct, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str
    criteria: tuple[str, ...]
    to: tuple[str, ...]
    why: str


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    adversary: Annotated[tuple[Adversary, ...], Field(min_length=1)]
    paid: tuple[PaidCriteria, ...] = ()


def programs_folder() -> Path:
    """Return the folder of the programs and their table."""
    return resource_root() / "fixtures" / "adversaries"


def known_adversaries() -> tuple[Adversary, ...]:
    """Return the rows in order."""
    return _table().adversary


def paid() -> tuple[PaidCriteria, ...]:
    """Return the criteria of shipped templates on which adversaries still score."""
    return _table().paid


def generic_adversaries() -> tuple[Adversary, ...]:
    """Return those that can take any construct's place."""
    return tuple(one for one in known_adversaries() if one.kind is Kind.ANSWERS)


def _table() -> _Table:
    return _Table.model_validate(
        tomllib.loads((programs_folder() / TABLE).read_text(encoding="utf-8"))
    )


# The leak that adversaries get: a tenth of the questions, each with a well-formed answer.
#
# A well-formed answer is that of the construct, with the expected values put where the criteria
# look for them.


SHARE = 10
"""One in so many episodes is leaked: those with the smallest digests of their ids."""

Leak = Mapping[str, Sequence[JsonObject]]
"""Construct id → questions with an answer each: `asked` and `answer`."""


class Place(NamedTuple):
    """The path at which a criterion looks for an answer, and the path of its expectation."""

    construct_id: str
    field: tuple[str, ...]
    expected: str


def make_leak(
    template: JsonObject,
    view: ProductTheatreTemplate,
    roots: DatasetRoots,
    recorded: Iterable[EpisodeResult],
) -> Leak:
    """Return the leaked part of a template's ground truth, given its construct's answers.

    Without an answer of the construct it holds the expected values alone. Raises DatasetError.
    """
    episodes, labels = _ground_truth(view, roots)
    drawn = sorted(episodes, key=lambda one: hashlib.sha256(one.episode_id.encode()).digest())
    chosen = {one.episode_id: one for one in drawn[: -(-len(drawn) // SHARE)]}
    answers = {
        result.episode_id: _calls(result) for result in recorded if result.episode_id in chosen
    }
    # Interactive episodes have no places for expected values: their answers are the construct's.
    is_single = view.product_theatre_config.episode_runner == "single_call"
    places = [*_places(template, view.hops[-1].construct_id)] if is_single else []
    found: dict[str, list[JsonObject]] = {}
    for episode_id, episode in chosen.items():
        calls = answers.get(episode_id) or [(view.hops[-1].construct_id, episode.input_data, {})]
        for construct_id, asked, said in calls:
            answer: Any = parse_object(canonical_bytes(said))
            for place in places:
                if place.construct_id == construct_id:
                    value = expected_at(
                        place.expected, episode.expected_output, labels.get(episode_id)
                    )
                    _put_value(answer, place.field, value)
            found.setdefault(construct_id, []).append({"asked": asked, "answer": answer})
    return found


def _ground_truth(
    view: ProductTheatreTemplate, roots: DatasetRoots
) -> tuple[list[GroundTruthEpisode], Mapping[str, JsonObject]]:
    config = view.product_theatre_config
    hashes, paths = view.dataset_hashes, config.data_paths()
    committed = hashes[config.replay_dataset_id]
    with closing(roots.open(config.replay_data_path, sha256=committed)) as replay:
        episodes = list(read_episodes(replay.lines()))
    name = config.gold_label_dataset_id
    if name not in paths or name not in hashes:
        return episodes, {}
    with closing(roots.open(paths[name], sha256=hashes[name])) as gold:
        return episodes, read_gold_labels(gold.lines())


def _calls(result: EpisodeResult) -> list[tuple[str, JsonObject, JsonObject]]:
    calls = cast("list[dict[str, Any]]", result.record.document["calls"])
    answered = ((one, one["attempts"][-1]["response"]["output_data"]) for one in calls)
    return [
        (one["construct_id"], one["request"]["input_data"], output)
        for one, output in answered
        if output is not None
    ]


def _places(template: JsonObject, last: str) -> Iterator[Place]:
    for choice in criteria_scorers(template).values():
        params = cast("dict[str, JsonValue]", choice.get("params", {}))
        field, expected = params.get("field"), params.get("expected")
        if isinstance(expected, str):
            named, separator, inner = str(field or "").partition(":")
            construct_id, path = (named, inner) if separator else (last, named)
            parts = tuple(path.split(".")) if path else ()
            yield Place(construct_id=construct_id, field=parts, expected=expected)


def _put_value(answer: dict[str, Any], path: tuple[str, ...], value: JsonValue | Absent) -> None:
    """Put a value at a path of an answer, if there is one; it replaces what is in the way."""
    if isinstance(value, Absent):
        return
    if not path:
        answer.update(value if isinstance(value, dict) else {})
        return
    for name in path[:-1]:
        if not isinstance(answer.get(name), dict):
            answer[name] = {}
        answer = answer[name]
    answer[path[-1]] = value


# Rehearses a template with its construct and with adversaries in its place, in a separate store.
#
# A rehearsal is a run through the real engine that issues no certificate: its result is returned
# in memory, and the store is removed.


SAMPLE = "sample.json"
COMPOSITE = "composite_score"
_HUMAN = "human-part-missing:"
_ENTRY = """
[constructs.{construct_id}]
argv = ["{{python}}", "-B", "{{folder}}/{program}", "{mode}"]
folder = "."
files = ["{program}", "sample.json"]
"""
OnProgress = Callable[[Progress], None]


class Score(NamedTuple):
    """A criterion's score with its interval; null where it was not measured."""

    value: float | None
    low: float | None
    high: float | None

    def meets(self, other: Score) -> bool:
        """Return whether this score is worth something and not below the other's interval."""
        return bool(self.value) and other.low is not None and (self.value or 0) >= other.low


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalResult:
    """The result of one rehearsal. `tier` is None where nothing was scored: no certificate.

    Parts that people score are missing from scores and caps. `recorded` are the episodes.
    """

    tier: VerificationTier | None
    caps: tuple[str, ...]
    scores: Mapping[str, Score]
    recorded: Sequence[EpisodeResult] = field(repr=False)

    @property
    def is_certified(self) -> bool:
        """Return whether the certificate would have a tier above UNVERIFIED."""
        return self.tier not in {None, VerificationTier.UNVERIFIED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsals:
    """A template, its folder and the store to rehearse it in.

    `headers_env` are request headers for the construct, as `echelon theatre run` has them.
    """

    template: JsonObject
    folder: Path
    workspace: Workspace
    headers_env: Mapping[str, str] = field(default_factory=dict)

    def of_construct(self, on_progress: OnProgress) -> RehearsalResult:
        """Rehearse with the template's own constructs; errors as `commit_template` and a run."""
        return self._rehearse(self.template, self.folder, on_progress, self.headers_env)

    def of_adversary(
        self, adversary: Adversary, leak: Leak, on_progress: OnProgress
    ) -> RehearsalResult:
        """Rehearse with one program in the place of every construct."""
        folder = self.workspace.home / adversary.name
        pins: Any = self.template["version_pins"]
        write_adversary(folder, adversary, pins["constructs"], leak)
        return self._rehearse(with_programs(self.template, folder), folder, on_progress, {})

    def _rehearse(
        self,
        template: JsonObject,
        folder: Path,
        on_progress: OnProgress,
        headers_env: Mapping[str, str],
    ) -> RehearsalResult:
        recorded: list[EpisodeResult] = []
        options = RunOptions(headers_env=headers_env, on_recorded=recorded.extend)
        roots = (self.folder, *self.workspace.dataset_roots)
        workspace = replace(self.workspace, dataset_roots=roots)
        return _outcome(rehearse(template, folder, workspace, options, on_progress), recorded)


def write_adversary(
    folder: Path, adversary: Adversary, construct_ids: Iterable[str], leak: Leak
) -> None:
    """Write a folder with a program under the names of constructs, and what leaked to it."""
    program = cast("str", adversary.program)
    folder.mkdir()
    shutil.copyfile(programs_folder() / program, folder / program)
    (folder / SAMPLE).write_text(json.dumps(leak), encoding="utf-8")
    entries = [
        _ENTRY.format(construct_id=json.dumps(one), program=program, mode=adversary.mode)
        for one in construct_ids
    ]
    (folder / CONSTRUCTS_FILE).write_text("".join(entries), encoding="utf-8")


def with_programs(template: Mapping[str, Any], folder: Path) -> JsonObject:
    """Return the template with a folder's programs registered under its constructs' ids.

    Only adapters and pins change; questions and scoring stay.
    """
    registry, pins = ConstructRegistry.load(folder / CONSTRUCTS_FILE), template["version_pins"]
    versions = {one: construct_version(registry.find(one)) for one in pins["constructs"]}
    return with_adapter(template, "local", versions)


def _outcome(rehearsal: Rehearsal, recorded: Sequence[EpisodeResult]) -> RehearsalResult:
    aggregate: Any = rehearsal.aggregate
    values = {**aggregate["scores"], COMPOSITE: aggregate[COMPOSITE]}
    intervals = aggregate["score_intervals"]
    assessment = rehearsal.assessment
    caps = tuple(cap for cap in assessment.caps if not cap.startswith(_HUMAN))
    tier: VerificationTier | None = assessment.tier
    if tier is VerificationTier.UNVERIFIED and not caps:
        # Only what people score is missing.
        tier = VerificationTier.BACKTESTED
    return RehearsalResult(
        tier=tier if aggregate["episode_counts"]["scored"] else None,
        caps=caps,
        scores={
            name: Score(value=value, low=intervals[name]["low"], high=intervals[name]["high"])
            for name, value in values.items()
        },
        recorded=recorded,
    )
