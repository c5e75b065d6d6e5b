"""A callable that answers envelopes: what every server of the kit serves."""

from __future__ import annotations

import atexit
import inspect
import os
import re
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from theatre.construct_kit.envelopes import ConstructVersionError, Outcome, Question, write_answer
from theatre.engine.canonical_json import JsonObject, json_type, sha256_hex
from theatre.engine.errors import CanonicalisationError, ParseError
from theatre.engine.oracle_contract import program_version, served_argv

if TYPE_CHECKING:
    import asyncio

# A construct's version: given in hex, or computed of the files of its module.
#
# `theatre.oracles.in_process` computes the same on the engine's side, without importing the
# module; a test holds them together.


_VERSION = re.compile(r"[a-f0-9]{7,64}")


def require_version(text: str) -> str:
    """Return `text`. Raises ConstructVersionError where no pin could name it."""
    if _VERSION.fullmatch(text) is None:
        raise ConstructVersionError(
            f"expected a construct version of 7 to 64 hex digits, as a pin has, got {text!r:.100}"
        )
    return text


def content_version(target: str) -> str:
    """Return the version of a callable of an imported module, `module:name`, 64 hex digits.

    It is that of the program which serves the callable on stdin. Its files are the module's own
    or, where it belongs to a package, every `*.py` in the outermost one; paths begin with the
    name of file or package. Raises ConstructVersionError for a module that was not read from a
    file.
    """
    module_name, _, name = target.partition(":")
    module = sys.modules[module_name]
    import_name = _import_name(module)
    root, files = _files_of(sys.modules.get(import_name.partition(".")[0], module))
    hashes = {path.relative_to(root).as_posix(): sha256_hex(path.read_bytes()) for path in files}
    return program_version(served_argv(f"{import_name}:{name}"), hashes)


def _import_name(module: ModuleType) -> str:
    # A module that is run as a program is called `__main__`: its spec, or its file, says more.
    if module.__name__ != "__main__":
        return module.__name__
    return Path(module.__file__ or "").stem if module.__spec__ is None else module.__spec__.name


def _files_of(module: ModuleType) -> tuple[Path, list[Path]]:
    if hasattr(module, "__path__"):
        package = Path(next(iter(module.__path__)))
        return package.parent, [path for path in package.rglob("*.py") if path.is_file()]
    if module.__file__ is None:
        raise ConstructVersionError(
            f"expected {module.__name__} as a file, so that its hash can be its version, got a "
            "module without one: give a version"
        )
    path = Path(module.__file__)
    return path.parent, [path]


# What an author writes: `@construct(id=…)` on a callable, and `Refusal` to decline a call.


_MARK = "__construct__"

F = TypeVar("F", bound=Callable[..., object])


class Refusal(Exception):  # noqa: N818  # a refusal is an answer of its own kind, no error
    """Raised by a construct to decline a call; its text is the recorded reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the decorator says about a callable."""

    construct_id: str | None
    version: str | None


def construct(
    *,
    id: str,  # noqa: A002  # the word that the envelope and the templates use
    version: str | None = None,
) -> Callable[[F], F]:
    """Declare a callable to be the construct `id`; the callable itself stays as it is.

    It takes `input_data`, a dict, and returns `output_data`, a dict, or an awaitable of one.
    Raising `Refusal` declines the call; any other exception is an error of that call. `version`
    is 7 to 64 hex digits; without it ECHELON_CONSTRUCT_VERSION counts, and without that the
    content hash of the module's files. Raises ConstructVersionError for another `version`.
    """
    declaration = Declaration(
        construct_id=id, version=None if version is None else require_version(version)
    )

    def declare(function: F) -> F:
        setattr(function, _MARK, declaration)
        return function

    return declare


def declared_id(function: Callable[..., object]) -> str | None:
    """Return the id that a callable was declared to be; None without the decorator."""
    declared = getattr(function, _MARK, None)
    return declared.construct_id if isinstance(declared, Declaration) else None


# One event loop for every call of an async construct, whatever thread the call came in by.
# Only such a construct waits for asyncio to be imported.


_PATIENCE_SECONDS = 2.0


