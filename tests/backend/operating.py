"""Decides about construct ids as the operator of a test's service does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backend.databases import Database
from theatre.cli import cli
from theatre.cli.exits import ExitCode, run_guarded


def decided(
    database: Database, folder: Path, decision: str, *construct_ids: str, user: str
) -> ExitCode:
    """Run `echelon admin construct …`; return how it ended."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ECHELON_HOME", str(folder / "home"))
        patch.setenv("ECHELON_DATABASE_URL", database.application)
        patch.setenv("ECHELON_MIGRATION_URL", database.owner)
        return run_guarded(cli, ["admin", "construct", decision, *construct_ids, "--user", user])


def operate(
    database: Database, folder: Path, decision: str, *construct_ids: str, user: str
) -> None:
    """Decide; it has to succeed."""
    assert decided(database, folder, decision, *construct_ids, user=user) is ExitCode.OK
