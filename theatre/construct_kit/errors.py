"""The errors of `theatre.construct_kit`: one class for each decision that a caller can take."""

from __future__ import annotations

from theatre.engine.errors import NotFoundError, TheatreError


class CallableNotFoundError(NotFoundError):
    """`module:name` names nothing that can be called, or not in the folder it was looked for."""

    code = "callable-not-found"


class CallableBrokenError(TheatreError):
    """The module of a construct raised an exception when it was imported."""

    code = "callable-broken"


class ConstructVersionError(TheatreError):
    """A construct's version is not 7 to 64 hex digits, or there are no files to hash."""

    code = "construct-version-invalid"


class QuestionError(TheatreError):
    """A JSON object is not the envelope of a call."""

    code = "not-envelope"


class AddressError(TheatreError):
    """The server cannot listen at the given address."""

    code = "address-unavailable"
