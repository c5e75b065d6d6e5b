"""Tests that are coroutines run on asyncio."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Return the event loop of the tests marked `anyio`."""
    return "asyncio"
