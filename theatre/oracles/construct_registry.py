"""The constructs that an operator registered (`constructs.toml`), and those named by an argv.

Only here does a construct's id become a command or a URL. A template can never name one over HTTP
(docs/contract/construct.md §3).
"""

import glob
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError

from theatre.engine.clock import Clock
from theatre.engine.schema_registry import model_message
from theatre.oracles.construct_files import (
    FOLDER,
    PYTHON,
    ProgramSource,
    listed_files,
    named_paths,
    refuse_unlisted,
)
from theatre.oracles.errors import (
    ConstructRegistryError,
    ConstructTransportError,
    UnknownConstructError,
)
from theatre.oracles.isolation.means import Reach
from theatre.oracles.limited_process import ProcessLimits
from theatre.oracles.local import LocalOracleAdapter

# What `constructs.toml` may say, as written.


PORT = "{port}"
"""What is in the argv of a program that opens a port for HTTP, for the number of that port."""


class ProgramEntry(BaseModel):
    """A construct that is run here: what to execute, and which files make its version."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    argv: list[str] = Field(min_length=1)
    folder: str
    files: list[str] = Field(min_length=1)
    author: str | None = None
    memory_mb: int = Field(default=ProcessLimits().memory_mb, ge=1)
    cpu_seconds: int | None = Field(default=None, ge=1)
    open_files: int | None = Field(default=None, ge=1)
    start_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    serves_http: bool = False
    network: bool = False


class RemoteEntry(BaseModel):
    """A construct that is called: where, and which variables hold its request headers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    url: str = Field(min_length=1)
    headers_env: dict[str, str] = Field(default_factory=dict)
    author: str | None = None


def read_entries(path: Path) -> Mapping[str, ProgramEntry | RemoteEntry]:
    """Return the tables of a registry, by construct id.

    Raises ConstructRegistryError where the file is missing, is not TOML, or a table has
    unknown, missing or mistyped keys.
    """
    return _read(path).constructs


