"""Runs one committed theatre: builds the parts, handles signals, closes everything."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from theatre.api.commitments import find_closed_folders, find_environment, refuse_copies
from theatre.api.connections import check_all_reachable, construct_authors, open_adapters
from theatre.api.judge import open_judge
from theatre.api.run_log import Logged, close_commitment, end_overdue, follow_move, log_commitment
from theatre.api.workspace import Workspace, utc_now
from theatre.engine.audit_chain import AuditEvent
from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Draws
from theatre.engine.errors import DatasetError
from theatre.engine.models import EpisodeResult
from theatre.engine.oracle_contract import OracleAdapter
from theatre.engine.replay import Progress, Rehearsal, ReplayEngine, RunContext, RunSettings
from theatre.engine.replay.context import RecordedSequences, RunJournal
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import ProductTheatreTemplate, product_template
from theatre.files.datasets import DatasetRoots
from theatre.files.theatre_store import TheatreLease
from theatre.oracles.endpoints import endpoints
from theatre.oracles.in_process import (
    CannedAnswers,
    FinishedAnswers,
    RecordedAnswers,
    RecordedOracleAdapter,
    by_alias,
    read_canned_answers,
)
from theatre.oracles.retry import make_retrying_invoker, require_reachable, within_budget
from theatre.oracles.sanitise import TextSanitiser
from theatre.scorers import load_computations, load_episode_runners, load_scorers

# Signals that end a command as Ctrl-C does: what is in is kept, what was started is stopped.


@contextlib.contextmanager
def cancel_on_signal(number: signal.Signals) -> Iterator[None]:
    """Let a signal cancel the running task; a thread gets no signals, its program does."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    loop.add_signal_handler(number, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)


# A run journal that notifies a listener of what became durable.


OnRecorded = Callable[[Sequence[EpisodeResult]], None]


class NotifyingJournal:
    """Wraps a journal; the listener is called with a batch once it is durable."""

    def __init__(self, journal: RunJournal, listener: OnRecorded) -> None:
        self._journal = journal
        self._listener = listener

    async def recorded(self) -> RecordedSequences:
        """Return which episodes are recorded."""
        return await self._journal.recorded()

    async def append(self, results: Sequence[EpisodeResult], events: Sequence[AuditEvent]) -> None:
        """Make a batch durable, then call the listener; errors as the journal's own."""
        await self._journal.append(results, events)
        self._listener(results)

    def results(self) -> AsyncIterator[EpisodeResult]:
        """Yield what was recorded, in dataset order."""
        return self._journal.results()

    async def note(self, event: AuditEvent) -> JsonObject:
        """Append one audit event; errors as the journal's own."""
        return await self._journal.note(event)

    def trail(self) -> AsyncIterator[JsonObject]:
        """Yield the audit entries."""
        return self._journal.trail()


