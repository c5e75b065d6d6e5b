"""Constructs that know no envelope: what they are asked, and how their answer is read.

A template says both (`adapter_settings`, docs/contract/template.md §7): what is asked is made of
the episode's input by one pass of placeholders, and the answer is made into `output_data`, which
is then read as strictly as an envelope's.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from theatre.engine.canonical_json import (
    MAX_INPUT_DEPTH,
    JsonObject,
    JsonValue,
    canonical_bytes,
    parse_json,
)
from theatre.engine.clock import Clock
from theatre.engine.errors import ParseError
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    Attempt,
    OracleInvocationRequest,
    clean_detail,
    read_answer,
)
from theatre.oracles.errors import AdapterClosedError
from theatre.oracles.wire_forms import CallFailure, version_mismatch, wait_within

_MILLISECONDS = 1000
_WHOLE = "{{}}"
_PLACEHOLDER = re.compile(r"\{\{((?:/(?:[^~/{}]|~[01])*)*)\}\}")
_STEP = re.compile(r"~([01])")
NO_SUCH_VALUE = object()


class AnswerForm(BaseModel):
    """How an answer becomes `output_data`: see `AnswerForm.read`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["text", "json", "regex"] = Field(default="text", alias="from")
    pointer: str = ""
    regex: str = ""
    field: str | None = None

    def read(self, text: str) -> JsonObject | CallFailure:  # noqa: PLR0911 - a line for each form
        """Return the output that `text` holds.

        `text` puts all of it, without white space around it, under `field` (`answer` unless
        named). `json` is a JSON document, or what `pointer` leads to in it: an object is the output
        itself unless a `field` is named, else it is under `field`. `regex` takes the first group of
        the first match, or all of that; a group that took no part in the match finds nothing.
        """
        field = self.field or "answer"
        if self.source == "json":
            try:
                document = parse_json(
                    text.encode("utf-8", "surrogatepass"),
                    max_bytes=MAX_ANSWER_BYTES,
                    max_depth=MAX_INPUT_DEPTH - 2,
                )
            except ParseError as error:
                raw = text.encode("utf-8", "replace")
                return CallFailure(reason=error.reason, detail=str(error), raw=raw)
            value = value_at(document, self.pointer)
            if value is NO_SUCH_VALUE:
                return _not_found(f"a value at {self.pointer}", text)
            if isinstance(value, dict) and self.field is None:
                return value
            return {field: value}  # type: ignore[dict-item] # it is not NO_SUCH_VALUE
        if self.source == "regex":
            match = re.search(self.regex, text)
            found = None if match is None else match[min(match.re.groups, 1)]
            if found is None:
                return _not_found(f"text that matches {self.regex}", text)
            return {field: found}
        return {field: text.strip()}


def _not_found(what: str, text: str) -> CallFailure:
    return CallFailure(
        reason="answer-not-found",
        detail=f"expected {what} in the answer, got {text[:200]!r}",
        raw=text.encode("utf-8", "replace"),
    )


class PromptError(Exception):
    """An input has no value where a placeholder of the template wants one."""


def fill(asked: JsonValue, value: JsonObject) -> JsonValue:
    """Return `asked` with its placeholders filled from an episode's input, in one pass.

    `{{/a/b}}` stands for what that JSON Pointer leads to, `{{}}` for the whole input. A text that
    is one placeholder alone becomes the value itself; within a text a string is put in as it is,
    anything else as canonical JSON. Raises PromptError where the input has no such value.
    """
    if isinstance(asked, dict):
        return {name: fill(one, value) for name, one in asked.items()}
    if isinstance(asked, list):
        return [fill(one, value) for one in asked]
    if not isinstance(asked, str):
        return asked
    alone = _PLACEHOLDER.fullmatch(asked)
    return asked_value(alone[1], value) if alone else fill_text(asked, value)


def fill_text(asked: str, value: JsonObject) -> str:
    """Return a text with its placeholders filled, as `fill`."""

    def put_in(match: re.Match[str]) -> str:
        found = asked_value(match[1], value)
        return found if isinstance(found, str) else canonical_bytes(found).decode()

    # One pass: an input that holds a placeholder itself is text like any other.
    return _PLACEHOLDER.sub(put_in, asked)


