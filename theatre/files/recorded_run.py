"""What a run has recorded, episode by episode: from a sealed bundle, or from the journal before.

For readers: nothing is locked, changed or verified but the chain of the trail; `echelon check`
verifies. Episodes stream in dataset order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

from theatre.engine.canonical_json import JsonObject, parse_object
from theatre.engine.errors import DatasetError, NotFoundError
from theatre.engine.evidence_bundle import bundle_name
from theatre.engine.models import (
    JUDGEMENTS,
    REPEATS,
    EpisodeOutcome,
    EpisodeResult,
    GroundTruthEpisode,
    InvocationRecord,
    Scored,
    Verdict,
    read_episodes,
    read_gold_labels,
)
from theatre.engine.replay.recording import answering_attempt
from theatre.engine.replay.trail import HUMAN_SCORE
from theatre.engine.replay.usage import UsageTally, tally_of, usage_of
from theatre.engine.rlmf_export.sealed_bundle import DATASET, GOLD
from theatre.engine.scoring import RepeatScores
from theatre.engine.scoring.arithmetic import nano_to_number
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import ProductTheatreTemplate, view_template
from theatre.files.datasets import DatasetFile, DatasetRoots
from theatre.files.run_journal import read_trail, results_in_order
from theatre.files.theatre_store import TheatreView

_LINES = "scores/per_episode.jsonl"
_SETTLED = frozenset({TheatreState.RESOLVED, TheatreState.ARCHIVED})


class RecordedEpisode(NamedTuple):
    """One episode as it was recorded; `scores` as in `scores/per_episode.jsonl`.

    `composite` and `is_held_out` are None before the run was settled, `record` for an episode that
    was not run.
    """

    seq: int
    episode_id: str
    outcome: EpisodeOutcome
    scores: Mapping[str, float | None]
    composite: float | None
    is_held_out: bool | None
    record: InvocationRecord | None
    repeats: JsonObject | None = None
    """Status and scores of each repeat, as in its line; None where it was asked once."""


def trouble_of(episode: RecordedEpisode) -> tuple[str | None, str | None]:
    """Return why an episode has no score, as code and detail; None twice where it has one."""
    if episode.outcome is EpisodeOutcome.SCORED or episode.record is None:
        return None, None
    if episode.outcome is EpisodeOutcome.UNSCORED:
        return "unscored", "no criterion applies, or no scorer gave a score"
    attempt = answering_attempt(episode.record.document)
    response = cast("dict[str, str | None]", attempt["response"])
    return cast("str", attempt["reason"] or response["status"]), response["error_detail"]


def note_usage(tally: UsageTally | None, one: RecordedEpisode | EpisodeResult) -> None:
    """Add what the calls of one episode took, if they are counted."""
    if tally is not None and one.record is not None:
        tally.note(usage_of(cast("list[JsonObject]", one.record.document["calls"])))


def count_usage(
    tally: UsageTally | None, results: Iterable[RecordedEpisode | EpisodeResult]
) -> JsonObject | None:
    """Add what the calls of episodes took to a tally; return it as a certificate has it.

    None without a tally, and where there were no calls.
    """
    for one in () if tally is None else results:
        note_usage(tally, one)
    return None if tally is None else tally.as_document()


class RecordedRun(ABC):
    """A run that is over or still goes on. `is_withheld`: people are still to score answers.

    Who scores must see no expectation and no score of a machine or of others, so readers are not
    to be shown any until then.
    """

    theatre_id: str
    template: JsonObject
    folder: Path
    is_withheld: bool

    @property
    def criteria(self) -> tuple[str, ...]:
        """Return the criteria in committed order."""
        criteria = cast("JsonObject", self.template["criteria"])
        return tuple(cast("list[str]", criteria["criteria_ids"]))

    @cached_property
    def _nothing_used(self) -> UsageTally | None:
        return tally_of(self.template)

    def tally(self) -> UsageTally | None:
        """Return an empty tally of calls; None where those of no construct are counted."""
        empty = self._nothing_used
        return None if empty is None else UsageTally(empty.prices)

    @abstractmethod
    def episodes(self) -> Iterator[RecordedEpisode]:
        """Yield what is recorded, in dataset order."""

    @abstractmethod
    def _data(self, path: str) -> DatasetFile | None:
        """Open what is DATASET or GOLD in a bundle; None where it is gone or changed."""

    def truths(self) -> Iterator[GroundTruthEpisode]:
        """Yield the dataset's episodes; none where it is gone or changed."""
        dataset = self._data(DATASET)
        if dataset is not None:
            with closing(dataset):
                yield from read_episodes(dataset.lines())

    def with_truths(self) -> Iterator[tuple[RecordedEpisode, GroundTruthEpisode | None]]:
        """Yield what is recorded, in dataset order, each with the dataset's episode if it is there.

        Both are streams: neither a run nor its dataset is held in memory.
        """
        truths = self.truths()
        truth = next(truths, None)
        for one in self.episodes():
            while truth is not None and truth.seq < one.seq:
                truth = next(truths, None)
            yield one, truth if truth is not None and truth.seq == one.seq else None

    def record_of(self, episode: RecordedEpisode) -> JsonObject | None:
        """Return an invocation record, without what a judge said where that is withheld."""
        if episode.record is None:
            return None
        hidden = {JUDGEMENTS} if self.is_withheld else frozenset[str]()
        members = episode.record.document.items()
        return {name: value for name, value in members if name not in hidden}

    def label(self, episode_id: str) -> JsonObject | None:
        """Return the gold label of an episode, if there is one."""
        dataset = self._data(GOLD)
        if dataset is None:
            return None
        with closing(dataset):
            return read_gold_labels(dataset.lines()).get(episode_id)

    def ratings(self, episode_id: str) -> list[JsonObject]:
        """Return what people gave an episode, in order."""
        details = (
            cast("JsonObject", entry["detail"])
            for entry in read_trail(self.folder, self.theatre_id)
            if entry["event_type"] == HUMAN_SCORE
        )
        return [detail for detail in details if detail["episode_id"] == episode_id]


