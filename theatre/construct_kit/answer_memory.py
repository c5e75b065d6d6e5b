"""The last answers of a server, so that a repeated call need not be paid for twice."""

from __future__ import annotations

import threading
from collections import OrderedDict

from theatre.construct_kit.envelopes import Question
from theatre.construct_kit.served_construct import Answer
from theatre.engine.canonical_json import canonical_sha256

_MOST_BYTES = 16 * 1024 * 1024


class AnswerMemory:
    """Keeps the latest final answers, 16 MiB of them, by invocation id and input.

    Every attempt of one call, and the call that a resumed run makes again, has the same
    invocation id. An error is not kept: a retry asks because it may pass. Safe for threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def recall(self, question: Question) -> bytes | None:
        """Return the answer that this question got before, if it is still known."""
        with self._lock:
            return self._answers.get(_key(question))

    def remember(self, question: Question, answer: Answer) -> None:
        """Keep an answer if it is final; the oldest ones make room."""
        if not answer.final:
            return
        with self._lock:
            self._bytes += len(answer.body) - len(self._answers.pop(_key(question), b""))
            self._answers[_key(question)] = answer.body
            while self._bytes > _MOST_BYTES:
                _, oldest = self._answers.popitem(last=False)
                self._bytes -= len(oldest)


def _key(question: Question) -> tuple[str, str]:
    asked = [question.construct_id, question.construct_version, question.input_data]
    return question.invocation_id, canonical_sha256(asked)
