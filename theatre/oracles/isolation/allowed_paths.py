"""Which paths a program sees: an allow-list. What is on no list is not there (ADR 0178)."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PACKAGE = Path(__file__).resolve().parents[2]
LAUNCHER = Path(__file__).with_name("launcher.py").resolve()

OWN_CODE = (LAUNCHER,)
KIT = tuple(
    _PACKAGE / name
    for name in (
        "__init__.py",
        "construct_kit",
        "engine/__init__.py",
        "engine/canonical_json",
        "engine/clock.py",
        "engine/errors.py",
        "engine/models",
        "engine/oracle_contract.py",
        "engine/schema_registry",
    )
)
"""What there is of this project: the construct kit with what it imports, and nothing else."""
WAY_TO_KIT = (_PACKAGE.parent, _PACKAGE, _PACKAGE / "engine")
"""Folders that an import lists on its way."""

SYSTEM = tuple(
    map(
        Path,
        (
            *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
            *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
            *("/etc/alternatives", "/etc/localtime", "/etc/timezone", "/etc/mime.types"),
            *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/hosts"),
            *("/etc/resolv.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols"),
            *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki"),
            *("/etc/fonts", "/sys/devices/system/cpu"),
        ),
    )
)
PROCESS_FACTS = tuple(
    Path("/proc") / name
    for name in ("self", "cpuinfo", "meminfo", "stat", "version", "loadavg", "uptime")
)
"""Of /proc, where it is the machine's own: the program itself, and what the machine is."""
DEVICES = tuple(Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom"))
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - multiprocessing's own place


class AllowedPaths(NamedTuple):
    """What a program may read, and what of that is hidden again."""

    reading: tuple[Path, ...]
    hidden: tuple[Path, ...]

    def visible(self) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
        """Return the same without anything to hide: paths to read, and folders to list."""
        return _without(self.reading, self.hidden)

    def mounts(self) -> list[Path]:
        """Return what of it is no part of another, in order, with what is hidden in its place."""
        reading, hidden = {*self.reading}, {*self.hidden}
        known = reading | hidden

        def is_inside_another(place: Path) -> bool:
            return next((one for one in place.parents if one in known), None) in reading

        places = sorted(reading.union(self.hidden_inside()))
        return [one for one in places if one in hidden or not is_inside_another(one)]

    def hidden_inside(self) -> list[Path]:
        """Return what is hidden and would be seen."""
        reading = {*self.reading}
        return [one for one in self.hidden if not reading.isdisjoint((one, *one.parents))]


def allowed_paths(programs: Iterable[str], own: Iterable[Path]) -> AllowedPaths:
    """Return what a construct may read that runs `programs`, with `own`: its private copy.

    Of the machine the system's libraries and the prefixes of these programs.
    """
    prefixes = [one for program in (*programs, sys.executable) for one in _prefixes(program)]
    machine = tuple(dict.fromkeys((*SYSTEM, *prefixes)))
    # The service, where it is installed next to this package.
    backend = _PACKAGE.with_name("backend")
    hidden = {_PACKAGE, *_other_copies(machine)} | ({backend} if backend.is_dir() else set())
    reading = (*machine, *KIT, *OWN_CODE, *own)
    return AllowedPaths(reading=tuple(dict.fromkeys(reading)), hidden=tuple(hidden))


@cache
def _other_copies(machine: Sequence[Path]) -> frozenset[Path]:
    """Return this project's ground truth wherever else a program could read it.

    In other interpreters; and in this one, where an editable install leaves a copy next to its link
    to the checkout.
    """
    installed = (f"{local}lib/python*/*-packages/{_PACKAGE.name}" for local in ("", "local/"))
    found = {copy for pattern in installed for prefix in machine for copy in prefix.glob(pattern)}
    resources = {copy / "_resources" for copy in found if copy.resolve() != _PACKAGE}
    return frozenset(one for one in resources if one.is_dir())


_SEARCHED = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path(programs: Sequence[str]) -> str:
    """Return the PATH of a construct that runs `programs`: their folders, and the system's.

    Never that of this process: a variable is read like a file, and no version binds it.
    """
    found = filter(None, map(shutil.which, (*programs, sys.executable)))
    return os.pathsep.join(dict.fromkeys((*map(os.path.dirname, found), *_SEARCHED)))


def _prefixes(program: str) -> tuple[Path, ...]:
    """Return the folders that a program on PATH is installed in; else the program's file."""
    found = shutil.which(program)
    if found is None:
        return ()
    if found == sys.executable:
        return tuple(dict.fromkeys(map(Path, (sys.prefix, sys.base_prefix, sys.exec_prefix))))
    named = Path(os.path.abspath(found))  # noqa: PTH100 - a link is a place of its own
    return tuple(
        dict.fromkeys(one for path in (named, named.resolve()) for one in (_prefix(path), path))
    )


def _prefix(program: Path) -> Path:
    """Return what lies around a program's `bin`, unless that is half a home or the machine."""
    prefix = program.parent.parent
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path's own raises without a home
    too_wide = {prefix} & {home / ".local", *(home, *home.parents)}
    return program if program.parent.name not in {"bin", "sbin"} or too_wide else prefix


@cache
def _without(
    paths: tuple[Path, ...], hidden: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return `paths` with each folder that holds something hidden taken apart."""
    reading: list[Path] = []
    listing: list[Path] = []
    for path in paths:
        for part, is_whole in _parts(path, hidden):
            (reading if is_whole else listing).append(part)
    return tuple(reading), tuple(listing)


def _parts(path: Path, hidden: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    real = path.resolve()
    if not any(one.is_relative_to(real) and one != real for one in hidden):
        yield path, True
        return
    yield path, False
    for inner in sorted(path.iterdir()):
        if inner.resolve() not in hidden:
            yield from _parts(inner, hidden)