class EventLoopThread:
    """Runs awaitables in its own thread, so that what they share stays on one loop.

    A client session that a construct opens in its first call is still usable in its second.
    The thread starts with the first awaitable. It ends with the process, which cancels what is
    still under way.
    """

    def __init__(self) -> None:
        self._start = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Wait for an awaitable and return its result, or raise what it raised."""
        import asyncio  # noqa: PLC0415  # see above

        with self._start:
            if self._loop is None:
                self._loop = _start_loop()
        outcome = _result_or_ending(awaitable)
        result, ending = asyncio.run_coroutine_threadsafe(outcome, self._loop).result()
        if ending is not None:
            raise ending
        return result


def _start_loop() -> asyncio.AbstractEventLoop:
    import asyncio  # noqa: PLC0415  # see above
    from concurrent.futures import Future  # noqa: PLC0415  # see above

    started: Future[asyncio.AbstractEventLoop] = Future()
    ending = asyncio.Event()

    def run() -> None:
        with asyncio.Runner() as runner:
            started.set_result(runner.get_loop())
            runner.run(ending.wait())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    loop = started.result()

    def end() -> None:
        loop.call_soon_threadsafe(ending.set)
        thread.join(_PATIENCE_SECONDS)

    atexit.register(end)
    return loop


async def _result_or_ending(awaitable: Awaitable[object]) -> tuple[object, BaseException | None]:
    """Hand over an exception that would end the loop's thread, and leave the caller waiting."""
    try:
        return await awaitable, None
    except (SystemExit, KeyboardInterrupt) as ending:
        return None, ending


VERSION_VARIABLE = "ECHELON_CONSTRUCT_VERSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An envelope as it is sent; `final` as in `Outcome`."""

    body: bytes
    final: bool


@dataclass(frozen=True, slots=True)
class ServedConstruct:
    """Calls a construct's callable and puts what comes of it into an envelope.

    `construct_id` is the id that it answers for; with None it answers under whatever id it is
    called by. `version` is the one that it reports.
    """

    function: Callable[..., object]
    construct_id: str | None
    version: str
    _loop: EventLoopThread = field(default_factory=EventLoopThread, init=False)

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question; nothing that the callable raises gets out.

        But what ends a program (`sys.exit`) ends this one.
        """
        outcome = self._refuse_stray(question) or self._call(question.input_data)
        try:
            body = self._envelope(outcome, question)
        except (CanonicalisationError, ParseError) as error:
            outcome = Outcome(status="error", detail=f"the callable's answer: {error}")
            body = self._envelope(outcome, question)
        return Answer(body=body, final=outcome.final)

    def rejection(self, reason: str) -> bytes:
        """Return the answer to what is no question: an error under an empty invocation id."""
        return self._envelope(Outcome(status="error", detail=reason), None)

    def _envelope(self, outcome: Outcome, question: Question | None) -> bytes:
        called_by = "" if question is None else question.construct_id
        return write_answer(
            outcome,
            invocation_id="" if question is None else question.invocation_id,
            construct_id=called_by if self.construct_id is None else self.construct_id,
            construct_version=self.version,
            run_nonce=None if question is None else question.run_nonce,
        )

    def _refuse_stray(self, question: Question) -> Outcome | None:
        """Return why a call is meant for another construct; such a call is not made."""
        for what, own, called in (
            ("construct", self.construct_id, question.construct_id),
            ("version", self.version, question.construct_version),
        ):
            if own not in (None, called):
                detail = f"expected a call to {what} {own}, got one to {called!r:.100}"
                return Outcome(status="error", detail=detail)
        return None

    def _call(self, input_data: JsonObject) -> Outcome:
        try:
            output = self.function(input_data)
            if inspect.isawaitable(output):
                output = self._loop.result_of(output)
        except Refusal as refusal:
            return Outcome(status="refused", detail=str(refusal) or "no reason given")
        except Exception as error:  # noqa: BLE001  # whatever it raises is an error of this call
            traceback.print_exception(error)
            words = "".join(traceback.format_exception_only(error)).strip()
            return Outcome(status="error", detail=words)
        if not isinstance(output, dict):
            detail = f"expected the callable to return a dict, got {json_type(output)}"
            return Outcome(status="error", detail=detail)
        return Outcome(status="success", output=output)


def make_servable(
    function: Callable[..., object],
    *,
    construct_id: str | None = None,
    version: str | None = None,
    target: str | None = None,
) -> ServedConstruct:
    """Return a callable ready to be served.

    `construct_id` and `version` go before what the decorator declared. The version is, in this
    order, the given one, that of the environment (the engine's, when it runs the construct
    itself), the declared one, the one computed of `target`, `module:name`, by which the callable
    was found. Raises ConstructVersionError where that is none.
    """
    declared = getattr(function, _MARK, None)
    if not isinstance(declared, Declaration):
        declared = Declaration(construct_id=None, version=None)
    known = version or os.environ.get(VERSION_VARIABLE) or declared.version
    if target is None:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        target = f"{function.__module__}:{name}"
    return ServedConstruct(
        function,
        construct_id=construct_id or declared.construct_id,
        version=require_version(known) if known else content_version(target),
    )
