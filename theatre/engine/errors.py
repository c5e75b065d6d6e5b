"""The errors of the engine: one class for each decision that a caller can take."""

from collections.abc import Sequence
from typing import ClassVar


class TheatreError(Exception):
    """Base of every error the package raises on purpose.

    `code` is stable and meant for machines; the message says what was expected, what was
    seen and, where it helps, what to do.
    """

    code: ClassVar[str] = "theatre-error"


class CanonicalisationError(TheatreError):
    """A value has no RFC 8785 form (docs/contract/evidence.md §1)."""

    code = "not-canonicalisable"


class ParseError(TheatreError):
    """Bytes are not the strict JSON that may be hashed or verified."""

    code = "not-strict-json"

    def __init__(self, message: str, *, reason: str = "not-json") -> None:
        """Keep the stable `reason` (for example ``duplicate-key``) with the message."""
        super().__init__(message)
        self.reason = reason


class ClockError(TheatreError):
    """A text is not an RFC 3339 time in UTC."""

    code = "not-a-time"


class ResourceMissingError(TheatreError):
    """A file that ships with the package is not where it belongs."""

    code = "resource-missing"


class ChainBrokenError(TheatreError):
    """An audit chain does not verify; `line` is the first line (from 1) that breaks it."""

    code = "chain-broken"

    def __init__(self, message: str, *, line: int) -> None:
        """Keep the number of the line at which the chain breaks."""
        super().__init__(message)
        self.line = line


class InvalidTemplateError(TheatreError):
    """A template breaks the schema or a runtime rule; `violations` lists all of them."""

    code = "template-invalid"

    def __init__(self, message: str, *, violations: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.violations = violations


class DatasetError(TheatreError):
    """Ground truth is missing, changed, or not in the episode format."""

    code = "dataset-invalid"


class DatasetMismatchError(DatasetError):
    """A dataset's SHA-256 is not the committed one."""

    code = "dataset-mismatch"


class InvalidTransitionError(TheatreError):
    """The lifecycle has no such step; the state is left as it was."""

    code = "invalid-transition"


class StateConflictError(TheatreError):
    """Another process moved the theatre, or holds its lease, at the same time."""

    code = "state-conflict"


class RunStoppedError(TheatreError):
    """A run was asked to stop and has: what is in is recorded, the rest is still to be called."""

    code = "run-stopped"


class CommitmentError(TheatreError):
    """A commitment cannot be made, or does not recompute."""

    code = "commitment-refused"


class CoinError(TheatreError):
    """A coin is not of the form, or not the one that a commitment names."""

    code = "coin-lost"


class PinMismatchError(TheatreError):
    """A construct, adapter or scorer is not the one that was committed."""

    code = "pin-mismatch"


class RehearsalAdapterError(TheatreError):
    """Canned answers were about to become evidence for a certificate."""

    code = "mock-adapter"


class IsolationLostError(TheatreError):
    """A construct could reach more than when its run began: the run continues where it cannot."""

    code = "isolation-lost"


class UnaskedError(TheatreError):
    """Recorded exchanges with a judge are not those that a scorer asks for."""

    code = "unasked-exchange"


class UnplayableError(TheatreError):
    """A runner does not bring an episode to an end where its answers are trivial."""

    code = "unplayable"


class UnknownScorerError(TheatreError):
    """A committed scorer is not installed."""

    code = "scorer-unknown"


class ProgrammeError(TheatreError):
    """A resolution programme holds a step that cannot be executed."""

    code = "programme-refused"


class ExecutionPathUnavailableError(ProgrammeError):
    """A market or a simulation: it can be committed and read, and nothing here runs it."""

    code = "execution-path-unavailable"


class NotReproducibleError(ProgrammeError):
    """A run whose results rest on people: asking the constructs again does not make it again."""

    code = "not-reproducible"


class JournalError(TheatreError):
    """A run journal contradicts its theatre or itself; `seq` is the episode, where it is one's."""

    code = "journal-corrupt"

    def __init__(self, message: str, *, seq: int | None = None) -> None:
        """Keep the sequence number of the episode that cannot be read."""
        super().__init__(message)
        self.seq = seq


class JournalChangedError(JournalError):
    """What a run has recorded is not what its audit trail names: the theatre ends as failed."""


class QualificationError(TheatreError):
    """A document is no qualification of a measure, or holds rows that are none."""

    code = "qualification-refused"


class BundleError(TheatreError):
    """A folder is not an evidence bundle, or one cannot be written."""

    code = "bundle-invalid"


class BundleUnwrittenError(BundleError):
    """The disk does not take a bundle: the run goes on at its sealing, once it does."""

    code = "bundle-unwritten"


class AlreadySealedError(BundleError):
    """Another attempt at the same run has sealed its bundle; use that one."""

    code = "already-sealed"


class CertificateError(TheatreError):
    """No certificate may be issued on this evidence."""

    code = "certificate-refused"


class HumanScoreRefusedError(TheatreError):
    """Human scores cannot be taken; `refusals` has a stable code and a message for each."""

    code = "human-score-refused"

    def __init__(self, refusals: Sequence[tuple[str, str]]) -> None:
        """Report all of them: the caller stored none of the scores."""
        super().__init__("\n".join(f"{code}: {message}" for code, message in refusals))
        self.refusals = tuple(refusals)


class InvalidReportError(TheatreError):
    """No report can be made of a document, or not in the place that was named."""

    code = "report-refused"


class RlmfExportError(TheatreError):
    """A bundle cannot be exported as training records."""

    code = "export-refused"


class NotFoundError(TheatreError):
    """No such theatre, file or construct."""

    code = "not-found"


class NotComparableError(TheatreError):
    """Runs were not committed to the same dataset, scorers and terms, or are not sealed."""

    code = "not-comparable"


class PilotError(TheatreError):
    """No size of a run can be planned from this pilot."""

    code = "pilot-unusable"


class TierRecordError(TheatreError):
    """A document is not the tier fact or history record that it claims to be."""

    code = "tier-record-invalid"


class ExpertiseError(TheatreError):
    """An `expertise.yaml` does not have the shape the constraint gate reads."""

    code = "expertise-invalid"


class MissingExtraError(TheatreError):
    """A command or a run needs packages of an extra that is not installed."""

    code = "missing-extra"

    def __init__(self, *extras: str) -> None:
        names = ",".join(extras)
        super().__init__(
            f"expected the packages of the extra {names}, got an installation without them: "
            f"pip install 'echelon-theatre[{names}]'"
        )
