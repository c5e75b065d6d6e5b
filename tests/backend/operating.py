"""Does what the operator of a test's service does by command."""

import io
from pathlib import Path

import pytest

from tests.backend.databases import Database
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded


def decided(
    database: Database, folder: Path, decision: str, *construct_ids: str, user: str
) -> ExitCode:
    """Run `echelon admin construct …`; return how it ended."""
    return administered(database, folder, "construct", decision, *construct_ids, "--user", user)


def administered(database: Database, folder: Path, *words: str, stdin: str = "") -> ExitCode:
    """Run `echelon admin …` with this on stdin; return how it ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECHELON_HOME", str(folder / "home"))
        patch.setenv("ECHELON_DATABASE_URL", database.application)
        patch.setenv("ECHELON_MIGRATION_URL", database.owner)
        patch.setattr("sys.stdin", io.StringIO(stdin))
        return run_guarded(cli, ["admin", *words])


def operate(
    database: Database, folder: Path, decision: str, *construct_ids: str, user: str
) -> None:
    """Decide; it has to succeed."""
    assert decided(database, folder, decision, *construct_ids, user=user) is ExitCode.OK
