"""Every error that a command can let through has the exit code that scripts rely on."""

import pytest

from theatre import judging
from theatre.api.errors import InterruptedRunError
from theatre.cli import exits
from theatre.cli.exits import ExitCode, exit_code_of
from theatre.engine import errors
from theatre.files import tables
from theatre.harness import samples
from theatre.oracles import errors as oracle_errors
from theatre.verification import errors as verification_errors

# A fault of this program or of its files, which no change to what was given would mend.
FAULTS = {
    "AdapterClosedError",
    "CertificateError",
    "ChainBrokenError",
    "ClockError",
    "IsolationUnavailableError",
    "JournalChangedError",
    "JournalError",
    "MissingExtraError",
    "ResourceMissingError",
    "RunStoppedError",
    "TheatreError",
    "TierRecordError",
    "UnaskedError",
    "UnknownAnswerError",
    "UnplayableError",
    "VerificationError",
    "WrongSystemError",
}
TABLE = {
    ExitCode.FAILURE: FAULTS,
    ExitCode.CHECK_FAILED: {"OutdatedPinError"},
    ExitCode.USAGE: {"UsageError"},
    ExitCode.LESSER_VERDICT: {"VerdictError"},
    ExitCode.NOT_FOUND: {"NotFoundError", "UnknownConstructError", "RepositoryMissingError"},
    ExitCode.INVALID: {
        "FolderTakenError",
        "TableError",
        "DraftError",
        "AddressNotAllowedError",
        "AlreadySealedError",
        "BundleError",
        "QualificationError",
        "CanonicalisationError",
        "CoinError",
        "CommitmentError",
        "ConstructFilesError",
        "ConstructRegistryError",
        "ConstructTransportError",
        "DatasetCopyError",
        "DatasetError",
        "DatasetMismatchError",
        "HarnessChangedError",
        "HarnessLogError",
        "ExecutionPathUnavailableError",
        "ExpertiseError",
        "HumanScoreRefusedError",
        "InvalidTemplateError",
        "KeyNotAllowedError",
        "NoRecordError",
        "NoVerificationError",
        "NotComparableError",
        "PilotError",
        "PathNotUtf8Error",
        "NotReproducibleError",
        "OutboundPolicyError",
        "OutboundRefusedError",
        "OutputTakenError",
        "ParseError",
        "PinMismatchError",
        "ProgrammeError",
        "RehearsalAdapterError",
        "RepositoryError",
        "RequestHeadersError",
        "InvalidReportError",
        "RlmfExportError",
        "SanitisePolicyError",
        "UnknownScorerError",
    },
    ExitCode.WRONG_STATE: {"InvalidTransitionError", "StateConflictError"},
    ExitCode.INCOMPLETE: {
        "BudgetSpentError",
        "ConstructUnreachableError",
        "InterruptedRunError",
        "IsolationLostError",
        "JudgeUnavailableError",
        "RateLimitedError",
        "TooFewReplaysError",
    },
}
KINDS = {
    kind.__name__: kind
    for module in (errors, oracle_errors, judging, verification_errors, tables, samples, exits)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, errors.TheatreError)
}


def an(error: type[errors.TheatreError]) -> errors.TheatreError:
    """Return an error of a kind, however it is made."""
    return error.__new__(error)


def test_the_table_names_every_error_class_once() -> None:
    named = [name for names in TABLE.values() for name in names]
    assert sorted(named) == sorted(KINDS)


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for code, names in TABLE.items() for name in sorted(names)]
)
def test_an_error_ends_a_command_with_its_code(name: str, code: ExitCode) -> None:
    assert exit_code_of(an(KINDS[name])) is code


def test_an_error_of_a_plugin_is_a_failure() -> None:
    class OfAPluginError(errors.TheatreError):
        code = "of-a-plugin"

    assert exit_code_of(OfAPluginError("no")) is ExitCode.FAILURE


def test_each_error_has_a_code_for_machines_of_its_own_or_of_its_family() -> None:
    for kind in KINDS.values():
        families = [base for base in kind.__mro__ if base in KINDS.values()]
        others = [other for other in KINDS.values() if other.code == kind.code]
        assert set(others) <= {*families, *kind.__subclasses__()}, kind


def test_an_interrupted_run_says_how_to_go_on() -> None:
    assert str(InterruptedRunError("some-id", 7)) == (
        "stopped with 7 episodes recorded; go on with: echelon theatre run some-id"
    )
