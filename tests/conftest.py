"""What the whole suite shares."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Take modules and collected tests out of every later collection of garbage."""
    gc.collect()
    gc.freeze()
