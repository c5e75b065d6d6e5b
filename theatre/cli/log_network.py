"""Logs and witnesses elsewhere: files of a log over HTTP or in a folder, and cosignatures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from theatre.engine.errors import NotFoundError
from theatre.files.log_folder import LogFolder
from theatre.transparency.errors import MalformedError, TransparencyError
from theatre.transparency.log import TileStore, ask_witness
from theatre.transparency.notes import Note, SignatureLine, parse_decimal, parse_signature_lines
from theatre.transparency.policy import Witness
from theatre.transparency.witness import SIZE_TYPE

MAX_FILE_BYTES: Final = 256 * 1024 + 256 * 2
"""A bundle of 256 entries of 1 KiB, with their lengths: no file of a log is larger."""
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_WITNESS_TIMEOUT = aiohttp.ClientTimeout(total=5)


class LogUnreachableError(TransparencyError):
    """A log or witness does not answer, or answers something else than files of a log."""

    code = "log-unreachable"


class HttpLog:
    """The files of a log below a URL. Nothing of them is trusted: readers verify."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url.rstrip("/")
        self._session = session

    async def read(self, path: str) -> bytes:
        """Return a file; NotFoundError where there is none, LogUnreachableError for no answer."""
        url = f"{self._url}/{path}"
        try:
            async with self._session.get(url) as response:
                if response.status == HTTPStatus.NOT_FOUND:
                    raise NotFoundError(f"expected a file of a log at {url}, got none")
                data = await response.content.read(MAX_FILE_BYTES + 1)
                # One `read` may return less than there is.
                while len(data) <= MAX_FILE_BYTES and not response.content.at_eof():
                    data += await response.content.read(MAX_FILE_BYTES + 1 - len(data))
        except (aiohttp.ClientError, TimeoutError) as error:
            raise LogUnreachableError(f"expected {url} to answer: {error}") from error
        if response.status != HTTPStatus.OK or len(data) > MAX_FILE_BYTES:
            raise LogUnreachableError(
                f"expected a file of a log at {url}, got status {response.status} "
                f"and {len(data)} bytes or more"
            )
        return data


@contextlib.asynccontextmanager
async def open_log(place: str) -> AsyncIterator[TileStore]:
    """Yield the files of a log, at an http(s) URL or in a folder."""
    if urlsplit(place).scheme in {"http", "https"}:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            yield HttpLog(place, session)
        return
    yield LogFolder(Path(place))


async def gather_cosignatures(
    store: TileStore, checkpoint: bytes, witnesses: Iterable[Witness]
) -> tuple[list[SignatureLine], list[str]]:
    """Ask each witness that has a URL; return what is valid, and what went wrong with the others.

    A missing one delays nothing beyond five seconds: its cosignature is not there, and that shows.
    """
    reached = [witness for witness in witnesses if witness.url is not None]
    async with aiohttp.ClientSession(timeout=_WITNESS_TIMEOUT) as session:
        answers = await asyncio.gather(
            *(_ask(session, store, checkpoint, witness) for witness in reached),
            return_exceptions=True,
        )
    lines: list[SignatureLine] = []
    missing: list[str] = []
    for witness, answer in zip(reached, answers, strict=True):
        if isinstance(answer, SignatureLine):
            lines.append(answer)
        elif isinstance(answer, TransparencyError | aiohttp.ClientError | TimeoutError):
            missing.append(f"{witness.key.name}: {str(answer) or type(answer).__name__}")
        else:
            raise answer
    return lines, missing


async def _ask(
    session: aiohttp.ClientSession, store: TileStore, checkpoint: bytes, witness: Witness
) -> SignatureLine:
    """Return a witness's line. It says itself which size it knows, if it knows another."""
    url, old = f"{str(witness.url).rstrip('/')}/add-checkpoint", 0
    for _ in range(2):
        request = await ask_witness(store, old, checkpoint)
        async with session.post(url, data=bytes(request)) as response:
            body = (await response.content.read(MAX_FILE_BYTES)).decode("utf-8", "replace")
            if response.status == HTTPStatus.OK:
                return _own_line(body, checkpoint, witness)
            if response.status != HTTPStatus.CONFLICT or response.content_type != SIZE_TYPE:
                raise LogUnreachableError(
                    f"expected a cosignature of {url}, got status {response.status}: {body:.200}"
                )
            old = parse_decimal(body.strip(), "the size that the witness knows")
    raise LogUnreachableError(f"expected {url} to know one size, got another each time")


def _own_line(body: str, checkpoint: bytes, witness: Witness) -> SignatureLine:
    """Return the witness's own line of its answer, verified."""
    for line in parse_signature_lines(body):
        if Note(Note.parse(checkpoint).text, (line,)).signed_by([witness.key]):
            return line
    raise MalformedError(f"expected a cosignature by {witness.key.name}, got others")
