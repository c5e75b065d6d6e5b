"""What a run is given by its caller: constructs, data, scorers, time, and how to be carried out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Callable,
    Container,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock, Sleep
from theatre.engine.coin import NO_NONCE, Coin
from theatre.engine.errors import JournalError, ParseError, RunStoppedError
from theatre.engine.models import (
    Computation,
    EpisodeResult,
    EpisodeRunner,
    GroundTruthEpisode,
    InputSanitiser,
    InvocationStatus,
    Judge,
    Scorer,
    read_gold_labels,
)
from theatre.engine.oracle_contract import Invoker, OracleAdapter
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.scoring import FailureStop, exact
from theatre.engine.scoring.measure_policy import Qualifications, read_qualifications
from theatre.engine.templates import GOLD_LABELS, ProductTheatreTemplate
from theatre.engine.tier_assigner import TierAssessment, TierHistory

# Long work in a thread, so that the event loop keeps running.
#
# The loop renews the lease of the run: a settlement that blocked it would lose the run to another
# worker again and again.


_P = ParamSpec("_P")
_T = TypeVar("_T")


async def run_in_thread(work: Callable[_P, _T], *arguments: _P.args, **named: _P.kwargs) -> _T:
    """Return what `work` returns; when cancelled, wait for its end and then be cancelled.

    A thread cannot be stopped, so its output must not be removed while it still writes.
    """
    return await to_the_end(asyncio.to_thread(work, *arguments, **named))


async def to_the_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Await `work`; when cancelled, wait for its end and then be cancelled."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            # Unlike awaiting the task, this does not raise what the work raised: a cancellation
            # that came before it would be forgotten.
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        return task.result()
    finally:
        # This replaces what the work raised: the caller that cancelled must see its cancellation.
        if cancelled is not None:
            raise cancelled


def cancellation_check() -> Callable[[], None]:
    """Return a function that raises RunStoppedError once the calling task is cancelled.

    Long work in a thread calls it from time to time, so that a cancelled caller need not wait.
    """
    caller = asyncio.current_task()

    def raise_if_cancelled() -> None:
        if caller is not None and caller.cancelling():
            raise RunStoppedError("expected to settle the run to its end, got asked to stop before")

    return raise_if_cancelled


# What a run needs from storage: a journal to write through, datasets to read from.
#
# The replay loop knows nothing of files or SQL. Each implementation of `RunJournal` passes the
# same conformance test (docs/adr/0052).


MAX_EPISODES = 10_000_000
"""The highest sequence number: a corrupt one must not ask for terabytes."""


class RecordedSequences(Container[int], Sized, Protocol):
    """The sequence numbers that a journal holds durably."""


class RunJournal(Protocol):
    """The durable record of one theatre: its episodes and its audit chain."""

    async def recorded(self) -> RecordedSequences:
        """Return which episodes are recorded."""

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        """Make a batch durable, then its audit events.

        A sequence number that is recorded already is refused with JournalError.
        """

    def results(self) -> AsyncIterator[EpisodeResult]:
        """Yield in dataset order, streaming, what was recorded when the iteration began.

        JournalError with its `seq` for an episode that cannot be read.
        """

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one audit event durably and return its entry.

        A transition (an event with a `to_state`) is a compare-and-swap: StateConflictError
        unless the theatre is in its `from_state`; None is the state before the first.
        """

    def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries in order, streaming; JournalError for what is none."""


def read_result(seq: int, line: bytes) -> EpisodeResult:
    """Read the line that is stored as that of episode `seq`; JournalError for any other."""
    try:
        result = EpisodeResult.from_line(line)
    except ParseError as error:
        raise JournalError(
            f"a line of episode {seq} that cannot be read: {error}", seq=seq
        ) from error
    if result.seq != seq:
        raise JournalError(f"the line of episode {result.seq} in place of {seq}", seq=seq)
    return result


class DatasetReader(Protocol):
    """One open dataset whose bytes were hashed and found to be the committed ones."""

    @property
    def lines_total(self) -> int:
        """Return the number of lines."""

    def lines(self) -> Iterator[bytes]:
        """Yield each line without its line feed, from the very bytes that were hashed."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the raw bytes, from the same open file."""

    def close(self) -> None:
        """Close the file."""


