"""Logs and witnesses elsewhere: files of a log over HTTP or in a folder, and cosignatures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from yarl import URL

from theatre.engine.errors import NotFoundError
from theatre.files.log_folder import LogFolder
from theatre.oracles.http_client import Connection, HttpClient, NoResponseError
from theatre.transparency.continuation import fork, hold_to_copy, require_size
from theatre.transparency.errors import (
    LogBehindError,
    LogForkError,
    MalformedError,
    TransparencyError,
)
from theatre.transparency.log import LogStore, TileStore, ask_witness
from theatre.transparency.notes import (
    Checkpoint,
    Note,
    SignatureLine,
    SignedCheckpoint,
    parse_decimal,
    parse_signature_lines,
)
from theatre.transparency.policy import Witness
from theatre.transparency.trust import Trust
from theatre.transparency.witness import SIZE_TYPE

MAX_FILE_BYTES: Final = 256 * 1024 + 256 * 2
"""A bundle of 256 entries of 1 KiB, with their lengths: no file of a log is larger."""
_SECONDS = 30.0
_Unanswered = TransparencyError | NoResponseError | TimeoutError
"""Why there may be no line of a witness; anything else is a fault of this program."""
_WITNESS_SECONDS = 5.0


class LogUnreachableError(TransparencyError):
    """A log or witness does not answer, or answers something else than files of a log."""

    code = "log-unreachable"


class HttpLog:
    """The files of a log below a URL. Nothing of them is trusted: readers verify."""

    def __init__(self, url: str, client: HttpClient) -> None:
        self._url = url.rstrip("/")
        self._client = client

    async def read(self, path: str) -> bytes:
        """Return a file; NotFoundError where there is none, LogUnreachableError for no answer."""
        url = f"{self._url}/{path}"
        try:
            status, _, data = await self._client.ask("GET", URL(url), read=_read, headers={})
        except (NoResponseError, TimeoutError, ValueError) as error:
            raise LogUnreachableError(f"expected {url} to answer: {error}") from error
        if status == HTTPStatus.NOT_FOUND:
            raise NotFoundError(f"expected a file of a log at {url}, got none")
        if status != HTTPStatus.OK or len(data) > MAX_FILE_BYTES:
            raise LogUnreachableError(
                f"expected a file of a log at {url}, got status {status} "
                f"and {len(data)} bytes or more"
            )
        return data


async def _read(response: Connection) -> tuple[int, str, bytes]:
    kind = (response.value("content-type") or "").partition(";")[0].strip().lower()
    return response.status, kind, await response.read(MAX_FILE_BYTES)


@contextlib.asynccontextmanager
async def open_log(place: str) -> AsyncIterator[TileStore]:
    """Yield the files of a log, at an http(s) URL or in a folder."""
    if urlsplit(place).scheme in {"http", "https"}:
        async with contextlib.aclosing(HttpClient(seconds=_SECONDS)) as client:
            yield HttpLog(place, client)
        return
    yield LogFolder(Path(place))


async def gather_cosignatures(
    store: TileStore, checkpoint: bytes, witnesses: Iterable[Witness]
) -> tuple[list[SignatureLine], list[str]]:
    """Ask each witness that has a URL; return what is valid, and what went wrong with the others.

    A missing one delays nothing beyond five seconds: its cosignature is not there, and that shows.
    Raises LogForkError where one has seen another tree of this log.
    """
    answers = await _ask_all(store, checkpoint, witnesses, known=0)
    lines: list[SignatureLine] = []
    missing: list[str] = []
    for witness, answer in answers:
        if isinstance(answer, LogForkError):
            raise answer
        if isinstance(answer, SignatureLine):
            lines.append(answer)
        elif isinstance(answer, LogBehindError):
            # Another process of this log was quicker; a restored one is found before it signs.
            missing.append(f"{witness.key.name}: it has seen a later checkpoint already")
        else:
            missing.append(_why(witness, answer))
    return lines, missing


@dataclass(frozen=True, slots=True)
class Compared:
    """Which witnesses answered, and in words what went wrong with the other ones and copies."""

    witnesses: tuple[Witness, ...]
    missing: tuple[str, ...]


async def compare_with_others(
    store: LogStore, trust: Trust, copies: Iterable[str] = ()
) -> Compared:
    """Hold the signed state of a log to what its witnesses and copies have seen, before it signs.

    `copies` are URLs and folders, in addition to the log's own address. Raises LogBehindError where
    one of them knows more than is here, LogForkError where one has another tree
    (docs/adr/0185). A log that has signed nothing is compared with nothing.
    """
    places = [*copies, *([trust.url] if trust.url is not None else [])]
    while (signed := await store.signed()) is not None:
        try:
            return await _compare(store, signed, trust, places)
        except LogBehindError:
            # Another process of this log may have gone on while this one asked.
            if await store.signed() == signed:
                raise
    return Compared((), ())


async def _compare(store: LogStore, signed: bytes, trust: Trust, places: Iterable[str]) -> Compared:
    ours = SignedCheckpoint.verify(signed, [trust.log]).checkpoint
    missing: list[str] = []
    for place in places:
        async with open_log(place) as copy:
            try:
                await hold_to_copy(store, ours, copy, trust.log, seen_by=place)
            except (LogBehindError, LogForkError):
                raise
            except (TransparencyError, NotFoundError) as error:
                missing.append(f"not compared with {place}: {error}")
    witnesses: list[Witness] = []
    # What was signed already is asked for: a witness that knows it or less signs it again.
    answers = await _ask_all(store, signed, trust.policy.witnesses.values(), known=ours.size)
    for witness, answer in answers:
        if isinstance(answer, LogBehindError | LogForkError):
            raise answer
        if isinstance(answer, SignatureLine):
            witnesses.append(witness)
        else:
            missing.append(f"no cosignature: {_why(witness, answer)}")
    return Compared(tuple(witnesses), tuple(missing))


def _why(witness: Witness, error: Exception) -> str:
    return f"{witness.key.name}: {str(error) or type(error).__name__}"


async def _ask_all(
    store: TileStore, checkpoint: bytes, witnesses: Iterable[Witness], *, known: int
) -> list[tuple[Witness, SignatureLine | Exception]]:
    """Return each witness that has a URL with its line, or with why there is none."""
    reached = [witness for witness in witnesses if witness.url is not None]
    if not reached:
        return []
    async with contextlib.aclosing(HttpClient(seconds=_WITNESS_SECONDS)) as client:
        answers = await asyncio.gather(
            *(_ask(client, store, checkpoint, witness, known=known) for witness in reached),
            return_exceptions=True,
        )
    found: list[tuple[Witness, SignatureLine | Exception]] = []
    for witness, answer in zip(reached, answers, strict=True):
        if not isinstance(answer, SignatureLine | _Unanswered):
            raise answer
        found.append((witness, answer))
    return found


async def _ask(
    client: HttpClient,
    store: TileStore,
    checkpoint: bytes,
    witness: Witness,
    *,
    known: int,
) -> SignatureLine:
    """Return a witness's line. It says itself which size it knows, if it is not `known`."""
    url = f"{str(witness.url).rstrip('/')}/add-checkpoint"
    ours = Checkpoint.parse(Note.parse(checkpoint).text)
    for _ in range(2):
        request = await ask_witness(store, known, checkpoint)
        status, kind, said = await client.ask(
            "POST", URL(url), read=_read, headers={}, body=bytes(request)
        )
        body = said.decode("utf-8", "replace")
        if status == HTTPStatus.OK:
            return _own_line(body, checkpoint, witness)
        is_sized = kind == SIZE_TYPE
        said_size = parse_decimal(body.strip(), "its size") if is_sized else known
        # A conflict about the size that was asked for is one about its root.
        is_other_root = status == HTTPStatus.CONFLICT and said_size == known == ours.size
        if status == HTTPStatus.UNPROCESSABLE_ENTITY or is_other_root:
            raise fork(ours, seen_by=witness.key.name)
        if status != HTTPStatus.CONFLICT or not is_sized:
            raise LogUnreachableError(
                f"expected a cosignature of {url}, got status {status}: {body:.200}"
            )
        known = said_size
        require_size(ours, known, seen_by=witness.key.name)
    raise LogUnreachableError(f"expected {url} to know one size, got another each time")


def _own_line(body: str, checkpoint: bytes, witness: Witness) -> SignatureLine:
    """Return the witness's own line of its answer, verified."""
    for line in parse_signature_lines(body):
        if Note(Note.parse(checkpoint).text, (line,)).signed_by([witness.key]):
            return line
    raise MalformedError(f"expected a cosignature by {witness.key.name}, got others")
