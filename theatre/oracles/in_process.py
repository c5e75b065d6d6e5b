"""`python@1`: a Python callable as a construct, `module:name` (docs/contract/construct.md §2).

It runs in a child process of its own, served by the construct kit: this process never imports
it. A template that comes over HTTP can name only functions of modules that the operator lists.
"""

from __future__ import annotations

import ast
import asyncio
import glob
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from theatre.engine.canonical_json import JsonObject, canonical_bytes, parse_object
from theatre.engine.clock import Clock
from theatre.engine.coin import Draws
from theatre.engine.errors import ParseError
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    NOT_ISOLATED,
    Attempt,
    Isolation,
    OracleInvocationRequest,
    RehearsalAdapter,
    failed_attempt,
    read_answer,
    served_argv,
)
from theatre.engine.schema_registry import Quoted, phrase
from theatre.oracles.child_process import ChildProcess, Reply
from theatre.oracles.construct_registry import RegisteredConstruct, source_of
from theatre.oracles.errors import (
    ConstructFilesError,
    ConstructRegistryError,
    HarnessChangedError,
    UnknownAnswerError,
    UnknownConstructError,
)
from theatre.oracles.limited_process import ProcessLimits, describe_exit
from theatre.oracles.local import LocalOracleAdapter
from theatre.oracles.wire_forms import wait_within

_NO_QUESTION = b"{}\n"
"""The kit refuses it by itself: the callable is not called."""
_IMPORT_SECONDS = 300.0
"""Weights of a model are loaded in that time, too."""

# `mock@1`: canned answers, for tests and rehearsals only (docs/contract/construct.md §2).


CannedAnswers: TypeAlias = Mapping[tuple[str | None, str], JsonObject]
"""(Construct id, or None for any; episode id of the dataset) → members of an answer envelope."""
_ENVELOPE = {"output_data", "status", "error_detail", "confidence"}
_PLACE = {"episode_id", "construct_id"}


def read_canned_answers(lines: Iterable[bytes]) -> CannedAnswers:
    """Read JSONL: a line has an `episode_id` of the dataset and members of an answer envelope.

    With a `construct_id` it is the answer of that construct alone. Raises ParseError, with the
    line, for anything else and for a second answer to one question.
    """
    answers: dict[tuple[str | None, str], JsonObject] = {}
    for number, line in enumerate(lines, start=1):
        where = f"line {number}: "
        try:
            document = parse_object(line)
        except ParseError as error:
            message = phrase(where, Quoted(str(error), spelt=str))
            raise ParseError(message, reason=error.reason) from error
        episode_id, construct_id = document.get("episode_id"), document.get("construct_id")
        unknown = sorted(document.keys() - _ENVELOPE - _PLACE)
        if not isinstance(episode_id, str) or unknown:
            members = ", ".join(sorted(_ENVELOPE))
            expected = f"{where}expected an episode_id and no more than {members}, got a line "
            got = ("with ", Quoted(", ".join(unknown), spelt=str)) if unknown else ("without",)
            raise ParseError(phrase(expected, *got))
        if construct_id is not None and not isinstance(construct_id, str):
            raise ParseError(f"{where}expected construct_id to be a string")
        if (construct_id, episode_id) in answers:
            asked = Quoted(episode_id, spelt=str)
            raise ParseError(phrase(where, "expected one answer to ", asked, ", got a second"))
        answers[construct_id, episode_id] = {
            name: value for name, value in document.items() if name in _ENVELOPE
        }
    return answers


def by_alias(answers: CannedAnswers, draws: Draws) -> CannedAnswers:
    """Return answers by the ids that constructs are asked under."""
    return {
        (construct_id, draws.alias(episode_id)): answer
        for (construct_id, episode_id), answer in answers.items()
    }


def canned_adapter(construct_id: str, answers: CannedAnswers, *, clock: Clock) -> MockOracleAdapter:
    """Return an adapter with the answers of one construct, and those of any; both by alias."""
    own = {
        episode_id: answer
        for (of, episode_id), answer in answers.items()
        if of in (None, construct_id)
    }
    return MockOracleAdapter(own, clock=clock)


class _WithoutProgram:
    """What adapters have in common that make no call: there is nothing to start or to close."""

    @property
    def computed_version(self) -> None:
        """Return None: there is no program whose files could be hashed."""

    async def check_reachable(self) -> None:
        """Answer from memory: there is nothing to be reached."""

    async def probe_isolation(self, _: Sequence[Path]) -> Isolation:
        """Return that nothing is closed: there is no program that could try."""
        return NOT_ISOLATED

    async def aclose(self) -> None:
        """Hold nothing, so let go of nothing."""


def _attempt(
    canned: JsonObject | None, request: OracleInvocationRequest, what: str, at: datetime
) -> Attempt:
    """Return a table's answer through the reader of real ones; None is `no-<what>-answer`."""
    if canned is None:
        return failed_attempt(
            request,
            InvocationStatus.ERROR,
            reason=f"no-{what}-answer",
            detail=f"expected a {what} answer to this question, got none",
            latency_ms=0,
            responded_at=at,
        )
    envelope: JsonObject = {
        "invocation_id": request.invocation_id,
        "construct_id": request.construct_id,
        "construct_version": request.construct_version,
        "status": InvocationStatus.SUCCESS.value,
        **canned,
    }
    return read_answer(canonical_bytes(envelope), request, latency_ms=0, responded_at=at)


