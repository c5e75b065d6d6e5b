"""A callable that answers envelopes: what every server of the kit serves."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from theatre.construct_kit.declaration import Refusal, declaration_of
from theatre.construct_kit.envelopes import Outcome, Question, write_answer
from theatre.construct_kit.event_loop import EventLoopThread
from theatre.construct_kit.source_files import content_version, require_version
from theatre.engine.canonical_json import JsonObject, json_type
from theatre.engine.errors import CanonicalisationError, ParseError

VERSION_VARIABLE = "ECHELON_CONSTRUCT_VERSION"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An envelope as it is sent; `final` as in `Outcome`."""

    body: bytes
    final: bool


class ServedConstruct:
    """Calls a construct's callable and puts what comes of it into an envelope.

    `construct_id` None: it answers under whatever id it is called by.
    """

    def __init__(
        self, function: Callable[..., object], *, construct_id: str | None, version: str
    ) -> None:
        self._function = function
        self._construct_id = construct_id
        self._version = version
        self._loop = EventLoopThread()

    @property
    def construct_id(self) -> str | None:
        """Return the id that it answers for."""
        return self._construct_id

    @property
    def version(self) -> str:
        """Return the version that it reports."""
        return self._version

    def answer(self, question: Question) -> Answer:
        """Return the answer to a question; nothing that the callable raises gets out.

        But what ends a program (`sys.exit`) ends this one.
        """
        stray = self._why_not_mine(question)
        outcome = (
            self._call(question.input_data)
            if stray is None
            else Outcome(status="error", detail=stray)
        )
        try:
            body = self._envelope(outcome, question.invocation_id, question.construct_id)
        except (CanonicalisationError, ParseError) as error:
            outcome = Outcome(status="error", detail=f"the callable's answer: {error}")
            body = self._envelope(outcome, question.invocation_id, question.construct_id)
        return Answer(body=body, final=outcome.final)

    def rejection(self, reason: str) -> bytes:
        """Return the answer to what is no question: an error under an empty invocation id."""
        return self._envelope(Outcome(status="error", detail=reason), "", "")

    def _envelope(self, outcome: Outcome, invocation_id: str, called_by: str) -> bytes:
        return write_answer(
            outcome,
            invocation_id=invocation_id,
            construct_id=called_by if self._construct_id is None else self._construct_id,
            construct_version=self._version,
        )

    def _why_not_mine(self, question: Question) -> str | None:
        """Return why a call is meant for another construct; such a call is not made."""
        if self._construct_id not in (None, question.construct_id):
            return (
                f"expected a call to construct {self._construct_id}, "
                f"got one to {question.construct_id!r:.100}"
            )
        if question.construct_version != self._version:
            return (
                f"expected a call to version {self._version}, "
                f"got one to {question.construct_version!r:.100}"
            )
        return None

    def _call(self, input_data: JsonObject) -> Outcome:
        try:
            output = self._function(input_data)
            if inspect.isawaitable(output):
                output = self._loop.result_of(output)
        except Refusal as refusal:
            return Outcome(status="refused", detail=str(refusal) or "no reason given")
        except Exception as error:  # noqa: BLE001  # whatever it raises is an error of this call
            traceback.print_exception(error)
            return Outcome(status="error", detail=_words_of(error))
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
    declaration = declaration_of(function)
    if declaration is not None:
        construct_id = construct_id or declaration.construct_id
    declared = None if declaration is None else declaration.version
    known = version or os.environ.get(VERSION_VARIABLE) or declared
    return ServedConstruct(
        function,
        construct_id=construct_id,
        version=require_version(known) if known else content_version(target or _target(function)),
    )


def _target(function: Callable[..., object]) -> str:
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{function.__module__}:{name}"


def _words_of(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()
