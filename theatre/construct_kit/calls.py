"""The calls that one HTTP server takes: answered, remembered, and counted while under way."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from theatre.construct_kit.answer_memory import AnswerMemory
from theatre.construct_kit.envelopes import read_question
from theatre.construct_kit.served_construct import ServedConstruct
from theatre.engine.canonical_json import JsonObject


class Calls:
    """Stands between a server's threads and the construct."""

    def __init__(self, construct: ServedConstruct) -> None:
        self._construct = construct
        self._memory = AnswerMemory()
        self._under_way = 0
        self._changed = threading.Condition()

    def answer(self, raw: bytes) -> bytes:
        """Return the answer to an envelope; a final one from memory, the second time.

        Raises ParseError and QuestionError as `read_question`.
        """
        question = read_question(raw)
        known = self._memory.recall(question)
        if known is not None:
            return known
        answer = self._construct.answer(question)
        self._memory.remember(question, answer)
        return answer.body

    def health(self) -> JsonObject:
        """Return who answers here, and in which version."""
        return {
            "status": "ok",
            "construct_id": self._construct.construct_id,
            "construct_version": self._construct.version,
        }

    @contextlib.contextmanager
    def track(self) -> Iterator[None]:
        """Count a call while it lasts, until its answer is sent."""
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def finish(self, *, within_seconds: float) -> None:
        """Wait until no call is under way, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._under_way == 0, timeout=within_seconds)