class BundledRun(RecordedRun):
    """The run in a sealed bundle."""

    is_withheld = False

    def __init__(self, bundle: Path) -> None:
        """Read what was committed; NotFoundError where there is no bundle."""
        if not (bundle / _LINES).is_file():
            raise NotFoundError(f"expected an evidence bundle at {bundle}, got none")
        receipt = parse_object((bundle / "commitment_receipt.json").read_bytes())
        self.theatre_id = cast("str", receipt["theatre_id"])
        self.template = parse_object((bundle / "template.json").read_bytes())
        self.folder = bundle

    def episodes(self) -> Iterator[RecordedEpisode]:
        """Yield every episode of the dataset, also one that was not run."""
        records = self._records()
        seq, record = next(records, (0, b""))
        for line in _lines(self.folder / _LINES):
            shown = parse_object(line)
            own = record if seq == shown["seq"] else None
            yield RecordedEpisode(
                seq=cast("int", shown["seq"]),
                episode_id=cast("str", shown["episode_id"]),
                outcome=EpisodeOutcome(cast("str", shown["outcome"])),
                scores=cast("Mapping[str, float | None]", shown["scores"]),
                composite=cast("float | None", shown["composite"]),
                is_held_out=cast("bool", shown["holdout"]),
                record=None if own is None else InvocationRecord.of_line(own),
                repeats=cast("JsonObject | None", shown.get(REPEATS)),
            )
            if own is not None:
                seq, record = next(records, (0, b""))

    def _records(self) -> Iterator[tuple[int, bytes]]:
        # Either layout: numbers are padded, so that names sort as numbers do.
        for path in sorted((self.folder / "invocations").iterdir()):
            for line in _lines(path):
                yield cast("int", parse_object(line)["seq"]), line

    def _data(self, path: str) -> DatasetFile | None:
        file = self.folder / path
        return DatasetFile(file) if file.is_file() else None


class JournalledRun(RecordedRun):
    """The run of a theatre that has no sealed bundle, or none yet."""

    def __init__(self, view: TheatreView, datasets: DatasetRoots) -> None:
        """Take a theatre of the store, and where its ground truth lies."""
        self.theatre_id, self.template, self.folder = view.theatre_id, view.template, view.folder
        self.is_withheld = bool(view.template.get("hitl_steps")) and view.state not in _SETTLED
        self._datasets = datasets
        self._view = view_template(view.template)

    def episodes(self) -> Iterator[RecordedEpisode]:
        """Yield what is recorded so far."""
        for result in results_in_order(self.folder):
            repeats = RepeatScores.of_facts(result.facts.get(REPEATS))
            yield RecordedEpisode(
                seq=result.seq,
                episode_id=result.episode_id,
                outcome=result.outcome,
                scores={
                    criterion: nano_to_number(one.nano)
                    if isinstance(one, Scored)
                    else (0 if one is Verdict.MISSING else None)
                    for criterion, one in result.scores.items()
                },
                composite=None,
                is_held_out=None,
                record=result.record,
                repeats=None if repeats is None else repeats.as_document(),
            )

    def _data(self, path: str) -> DatasetFile | None:
        if not isinstance(self._view, ProductTheatreTemplate):
            return None
        config = self._view.product_theatre_config
        name = config.replay_dataset_id if path == DATASET else config.gold_label_dataset_id
        committed = config.data_paths().get(name)
        with suppress(DatasetError):
            if committed is not None:
                return self._datasets.open(committed, sha256=self._view.dataset_hashes[name])
        return None


def recorded_run(view: TheatreView, datasets: DatasetRoots) -> RecordedRun:
    """Return the run of a theatre: its sealed bundle where there is one, else its journal."""
    bundle = view.folder / bundle_name(view.theatre_id)
    return BundledRun(bundle) if (bundle / _LINES).is_file() else JournalledRun(view, datasets)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as handle:
        yield from handle
