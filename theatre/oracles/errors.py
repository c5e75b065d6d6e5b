"""The errors of `theatre.oracles`: one class for each decision that a caller can take."""

from __future__ import annotations

from theatre.engine.errors import NotFoundError, TheatreError


class ConstructRegistryError(TheatreError):
    """A `constructs.toml`, or an argv that stands in for an entry of one, is not as specified."""

    code = "construct-registry-invalid"


class ConstructFilesError(TheatreError):
    """The files that a construct's version hashes are missing, or not plain files of its own."""

    code = "construct-files-invalid"


class UnknownConstructError(NotFoundError):
    """The registry holds no construct of that id."""

    code = "construct-unknown"


class ConstructUnreachableError(TheatreError):
    """A construct's process could not be started. An adapter turns it into an attempt."""

    code = "construct-unreachable"


class AdapterClosedError(TheatreError):
    """An adapter was used after `aclose`."""

    code = "adapter-closed"