class MockOracleAdapter(_WithoutProgram, RehearsalAdapter):
    """Answers from a table: `answers` by the id that an episode is asked under, else `default`.

    A canned answer holds members of an answer envelope, at least `output_data` for a success;
    the ids and `status` success are filled in where it leaves them out. It goes through the
    same reader as a real one. Without any, the attempt is an error, reason `no-canned-answer`.
    """

    pin = "mock@1"

    def __init__(
        self, answers: Mapping[str, JsonObject], *, clock: Clock, default: JsonObject | None = None
    ) -> None:
        self._answers = dict(answers)
        self._default = default
        self._clock = clock

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Return the canned answer, as if it had come at once."""
        canned = self._answers.get(request.episode_id, self._default)
        return _attempt(canned, request, "canned", self._clock())


# `imported@1` and `harness@1`: another program asked the construct (docs/contract/earned.md §9).


class RecordedAnswers(Protocol):
    """Answers by the episode's id in the dataset; a second one to an episode is never taken."""

    def episode_ids(self) -> Iterable[str]:
        """Return the ids that there is, or may come, an answer to."""

    async def wait(self, episode_id: str) -> JsonObject | None:
        """Return members of an answer envelope, None where none is there nor will come."""


class FinishedAnswers:
    """The answers of a log that was finished before."""

    def __init__(self, answers: CannedAnswers) -> None:
        self._answers = {episode_id: answer for (_, episode_id), answer in answers.items()}

    def episode_ids(self) -> Iterable[str]:
        """Return the ids in the log."""
        return self._answers

    async def wait(self, episode_id: str) -> JsonObject | None:
        """Return the answer at once."""
        return self._answers.get(episode_id)


class LiveAnswers:
    """The answers of a harness that runs now, given and awaited in different threads.

    A run that waits is woken once for many answers, after `GROUP` of them or `MOST_SECONDS`: a
    wake-up costs both threads more than an answer does. The last episode's answer is held
    until `close`: only then is it known that nothing was changed on the way, and nothing may be
    settled before.
    """

    GROUP = 100
    MOST_SECONDS = 1.0

    def __init__(self, episode_ids: Sequence[str]) -> None:
        """Take the ids in the order of the dataset; at least one."""
        self._ids, self._last = frozenset(episode_ids), episode_ids[-1]
        # The thread that holds it may read and change what follows; only the run waits for `_news`.
        self._lock = threading.Lock()
        self._answers: dict[str, JsonObject] = {}
        self._is_closed, self._changed = False, ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting, self._unseen = 0, 0
        self._news = asyncio.Event()

    def episode_ids(self) -> Iterable[str]:
        """Return the ids of the dataset."""
        return self._ids

    def give(self, episode_id: str, answer: JsonObject) -> None:
        """Take members of an answer envelope; UnknownAnswerError for a second, or an unknown id."""
        with self._lock:
            if episode_id not in self._ids or episode_id in self._answers or self._is_closed:
                raise UnknownAnswerError(f"expected one answer to each episode, got {episode_id!r}")
            self._answers[episode_id] = answer
            self._unseen += 1
            if self._loop is not None and self._unseen == 1:
                later, wake = self._loop.call_later, self._news.set
                self._loop.call_soon_threadsafe(later, self.MOST_SECONDS, wake)
            elif self._unseen == self.GROUP:
                self._wake()

    def close(self, changed: str | None = None) -> None:
        """Let the run go on to its end without what is missing; with `changed`, let it fail."""
        with self._lock:
            self._is_closed, self._changed = True, changed or ""
            self._wake()

    async def wait(self, episode_id: str) -> JsonObject | None:
        """Return the answer once it is given; HarnessChangedError as `close` says."""
        while not self._is_there(episode_id):
            try:
                await self._news.wait()
            finally:
                self._stop_waiting()
        if self._changed:
            raise HarnessChangedError(self._changed)
        return self._answers.get(episode_id)

    def _is_there(self, episode_id: str) -> bool:
        """Return whether waiting is over; else the next `give` or `close` knows who waits."""
        with self._lock:
            if self._is_closed or (episode_id in self._answers and episode_id != self._last):
                return True
            self._loop, self._unseen = asyncio.get_running_loop(), 0
            self._waiting += 1
            self._news.clear()
            return False

    def _stop_waiting(self) -> None:
        # Its loop may be closed once no one waits in it.
        with self._lock:
            self._waiting -= 1
            self._loop = self._loop if self._waiting else None

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._news.set)


