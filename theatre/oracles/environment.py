"""What a program that runs here finds: what it can import, and what is closed to it.

A version binds a construct's own files; this names what lies beyond them (docs/adr/0172, 0178).
"""

from __future__ import annotations

import hashlib
import platform
import site
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path

from theatre.engine.canonical_json import JsonObject, JsonValue, canonical_sha256
from theatre.engine.errors import TheatreError
from theatre.engine.oracle_contract import weakest_isolation
from theatre.engine.templates import ProductTheatreTemplate
from theatre.oracles.construct_files import PYTHON
from theatre.oracles.construct_registry import RegisteredConstruct
from theatre.oracles.endpoints import Places, construct_at, endpoints
from theatre.oracles.isolation.canary import probe_isolation


def environment_for(template: ProductTheatreTemplate, places: Places) -> JsonObject | None:
    """Return the environment of the constructs that run here under `{python}`.

    None where there is no such construct: what a remote one, or a program in another language,
    runs with cannot be seen here. Reads files the first time: not on an event loop.
    """
    programs = local_programs(template, places)
    return python_environment() if any(one.argv[0] == PYTHON for one in programs) else None


def isolation_for(
    template: ProductTheatreTemplate, places: Places, closed: Sequence[Path]
) -> JsonObject | None:
    """Return what is closed to the constructs that run here now, the weakest of them.

    None where there is no such construct. Blocks for a start of Python or two.
    """
    reaches = {one.reach for one in local_programs(template, places)}
    tried = [probe_isolation(closed, reach) for reach in reaches]
    return weakest_isolation(tried).as_document() if tried else None


@cache
def python_environment() -> JsonObject:
    """Return hash, interpreter and platform of what a program under `{python}` sees.

    `environment_hash` is the SHA-256 over the canonical bytes of the sorted [name, version,
    SHA-256 of RECORD] of the distributions in the interpreter's own folders; null stands for a
    RECORD that there is none of. Computed once a process.
    """
    folders = [Path(folder) for folder in dict.fromkeys(site.getsitepackages())]
    found = [
        _distribution(info)
        for folder in folders
        for pattern in ("*.dist-info", "*.egg-info")
        for info in folder.glob(pattern)
    ]
    return {
        "environment_hash": canonical_sha256(sorted(found, key=repr)),
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
    }


def local_programs(template: ProductTheatreTemplate, places: Places) -> list[RegisteredConstruct]:
    """Return the constructs that run here; what cannot be found is the run's to refuse."""
    found = []
    for endpoint in endpoints(template):
        with suppress(TheatreError):
            construct = construct_at(endpoint, places)
            if isinstance(construct, RegisteredConstruct):
                found.append(construct)
    return found


def _distribution(info: Path) -> list[JsonValue]:
    about, record = Distribution.at(info), info / "RECORD"
    is_recorded = record.is_file()
    digest = hashlib.sha256(record.read_bytes()).hexdigest() if is_recorded else None
    return [about.name, about.version, digest]
