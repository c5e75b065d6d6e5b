"""One table of exit codes for all commands: a missing path ends each of them alike."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from theatre import judging
from theatre.api.errors import InterruptedRunError
from theatre.cli import LazyGroup, cli, exits
from theatre.cli.completion_command import PROGRAM, VARIABLE
from theatre.cli.exits import ExitCode, exit_code_of, run_guarded
from theatre.engine import errors
from theatre.files import tables
from theatre.harness import samples
from theatre.oracles import errors as oracle_errors
from theatre.verification import errors as verification_errors

PAGE = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")

MISSING = {
    "adversaries": "adversaries nope",
    "attest": "attest nope --out x",
    "audit check": "audit check nope nope",
    "audit draw": "audit draw nope nope",
    "audit request": "audit request nope --draw 2 --output x",
    "check": "check nope",
    "compare": "compare nope nope",
    "construct version": "construct version nope",
    "debate check": "debate check nope --log nope",
    "debate evaluate": "debate evaluate nope --evaluator rca",
    "debate plot": "debate plot nope --out x",
    "debate validate": "debate validate nope",
    "disclose": "disclose nope --episodes 1 --output x",
    "gate": "gate nope",
    "ingest": "ingest --repo nope --output x",
    "import": "import jsonl nope --out x",
    "inspect": "inspect nope",
    "pin": "pin nope",
    "plan": "plan nope --width 0.1 --pilot nope",
    "report": "report nope",
    "qualify": "qualify lexical_precision --labelled nope -o x",
    "reproduce": "reproduce nope",
    "run": "run nope",
    "score": "score --data nope --output x",
    "theatre cancel": "theatre cancel nope",
    "theatre commit": "theatre commit nope",
    "theatre episode": "theatre episode nope 1",
    "theatre episodes": "theatre episodes nope",
    "theatre export": "theatre export nope",
    "theatre hash": "theatre hash nope",
    "theatre hitl": "theatre hitl nope",
    "theatre run": "theatre run nope",
    "theatre show": "theatre show nope",
    "theatre validate": "theatre validate nope",
    "theatre watch": "theatre watch nope",
    "validate": "validate nope",
    "trust policy": "trust policy nope",
    "verify": "verify --repo nope --construct construct:change_extractive",
}
"""A command that takes a path, or the id of something kept → a call with one that is not there."""

WITHOUT = {
    *("admin backup", "admin construct", "admin fsck", "admin recover", "admin restore"),
    *("admin budget", "admin invite", "admin user"),
    *("completion", "construct list", "construct record", "construct serve", "debate sweep"),
    *(
        *("demo", "init", "key create", "key list", "key revoke", "key trust", "log export"),
        "log fsck",
    ),
    *("log fsck", "log recover", "log show", "monitor", "openapi", "serve", "theatre list"),
    *("trust revoke", "trust rotate", "trust show", "witness serve", "worker"),
}
"""Commands that name nothing which must be there: they make it, serve it, or ask a service."""


def commands(group: LazyGroup, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            inner = click.Context(command)
            for below in command.list_commands(inner):
                found = command.get_command(inner, below)
                assert found is not None
                yield f"{before}{name} {below}", found
        else:
            yield f"{before}{name}", command


@pytest.fixture
def at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ECHELON_TRUST_HOME", str(tmp_path / "trust"))
    return tmp_path


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize("call", MISSING.values(), ids=MISSING.keys())
def test_what_is_missing_ends_a_command_with_not_found(
    call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_guarded(cli, call.split()) is ExitCode.NOT_FOUND
    said = capsys.readouterr()
    assert "nope" in said.err
    assert "Traceback" not in said.err


def test_each_command_is_in_one_of_the_lists() -> None:
    # A new command that is given a path goes into MISSING with a call, any other into WITHOUT.
    assert {name for name, _ in commands(cli)} == MISSING.keys() | WITHOUT


def test_the_page_has_the_codes_that_there_are() -> None:
    rows = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", PAGE, re.MULTILINE)
    assert {name: int(code) for code, name in rows} == {one.name: one.value for one in ExitCode}


@pytest.mark.parametrize("command", ["commit", "run", "run --rehearsal"])
def test_a_name_that_is_not_utf_8_is_named(
    command: str, at_work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = os.fsdecode(os.fsencode(at_work) + b"/odd\xff")
    Path(folder).mkdir()
    shipped = Path(__file__).parents[3] / "fixtures" / "templates" / "product_observer_v1.json"
    (Path(folder) / "t.json").write_bytes(shipped.read_bytes())
    call = ["theatre", *command.split(), "t.json", "--json"]
    os.chdir(folder)
    assert run_guarded(cli, call) is ExitCode.INVALID
    said = capsys.readouterr().out
    assert '"code": "path-not-utf-8"' in said
    assert "odd\\\\xff" in said
    assert "rename it" in said


@pytest.mark.usefixtures("at_work")
@pytest.mark.parametrize(
    ("words", "incomplete", "found"),
    [
        ([], "com", ["compare", "completion"]),
        (["theatre"], "wa", ["watch"]),
        (["compare"], "--fl", ["--flips"]),
        (["completion"], "z", ["zsh"]),
    ],
)
def test_a_shell_completes_commands_and_options(
    words: list[str], incomplete: str, found: list[str]
) -> None:
    shell = ShellComplete(cli, {}, PROGRAM, VARIABLE)
    assert [one.value for one in shell.get_completions(words, incomplete)] == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_calls_back(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_guarded(cli, ["completion", shell]) is ExitCode.OK
    assert f"{VARIABLE}={shell}_complete" in capsys.readouterr().out


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
        "BundleUnwrittenError",
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
