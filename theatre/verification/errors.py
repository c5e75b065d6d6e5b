"""The errors of a verification: one class for each decision a caller can take."""

from theatre.engine.errors import TheatreError


class VerificationError(TheatreError):
    """Base of what goes wrong before the engine takes over."""

    code = "verification-error"


class RepositoryError(VerificationError):
    """A repository cannot be read, or holds nothing of what was asked for."""

    code = "repository-unreadable"


class RepositoryMissingError(RepositoryError):
    """There is no folder where a local clone should be."""


class NoRecordError(VerificationError):
    """What was given has not the form of a ground-truth record."""

    code = "no-record"


class TooFewReplaysError(VerificationError):
    """There are fewer replays than a verification needs; what is there is kept."""

    code = "replays-below-minimum"


class OutputTakenError(VerificationError):
    """The output folder holds the ground truth of another run."""

    code = "output-taken"


class RateLimitedError(VerificationError):
    """GitHub asks for a longer wait than is allowed; what was read is kept."""

    code = "rate-limited"


class NoVerificationError(VerificationError):
    """What was given is no verification of summaries, nor a certificate: it is something else."""

    code = "no-verification"
