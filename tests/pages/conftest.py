"""A browser for a module's tests, and the databases that those of the service have."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.backend.conftest import database_home, database_server, module_database
from tests.pages.browsers import started_browser

__all__ = ["browser", "database_home", "database_server", "module_database"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ask for it last: nothing that is set up after it may run an event loop."""
    with started_browser() as browser:
        yield browser
