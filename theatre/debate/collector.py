"""Disables the garbage collector while one long debate is read or evaluated."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable the collector; enable it at the end where it was enabled before.

    The objects of one debate live until its end and have no cycles: each collection would visit
    all of them and free nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