def _read(path: Path) -> "_Document":
    try:
        return _Document.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConstructRegistryError(
            f"expected a construct registry at {path}, got: {error.strerror}"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConstructRegistryError(f"{path}: expected TOML, got: {error}") from error
    except ValidationError as error:
        # Each mistake by its place, without the tag that pydantic puts after the construct's id.
        mistakes = "; ".join(
            f"{'.'.join(map(str, (*one['loc'][:2], *one['loc'][3:])))}: {model_message(one)}, "
            f"got {one['input']!r:.60}"
            for one in error.errors()
        )
        raise ConstructRegistryError(f"{path}: {mistakes}") from error


def read_accepted_templates(path: Path) -> Mapping[str, str]:
    """Return name → content hash of the templates whose certificates count for routing.

    The hash is `theatre.engine.commitment.content_hash`. Errors as `read_entries`.
    """
    return _read(path).accepted_templates


class _Document(BaseModel):
    """A whole `constructs.toml`, as written."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    constructs: dict[
        str,
        Annotated[
            Annotated[ProgramEntry, Tag("argv")] | Annotated[RemoteEntry, Tag("url")],
            Discriminator(
                lambda table: "url" if isinstance(table, dict) and "url" in table else "argv"
            ),
        ],
    ]
    accepted_templates: dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(
        default_factory=dict
    )


# A registered construct that runs elsewhere, behind a URL (`constructs.toml`).


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteConstruct:
    """A construct that is called, not run.

    `headers_env` names, for each request header, the environment variable that holds its value.
    Its version is what it reports: it cannot be computed here.
    """

    construct_id: str
    url: str
    headers_env: Mapping[str, str] = field(default_factory=dict)
    author: str | None = None
    is_own: bool = True
    """Whether the user named these variables; else the template came with them."""


DEFAULT_START_SECONDS = 10.0
_ARGV = TypeAdapter(Annotated[list[str], Field(min_length=1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredConstruct:
    """A construct that may be run: what to execute, and which files make its version.

    `argv` is as written, `{python}` and `{folder}` unfilled; `folder` is absolute and `files` are
    globs below it. Both are bound by the version, and nothing else of the folder is there when it
    runs (`theatre.oracles.construct_files`).
    `start_seconds` is None for a program that speaks on stdin. Else it serves HTTP and must
    accept a connection within so many seconds: on the socket that it is handed or, where `{port}`
    is in `argv`, on that port. `network` lets it open sockets of its own.
    """

    construct_id: str
    argv: tuple[str, ...]
    folder: Path
    files: tuple[str, ...]
    author: str | None = None
    limits: ProcessLimits = field(default_factory=ProcessLimits)
    start_seconds: float | None = None
    network: bool = False

    @property
    def reach(self) -> Reach:
        """Return what it may reach, but for the private copy that each start makes."""
        runs_python = self.argv[0] == PYTHON
        return Reach(network=self.network, program=None if runs_python else self.argv[0])


class ConstructRegistry:
    """The constructs of one `constructs.toml`, by id."""

    def __init__(self, constructs: Mapping[str, RegisteredConstruct | RemoteConstruct]) -> None:
        self._constructs = dict(constructs)

    @classmethod
    def load(cls, path: Path) -> "ConstructRegistry":
        """Read a registry; folders in it are relative to the file.

        Raises ConstructRegistryError where the file is missing, is not TOML, or an entry has
        unknown, missing or mistyped keys or no folder, and ConstructFilesError where its files
        are not there.
        """
        entries = read_entries(path)
        base = path.parent.resolve()
        return cls(
            {
                construct_id: _locate(construct_id, entry, base)
                if isinstance(entry, ProgramEntry)
                else RemoteConstruct(construct_id=construct_id, **entry.model_dump())
                for construct_id, entry in entries.items()
            }
        )

    def find(self, construct_id: str) -> RegisteredConstruct:
        """Return a construct that is run here.

        Raises UnknownConstructError where none has that id, and ConstructTransportError where
        it has a `url`.
        """
        return program_of(self.find_registered(construct_id))

    @property
    def constructs(self) -> Mapping[str, RegisteredConstruct | RemoteConstruct]:
        """Return all of them, by id."""
        return self._constructs

    def find_registered(self, construct_id: str) -> RegisteredConstruct | RemoteConstruct:
        """Return a construct, run here or elsewhere; UnknownConstructError where there is none."""
        try:
            return self._constructs[construct_id]
        except KeyError as error:
            known = ", ".join(sorted(self._constructs)) or "none"
            raise UnknownConstructError(
                f"The construct is not registered: {construct_id!r:.100} (registered: {known})"
            ) from error


def program_of(construct: RegisteredConstruct | RemoteConstruct) -> RegisteredConstruct:
    """Return `construct` if it is run here; ConstructTransportError where it has a `url`."""
    if isinstance(construct, RemoteConstruct):
        raise ConstructTransportError(
            f"expected {construct.construct_id} with an argv, got one with a url: "
            "its adapter is http"
        )
    return construct


def construct_version(construct: RegisteredConstruct) -> str:
    """Return the version of a construct's argv and files as they are now, 64 hex digits.

    Raises ConstructFilesError where they are not as `ProgramSource.bind` demands.
    """
    return source_of(construct).version()


def source_of(construct: RegisteredConstruct) -> ProgramSource:
    """Return what each start of a construct takes its private copy of."""
    return ProgramSource(construct.argv, construct.folder, construct.files)


def construct_from_argv(construct_id: str, argv_json: str, folder: Path) -> RegisteredConstruct:
    """Return the construct that the CLI's `adapter_endpoint` names: a JSON array, an argv.

    Placeholders are those of a registry, and paths may be relative to `folder`. Its files are
    those that argv itself names; its folder is the deepest that holds all of them, wherever that
    lies, and its argv names them below `{folder}`: the version does not depend on the place. What
    those files import is not there when it runs: register the construct to list that as well.

    Raises ConstructRegistryError where it is no such array, names no file, or asks for a port,
    and ConstructFilesError where it names a program of the machine by its path, a folder outside
    `folder` or a symbolic link.
    """
    base = folder.resolve()
    try:
        argv = _ARGV.validate_json(argv_json, strict=True)
    except ValidationError as error:
        raise ConstructRegistryError(
            f"expected an argv as a JSON array of strings, got {argv_json:.200}"
        ) from error
    if any(PORT in argument for argument in argv):
        raise ConstructRegistryError(
            f"expected an argv that speaks on stdin, got {PORT} in {argv_json:.200}: register a "
            "program that serves HTTP"
        )
    argv = [PYTHON if argument == sys.executable else argument for argument in argv]
    named = [named_paths(argument, base) for argument in argv]
    files = {path for paths in named for _, path in paths if path.is_file()}
    # A program by its path: the machine's, unless it lies in `folder`.
    machine = {path for _, path in named[0] if not path.is_relative_to(base)}
    if not files - machine:
        raise ConstructRegistryError(
            f"expected an argv that names a file of the construct, got {argv_json:.200}; "
            "its version is the hash of such files: name one, or register the construct"
        )
    home = Path(os.path.commonpath([path.parent for path in files - machine]))
    construct = RegisteredConstruct(
        construct_id=construct_id,
        argv=tuple(_below(home, argv[n], paths) for n, paths in enumerate(named)),
        folder=home,
        files=tuple(
            sorted(glob.escape(path.relative_to(home).as_posix()) for path in files - machine)
        ),
    )
    refuse_unlisted(construct.argv, home, listed_files(home, construct.files))
    return construct


def local_adapter_for(
    construct: RegisteredConstruct, *, clock: Clock, monotonic: Callable[[], float]
) -> LocalOracleAdapter:
    """Return the adapter that runs `construct`, its files bound again at each start.

    Raises ConstructTransportError for a program that serves HTTP.
    """
    if construct.start_seconds is not None:
        raise ConstructTransportError(
            f"expected {construct.construct_id} to speak on stdin, got one that serves HTTP: "
            "its adapter is http"
        )
    return LocalOracleAdapter(
        source_of(construct).bind,
        limits=construct.limits,
        clock=clock,
        monotonic=monotonic,
        reach=construct.reach,
    )


def _locate(construct_id: str, entry: ProgramEntry, base: Path) -> RegisteredConstruct:
    _check_keys(construct_id, entry)
    folder = (base / entry.folder).resolve()
    if not folder.is_dir():
        raise ConstructRegistryError(
            f"constructs.{construct_id}.folder: expected a folder, got {folder}"
        )
    argv = tuple(entry.argv)
    refuse_unlisted(argv, folder, listed_files(folder, entry.files))
    return RegisteredConstruct(
        construct_id=construct_id,
        argv=argv,
        folder=folder,
        files=tuple(entry.files),
        author=entry.author,
        limits=ProcessLimits(
            memory_mb=entry.memory_mb, cpu_seconds=entry.cpu_seconds, open_files=entry.open_files
        ),
        start_seconds=(entry.start_seconds or DEFAULT_START_SECONDS) if entry.serves_http else None,
        network=entry.network,
    )


def _check_keys(construct_id: str, entry: ProgramEntry) -> None:
    """Refuse keys that would do nothing for this kind of program, or without each other."""
    name = f"constructs.{construct_id}"
    opens_port = any(PORT in argument for argument in entry.argv)
    if opens_port and not (entry.serves_http and entry.network):
        raise ConstructRegistryError(
            f"{name}: expected serves_http = true and network = true for a program that opens "
            f"{PORT} itself; without a network it can serve the socket that it is handed"
        )
    if entry.serves_http and entry.cpu_seconds is not None:
        raise ConstructRegistryError(
            f"{name}.cpu_seconds: expected none for a program that serves HTTP, got "
            f"{entry.cpu_seconds}: several calls may run in it at a time"
        )
    if not entry.serves_http and entry.start_seconds is not None:
        raise ConstructRegistryError(
            f"{name}.start_seconds: expected it only with serves_http, got {entry.start_seconds:g}"
        )


def _below(home: Path, argument: str, paths: list[tuple[str, Path]]) -> str:
    """Return an argument with the file that it names written as one of `{folder}`."""
    for before, path in paths:
        if path.is_file() and path.is_relative_to(home):
            return f"{before}{FOLDER}/{path.relative_to(home).as_posix()}"
    return argument