def asked_value(pointer: str, value: JsonObject) -> JsonValue:
    """Return what a pointer leads to in an input; raises PromptError where nothing is."""
    found = value_at(value, pointer)
    if found is NO_SUCH_VALUE:
        raise PromptError(f"expected a value at {pointer} in the input, got none")
    return found  # type: ignore[return-value] # it is not NO_SUCH_VALUE


def value_at(document: JsonValue, pointer: str) -> JsonValue | object:
    """Return what a JSON Pointer (RFC 6901) leads to, else NO_SUCH_VALUE."""
    found: JsonValue = document
    for step in pointer.split("/")[1:]:
        name = _STEP.sub(lambda match: "~/"[int(match[1])], step)
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif (
            isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found)
        ):
            found = found[int(name)]
        else:
            return NO_SUCH_VALUE
    return found


class PlainSettings(BaseModel):
    """What the settings of every such adapter have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str = _WHOLE
    answer: AnswerForm = AnswerForm()


class Said(NamedTuple):
    """What a construct said, as text; `output` where that is an object already."""

    text: str
    output: JsonObject | None = None
    usage: Mapping[str, int] | None = None
    stderr: str | None = None
    refused: bool = False
    """Whether the text is why there is no answer."""


class PlainAdapter(ABC):
    """What the adapters have in common that ask without an envelope.

    `version` is what their settings and place make it; a request for another one is not sent.
    Reasons beyond `read_answer`'s: `timeout`, `version-mismatch`, `prompt-incomplete`,
    `answer-not-found`, and the adapter's own. Nothing is raised for what the other side does.
    """

    answer: AnswerForm

    def __init__(self, *, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._closed = False

    @property
    @abstractmethod
    def computed_version(self) -> str:
        """Return the version that runs now."""

    @abstractmethod
    async def _ask(self, request: OracleInvocationRequest) -> Said | CallFailure:
        """Ask once; the caller bounds the time."""

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try; raises AdapterClosedError after `aclose`."""
        if self._closed:
            raise AdapterClosedError("The adapter is closed: aclose() was called before")
        started = self._monotonic()
        outcome = await wait_within(self._pinned(request), seconds=request.metadata.timeout_seconds)
        latency_ms = round((self._monotonic() - started) * _MILLISECONDS)
        times: Any = {"latency_ms": latency_ms, "responded_at": self._clock()}
        if isinstance(outcome, CallFailure):
            return outcome.as_attempt(request, **times)
        if outcome.refused:
            attempt = _read({"status": "refused", "error_detail": outcome.text}, request, **times)
        else:
            output = outcome.output
            found = self.answer.read(outcome.text) if output is None else output
            if isinstance(found, CallFailure):
                attempt = found.as_attempt(request, **times)
            else:
                attempt = _read({"status": "success", "output_data": found}, request, **times)
        stderr = None if outcome.stderr is None else clean_detail(outcome.stderr) or None
        usage = None if outcome.usage is None else dict(outcome.usage)
        return replace(attempt, stderr=stderr, usage=usage)

    async def _pinned(self, request: OracleInvocationRequest) -> Said | CallFailure:
        if self.computed_version != request.construct_version:
            return version_mismatch(request, self.computed_version)
        try:
            return await self._ask(request)
        except PromptError as error:
            return CallFailure(reason="prompt-incomplete", detail=str(error))


def _read(said: JsonObject, request: OracleInvocationRequest, **times: Any) -> Attempt:  # noqa: ANN401 - as read_answer
    """Read what was said as an envelope would be: nothing less is accepted."""
    envelope: JsonObject = {
        "invocation_id": request.invocation_id,
        "construct_id": request.construct_id,
        "construct_version": request.construct_version,
    }
    # Text that is no Unicode, and numbers without a canonical form, are the reader's to refuse.
    return read_answer(json.dumps({**envelope, **said}).encode(), request, **times)