class DatasetSource(Protocol):
    """Finds datasets by their committed path."""

    def open(self, path: str, *, sha256: str) -> DatasetReader:
        """Open, hash and return a dataset.

        Raises DatasetError where there is none at `path` and DatasetMismatchError where its
        SHA-256 is another one.
        """


class OpenDatasets(NamedTuple):
    """The verified ground truth of one run: the replay dataset, and the others by name."""

    replay: DatasetReader
    others: dict[str, DatasetReader]

    def gold_labels(self, name: str) -> dict[str, JsonObject]:
        """Return episode id → gold label from the dataset `name`; empty where there is none."""
        reader = self.others.get(name)
        return {} if reader is None else read_gold_labels(reader.lines())

    def qualifications(self, template: JsonObject) -> Qualifications:
        """Return criterion → the qualification that a template relies on."""
        return read_qualifications(template, lambda name: self.others[name].lines())

    def by_file_name(self, gold_name: str) -> dict[str, DatasetReader]:
        """Return the path in the bundle → the dataset."""
        named = {
            GOLD_LABELS if name == gold_name else name: reader
            for name, reader in self.others.items()
        }
        return {
            "ground_truth/dataset.jsonl": self.replay,
            **{f"ground_truth/{name}.jsonl": reader for name, reader in named.items()},
        }


@contextlib.contextmanager
def open_datasets(
    template: ProductTheatreTemplate, source: DatasetSource
) -> Iterator[OpenDatasets]:
    """Open every dataset that the template commits to, and close them; errors as `source.open`."""
    config, hashes = template.product_theatre_config, template.dataset_hashes
    with contextlib.ExitStack() as stack:
        readers = {}
        for name, path in config.data_paths().items():
            # Hashed and read through one descriptor: a file swapped in between is not read.
            readers[name] = source.open(path, sha256=hashes[name])
            stack.callback(readers[name].close)
        replay = readers.pop(config.replay_dataset_id)
        yield OpenDatasets(replay=replay, others=readers)


# What is to be called, and when to stop.


EpisodePair = tuple[GroundTruthEpisode, EpisodeResult | None]


async def pair_in_order(
    episodes: Iterator[GroundTruthEpisode], results: AsyncIterator[EpisodeResult]
) -> AsyncIterator[EpisodePair]:
    """Yield every episode of the dataset with the result recorded before, or None."""
    result = await anext(results, None)
    for episode in episodes:
        if result is None or result.seq != episode.seq:
            yield episode, None
            continue
        yield episode, result
        result = await anext(results, None)


def failure_stop(template: ProductTheatreTemplate, total: int) -> FailureStop:
    """Return the committed stop rule for a dataset of `total` episodes, each with its repeats."""
    policy = template.execution_policy
    threshold = exact(policy.failure_threshold) if policy.on_threshold == "settle" else None
    return FailureStop(total=total * policy.repeats, threshold=threshold)