class RecordedOracleAdapter(_WithoutProgram):
    """Passes on what another program recorded; it may have given the construct anything."""

    def __init__(self, adapter_type: str, answers: RecordedAnswers, *, clock: Clock) -> None:
        self._type = adapter_type
        self._answers = answers
        self._clock = clock
        self._ids: dict[str, str] = {}

    @property
    def pin(self) -> str:
        """Return `imported@1` or `harness@1`."""
        return f"{self._type}@1"

    def bind(self, draws: Draws) -> None:
        """Take the draws of the run: requests name episodes by aliases."""
        self._ids = {draws.alias(name): name for name in self._answers.episode_ids()}

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Return what is recorded of the episode, once it is there; else `no-recorded-answer`."""
        episode_id = self._ids.get(request.episode_id)
        recorded = None if episode_id is None else await self._answers.wait(episode_id)
        return _attempt(recorded, request, "recorded", self._clock())


class PythonOracleAdapter(LocalOracleAdapter):
    """The local adapter over the kit's server on stdin and stdout.

    Clocks, limits and reasons as in `LocalOracleAdapter`. The callable's prints, and those of
    its module, are complaints: they go where stderr goes.
    """

    pin = "python@1"

    def __init__(
        self, construct: RegisteredConstruct, *, clock: Clock, monotonic: Callable[[], float]
    ) -> None:
        """Take a construct from `construct_from_callable`."""
        self._target = construct.argv[-1]
        super().__init__(
            source_of(construct).bind,
            limits=construct.limits,
            clock=clock,
            monotonic=monotonic,
            reach=construct.reach,
        )

    async def _require_ready(self, process: ChildProcess) -> None:
        """Wait until the kit serves the callable; ConstructUnreachableError where it cannot.

        Else each call would find out anew, and fail. Nothing of a question is in what is sent, so
        a construct that ends here has chosen that without having seen one.
        """
        outcome = await wait_within(process.exchange(_NO_QUESTION), seconds=_IMPORT_SECONDS)
        if isinstance(outcome, Reply) and not outcome.ended:
            return
        ended = f"no answer within {_IMPORT_SECONDS:g} s"
        if isinstance(outcome, Reply):
            ended = "it closed its stdout"
            if outcome.exit_code is not None:
                ended = describe_exit(outcome.exit_code, self._limits)
        raise await self._not_ready(f"{self._target} to be imported where constructs run", ended)


def construct_from_callable(
    construct_id: str, target: str, folder: Path, *, limits: ProcessLimits | None = None
) -> RegisteredConstruct:
    """Return the construct that `target`, `module:name`, stands for in `folder`.

    Its files are the module's own or, where the module belongs to a package, every `*.py` of the
    outermost one. What else lies in `folder` is not there when it runs: register the construct to
    list modules next to it, or data, as well.

    Raises ConstructRegistryError where `target` has another form, and ConstructFilesError where
    `folder` holds no source of such a module.
    """
    module_name, _, name = target.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise ConstructRegistryError(f"expected module:name, got {target!r:.200}")
    folder = folder.resolve()
    return RegisteredConstruct(
        construct_id=construct_id,
        argv=served_argv(target),
        folder=folder,
        files=(_pattern(module_name, folder),),
        limits=limits or ProcessLimits(),
    )


def _pattern(module_name: str, folder: Path) -> str:
    """Return the glob, below `folder`, for the source of a module or its outermost package.

    Asks Python's own finder, so that it is the very file that an import would take.
    """
    outermost = module_name.partition(".")[0]
    finder = FileFinder(
        str(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES)
    )
    spec = finder.find_spec(outermost)
    if spec is not None and spec.submodule_search_locations is not None:
        return f"{glob.escape(outermost)}/**/*.py"
    if spec is None or spec.origin is None or not spec.origin.endswith(tuple(SOURCE_SUFFIXES)):
        raise ConstructFilesError(
            f"expected the source of module {outermost} in {folder}, got none"
        )
    return glob.escape(Path(spec.origin).name)


# What others may name: a service runs functions for anyone with an account.


class ListedModules(NamedTuple):
    """The modules below `folder` whose public functions templates of others may name.

    `names` are whole dotted names: a package does not stand for the modules in it.
    """

    folder: Path
    names: frozenset[str]

    def find(self, construct_id: str, target: str) -> RegisteredConstruct:
        """Return the construct that `module:name` stands for; nothing is imported.

        Raises UnknownConstructError, with nothing of the request, for a module that is not listed
        and for what is no public function written at its top level: what a module imports, and
        what hangs on its functions, is not the operator's to lend.
        """
        module, _, name = target.partition(":")
        if module not in self.names or name.startswith("_") or name not in self._functions(module):
            raise UnknownConstructError(
                "expected module:name of a public function in a module that the operator lists "
                "(ECHELON_PYTHON_MODULES), got another"
            )
        return construct_from_callable(construct_id, target, self.folder)

    def _functions(self, module: str) -> frozenset[str]:
        path = self.folder.joinpath(*module.split("."))
        for source in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if source.is_file() and source.resolve().is_relative_to(self.folder.resolve()):
                try:
                    tree = ast.parse(source.read_bytes())
                except (SyntaxError, ValueError) as error:
                    raise ConstructFilesError(
                        f"expected Python in {source}, got: {error}"
                    ) from error
                kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
                return frozenset(one.name for one in tree.body if isinstance(one, kinds))
        return frozenset()


NO_MODULES = ListedModules(folder=Path(), names=frozenset())
