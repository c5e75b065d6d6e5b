"""What ends the demo early: one class for each thing that its user can do about it."""

from __future__ import annotations

from theatre.engine.errors import StateConflictError, TheatreError


class DemoError(TheatreError):
    """The service answered something else than the demo needs."""

    code = "demo"


class ServiceEndedError(DemoError):
    """The service did not start, or ended too early; the message has the end of its log."""

    code = "demo-service-ended"


class NoAnswerError(DemoError):
    """A request was not answered."""

    code = "demo-no-answer"


class DemoRunningError(StateConflictError):
    """Another demo works in the same folder."""

    code = "demo-running"
