"""Holds the collector of cycles back while one long debate is read or evaluated."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Hold the collector back; whoever found it on turns it on again.

    What is made of one debate is kept to the end and has no cycles: each look for some would pass
    over all that was made so far, and find nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