# How far a run is, for display.


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is. `status` and `latency_ms` are those of the newest answer, if any.

    `used` is what its calls took, as `usage_of`; `failure` is why it failed, if it did.
    """

    done: int
    total: int
    status: InvocationStatus | None = None
    latency_ms: int | None = None
    used: JsonObject = field(default_factory=dict)
    failure: str | None = None


# What settling a run brought.


class Rehearsal(NamedTuple):
    """The result of a run that was never to be certified: its scores, and what they would be worth.

    No step of the programme was carried out but the calls: caps and findings of steps and of
    people's ratings are not there, and parts that people score are missing. `findings` are none
    where they were not looked for.
    """

    aggregate: JsonObject
    assessment: TierAssessment
    findings: tuple[str, ...]


REPRODUCED = "reproduction"
"""The reason of a run that may have no certificate: its coin was public before its first call."""


class SealedRun(NamedTuple):
    """What settling brought: a certificate in its bundle, or the reason why there is none.

    A reproduction has a bundle, too.

    `already_noted` is true where the store's chain holds the sealing entry from before a crash.
    """

    aggregate: JsonObject
    certificate: JsonObject | None = None
    sealed_event: AuditEvent | None = None
    bundle_path: Path | None = None
    reason: str | None = None
    already_noted: bool = False

    def outcome(self) -> JsonObject:
        """Return the detail of the `resolved` event."""
        if self.certificate is None:
            return {
                "outcome": "no_certificate",
                "outcome_reason": self.reason,
                "results_hash": self.aggregate["results_hash"],
            }
        return {
            "outcome": "certified",
            "certificate_id": self.certificate["certificate_id"],
            "verification_tier": self.certificate["verification_tier"],
            "results_hash": self.certificate["results_hash"],
        }


class RunSettings(NamedTuple):
    """How a run is carried out; none of it shows in a result.

    A rehearsal looks for its findings `with_findings`.
    A bundle that the own check refuses is moved from `output_dir` to `drafts_dir`.
    `concurrency_limit` is the most calls at a time, where that is less than was committed. Where
    several processes may run one theatre after another, each has its own number `attempt`.
    """

    output_dir: Path
    drafts_dir: Path
    issuer: str = "local"
    certificate_run: bool = True
    with_findings: bool = False
    batch_size: int = 100
    batch_seconds: float = 1.0
    concurrency_limit: int | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a run reaches through its caller: constructs, data, scorers, time, and its coin.

    `coin` is the one that the commitment names; None where it is lost, which ends the run.
    `run_nonce` is what the log gave that has the commitment; a run that has begun keeps its own.
    `adapters` holds one for every construct of an episode, by id, and `authors` who wrote it, where
    that is known; `environment` is what they can import here, as in a receipt, and
    `previous_environment` that of the newest certificate of the same construct and version, if one
    is known; `closed` are places with answers, apart from the run's own folder, that none of them
    may read; `judge` is for templates with judged criteria, and `sanitiser` may be None for those
    that commit `sanitise_input` as false.
    Once `is_stopping` returns true, no further episode is called. `on_rehearsed` is given what a
    rehearsal came to.
    """

    coin: Coin | None
    run_nonce: bytes = NO_NONCE
    adapters: Mapping[str, OracleAdapter]
    authors: Mapping[str, str | None] = field(default_factory=dict)
    environment: JsonObject | None = None
    previous_environment: JsonObject | None = None
    closed: Sequence[Path] = ()
    invoke: Invoker
    datasets: DatasetSource
    scorers: Mapping[str, Scorer]
    computations: Mapping[str, Computation] = field(default_factory=dict)
    runners: Mapping[str, EpisodeRunner] = field(default_factory=dict)
    judge: Judge | None = None
    sanitiser: InputSanitiser | None = None
    registry: SchemaRegistry
    clock: Clock
    sleep: Sleep
    history: TierHistory = field(default_factory=TierHistory)
    on_progress: Callable[[Progress], None] = lambda _: None
    on_rehearsed: Callable[[Rehearsal], None] = lambda _: None
    is_stopping: Callable[[], bool] = lambda: False

    def sanitiser_for(self, template: ProductTheatreTemplate) -> InputSanitiser | None:
        """Return the sanitiser where the template commits to one, else None."""
        return self.sanitiser if template.execution_policy.sanitise_input else None

    def runner_for(self, template: ProductTheatreTemplate) -> EpisodeRunner | None:
        """Return the runner of interactive episodes; None where each is a single call."""
        return self.runners.get(template.product_theatre_config.episode_runner)