_BEFORE_THE_LAST_CALL = frozenset({TheatreState.COMMITTED, TheatreState.ACTIVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How the caller wants one run; none of it shows in a result.

    `headers_env` are request headers and the variables that hold their values. `on_recorded` is
    called with each durable batch, `on_logged` once the log has the commitment of a new run.
    With `ends_with_construct` a construct that is gone
    ends the run with ConstructUnreachableError, to be gone on with, and costs no episode. With
    `on_rehearsed` the run is a rehearsal: it leaves no certificate, and what it came to goes there;
    there, `answers` are those of constructs whose adapter is `mock`, and findings are looked for
    `with_findings`: that takes two more plays of an interactive episode. `recorded` are those of
    the construct that a harness asks while the run goes on.
    """

    batch_size: int = 100
    concurrency_limit: int | None = None
    headers_env: Mapping[str, str] = field(default_factory=dict)
    on_recorded: OnRecorded = lambda _: None
    on_logged: Callable[[Logged], None] = lambda _: None
    ends_with_construct: bool = False
    on_rehearsed: Callable[[Rehearsal], None] | None = None
    answers: CannedAnswers = field(default_factory=dict)
    with_findings: bool = False
    recorded: RecordedAnswers | None = None


async def run_theatre(
    theatre_id: str,
    workspace: Workspace,
    options: RunOptions,
    *,
    on_start: Callable[[TheatreLease], None],
    on_progress: Callable[[Progress], None],
) -> None:
    """Run a theatre of the store to its end; errors as `ReplayEngine` and `open_adapters`.

    A construct that cannot be reached, while there are calls to make, raises as
    `check_all_reachable`, and one whose files hold the ground truth raises DatasetCopyError before
    the first call: both leave the theatre as it was.

    Raises KeyboardInterrupt on SIGINT and SIGTERM, after every answer that is in has been
    recorded and every construct has been stopped.
    """
    with workspace.store.hold(theatre_id) as held:
        template = product_template(held.theatre.template)
        workspace = replace(workspace, code_folder=held.code_folder)
        is_logged = options.on_rehearsed is None and held.theatre.commitment.reproduces is None
        now = utc_now()
        if await end_overdue(held, now):
            await close_commitment(workspace.store.view(theatre_id))
            held.theatre.require_in_time(now)
        if is_logged:
            await follow_move(held)
        on_start(held)
        is_calling = held.theatre.state in _BEFORE_THE_LAST_CALL
        datasets = workspace.datasets_for(held.template_folder, held.data)
        # A rehearsal leads to no certificate. In every state: what a killed rehearsal left behind
        # could be run to its end here. Data that are gone later are the engine's to report.
        if options.on_rehearsed is None:
            is_new = held.theatre.state is TheatreState.COMMITTED
            with contextlib.suppress(*(() if is_new else (DatasetError,))):
                await refuse_copies(template, workspace, held.template_folder, datasets)
        async with (
            open_adapters(
                template,
                workspace,
                held.template_folder,
                headers_env=options.headers_env,
                answers=_by_alias(held, options.answers),
                recorded=options.recorded or _imported(template, datasets, is_needed=is_calling),
            ) as adapters,
            open_judge(held.theatre.template, workspace, is_needed=is_calling) as judge,
        ):
            invoke = within_budget(
                make_retrying_invoker(asyncio.sleep),
                template.execution_policy.budget,
                {one.construct_id: one.settings.get("prices") for one in endpoints(template)},
            )
            if options.ends_with_construct:
                invoke = require_reachable(invoke, adapters)
            context = RunContext(
                coin=held.coin,
                run_nonce=held.run_nonce,
                adapters=adapters,
                authors=construct_authors(template, workspace, held.template_folder),
                environment=await find_environment(template, workspace, held.template_folder),
                closed=find_closed_folders(workspace, held.template_folder),
                previous_environment=await asyncio.to_thread(
                    _previous_environment, held, template, workspace
                ),
                invoke=invoke,
                datasets=datasets,
                scorers=load_scorers(),
                computations=load_computations(),
                runners=load_episode_runners(),
                judge=judge,
                sanitiser=TextSanitiser(),
                registry=SchemaRegistry(),
                clock=utc_now,
                sleep=asyncio.sleep,
                on_progress=on_progress,
                on_rehearsed=options.on_rehearsed or (lambda _: None),
            )
            settings = RunSettings(
                output_dir=held.folder,
                drafts_dir=workspace.store.drafts,
                issuer=workspace.issuer,
                certificate_run=options.on_rehearsed is None,
                with_findings=options.with_findings,
                batch_size=options.batch_size,
                concurrency_limit=options.concurrency_limit,
            )
            journal = NotifyingJournal(held.journal, options.on_recorded)
            engine = ReplayEngine(held.theatre, journal, context, settings)
            with cancel_on_signal(signal.SIGTERM):
                if is_calling:
                    await check_all_reachable(adapters)
                is_new = held.theatre.state is TheatreState.COMMITTED
                # Without its coin it is ended, and asks no one.
                if is_logged and is_new and held.coin is not None:
                    # As late as can be: nothing is logged for a run that was refused before.
                    logged = await log_commitment(held, workspace.issuer)
                    options.on_logged(logged)
                    with_nonce = replace(context, run_nonce=logged.nonce)
                    engine = ReplayEngine(held.theatre, journal, with_nonce, settings)
                    context = with_nonce
                _bind_recorded(held, adapters, context)
                ended = await engine.run()
                if is_logged and ended.state is TheatreState.RESOLVED:
                    await close_commitment(workspace.store.view(theatre_id), is_checked=True)


def _imported(
    template: ProductTheatreTemplate, datasets: DatasetRoots, *, is_needed: bool
) -> RecordedAnswers | None:
    """Return the committed answers of a finished log; None where the template has none.

    Raises ParseError for a line that is no answer, else as `DatasetRoots.open`.
    """
    config = template.product_theatre_config
    name = config.adapter_endpoint
    if config.adapter_type != "imported" or name is None or not is_needed:
        return None
    with contextlib.closing(
        datasets.open(config.dataset_paths[name], sha256=template.dataset_hashes[name])
    ) as reader:
        return FinishedAnswers(read_canned_answers(reader.lines()))


def _bind_recorded(
    held: TheatreLease, adapters: Mapping[str, OracleAdapter], context: RunContext
) -> None:
    """Tell adapters of recorded answers the aliases that a run asks under."""
    if held.coin is None:
        return
    draws = Draws(held.coin, held.theatre.commitment.commitment_hash, context.run_nonce)
    for adapter in adapters.values():
        if isinstance(adapter, RecordedOracleAdapter):
            adapter.bind(draws)


def _by_alias(held: TheatreLease, answers: CannedAnswers) -> CannedAnswers:
    """Return answers by the ids that constructs are asked under."""
    if held.coin is None:
        return {}
    commitment_hash = held.theatre.commitment.commitment_hash
    return by_alias(answers, Draws(held.coin, commitment_hash, held.run_nonce))


def _previous_environment(
    held: TheatreLease, template: ProductTheatreTemplate, workspace: Workspace
) -> JsonObject | None:
    """Return what the version was certified in before, where a run is to begin."""
    if held.theatre.state is not TheatreState.COMMITTED:
        return None
    construct_id = template.product_theatre_config.construct_under_test
    version = template.version_pins.constructs[construct_id]
    return workspace.store.newest_environment(construct_id, version)
