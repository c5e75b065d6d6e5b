"""The errors of `theatre.oracles`: one class for each decision that a caller can take."""

from typing import Final

from theatre.engine.errors import DatasetMismatchError, NotFoundError, TheatreError


class ConstructRegistryError(TheatreError):
    """A `constructs.toml`, or an argv that stands in for an entry of one, is not as specified."""

    code = "construct-registry-invalid"


class ConstructFilesError(TheatreError):
    """The files that a construct's version hashes are missing, or not plain files of its own."""

    code = "construct-files-invalid"


class DatasetCopyError(TheatreError):
    """The files that a construct's version hashes hold what it is to be asked."""

    code = "dataset-copy"


class UnknownConstructError(NotFoundError):
    """The registry holds no construct of that id."""

    code = "construct-unknown"


class ConstructUnreachableError(TheatreError):
    """A construct's process could not be started, or nothing accepts a connection to it.

    `invoke` turns it into an attempt; `check_reachable` lets it out.
    """

    code = "construct-unreachable"


class BudgetSpentError(TheatreError):
    """A start of a run has used what the template allows one; another start goes on."""

    code = "budget-spent"


class IsolationUnavailableError(TheatreError):
    """A program would be run here, and nothing here can keep it from the answers."""

    code = "isolation-unavailable"


class AdapterClosedError(TheatreError):
    """An adapter was used after `aclose`."""

    code = "adapter-closed"


class OutboundRefusedError(TheatreError):
    """An endpoint lies where calls may not go (docs/contract/construct.md §3)."""

    code = "endpoint-not-allowed"


class AddressNotAllowedError(OutboundRefusedError):
    """An address is not public, and the operator has not allowed it: to allow it would help.

    `entry` is what allows one of this machine; None for any other, which takes a second thought.
    """

    entry: str | None = None


class OutboundPolicyError(TheatreError):
    """An entry of the operator's list of allowed hosts cannot be read."""

    code = "outbound-policy-invalid"


class RequestHeadersError(TheatreError):
    """A request header cannot be sent, or the variable that holds its value is not set."""

    code = "request-headers-invalid"


KEY_ORIGINS: Final = "ECHELON_KEY_ORIGINS"
"""The variable in which the user says where keys may go (`theatre.oracles.key_origins`)."""


class KeyNotAllowedError(RequestHeadersError):
    """A template names a variable and a place, and the user has not allowed this pair."""

    code = "key-not-allowed"


class ConstructTransportError(TheatreError):
    """A registered construct is reached in another way than the one asked for."""

    code = "construct-transport"


class SanitisePolicyError(TheatreError):
    """A field that must be left as it is was not named by a JSON pointer."""

    code = "sanitise-policy-invalid"


class UnknownAnswerError(TheatreError):
    """A harness gave an answer to no episode of the dataset, or a second one."""

    code = "unknown-answer"


class HarnessChangedError(DatasetMismatchError):
    """A harness asked something else than was committed: the run ends as failed."""

    code = "harness-changed"
