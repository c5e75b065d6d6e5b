"""One stage of things to show and one browser for all tests of pages.

Playwright keeps an event loop in the thread of its browser: whatever is made with one has to be
there before, so the browser asks for the stage.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from backend.database.embedded import EmbeddedServer
from tests.backend.conftest import database_home, database_server
from tests.backend.databases import made, migrated_template
from tests.pages.browsers import require_browser, started_browser
from tests.pages.page_stage import PageStage, page_stage

__all__ = ["database_home", "database_server"]


@pytest.fixture(scope="package")
def stage(
    database_server: EmbeddedServer, database_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PageStage]:
    require_browser()
    folder = tmp_path_factory.mktemp("stage")
    template = migrated_template(database_server, database_home)
    with (
        made(database_server, f"pages_{os.getpid()}", template=template) as database,
        page_stage(database, folder) as stage,
    ):
        yield stage


@pytest.fixture(scope="package")
def browser(stage: PageStage) -> Iterator[Browser]:  # noqa: ARG001 - it has to be there first
    with started_browser() as browser:
        yield browser
