"""What stands between the engine and a construct: adapters, and who calls them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from theatre.engine.canonical_json import JsonObject, canonical_bytes, sha256_hex
from theatre.engine.models import Attempt, OracleInvocationRequest

# What a construct could reach while it ran, as was found by trying (docs/constructs.md).


IsolatedBy: TypeAlias = Literal["namespaces", "landlock", "other-user", "remote", "none"]

_WEAKEST_FIRST: tuple[IsolatedBy, ...] = ("none", "other-user", "landlock", "namespaces", "remote")


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """What is closed to a construct; false also where it cannot be known.

    `files`: the store, the data and the ground truth of this project. `processes`: memory,
    environment and signals of the run. `network`: every way out, to this machine's own services
    too. `by` is what closes it.
    """

    files: bool
    processes: bool
    network: bool
    by: IsolatedBy

    @property
    def holds(self) -> bool:
        """Return whether the answers are out of reach; an open network alone is a finding."""
        return self.files and self.processes

    def as_document(self) -> JsonObject:
        """Return the four members."""
        return {**asdict(self)}

    def covers(self, other: Isolation) -> bool:
        """Return whether all that `other` closes is closed here too."""
        return (self.files, self.processes, self.network) == (
            self.files or other.files,
            self.processes or other.processes,
            self.network or other.network,
        )


NOT_ISOLATED = Isolation(files=False, processes=False, network=False, by="none")
REMOTE = Isolation(files=True, processes=True, network=False, by="remote")
"""A construct on another machine: what it can reach there is unknown here."""


def weakest_isolation(found: Iterable[Isolation]) -> Isolation:
    """Return what holds for each of several constructs, of which there is at least one."""
    every = tuple(found)
    return Isolation(
        files=all(one.files for one in every),
        processes=all(one.processes for one in every),
        network=all(one.network for one in every),
        by=min((one.by for one in every), key=_WEAKEST_FIRST.index),
    )


@runtime_checkable
class OracleAdapter(Protocol):
    """One transport to one construct. An adapter never raises for what a construct does."""

    @property
    def pin(self) -> str:
        """Return `name@version` of the adapter, as evidence and `adapter_version` spell it."""

    @property
    def computed_version(self) -> str | None:
        """Return the construct's version where the engine can compute it from its files.

        None for a remote construct: its version is what it reports (`claimed`).
        """

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Try what the construct can reach, and return it; nothing is asked of the construct.

        `closed` are places with answers in them, which it must not be able to read.
        """

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try, bounded by `request.metadata.timeout_seconds`."""

    async def aclose(self) -> None:
        """Let go of everything; no process and no connection stays behind."""


class RehearsalAdapter:
    """Marks adapters whose answers are canned. No certificate ever rests on one (by type)."""


class Invoker(Protocol):
    """Makes one call with its committed retries and returns every attempt, in order."""

    async def __call__(
        self, adapter: OracleAdapter, request: OracleInvocationRequest
    ) -> tuple[Attempt, ...]:
        """Return at least one attempt; the last one's response is the answer."""


# What the version of a construct's program is; engine and construct kit compute the same.


def program_version(argv: Sequence[str], files: Mapping[str, str]) -> str:
    """Return SHA-256 over the canonical bytes of argv and files, 64 hex digits.

    `argv` is as written, its placeholders unfilled; `files` is POSIX path → SHA-256.
    """
    return sha256_hex(canonical_bytes({"argv": list(argv), "files": dict(files)}))


def served_argv(target: str) -> tuple[str, ...]:
    """Return the argv, as written, that serves the callable `target` (`module:name`) on stdin."""
    # -P: without it the program's working folder would come before the installed packages.
    kit = ("{python}", "-P", "-m", "theatre.construct_kit", "--stdio")
    return (*kit, "--folder", "{folder}", target)


# What a run needs of a sanitiser; the one that ships is in `theatre.oracles.sanitise`.


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitisedInput:
    """An episode's input, made safe to be sent: `value`, and the `record` that evidence keeps.

    `wrong_keys` are pointers to members whose names would have to change. Names are never
    changed silently: an input that has any is not sent.
    """

    value: JsonObject
    record: JsonObject
    wrong_keys: tuple[str, ...]


class InputSanitiser(Protocol):
    """A pure, versioned function over inputs (docs/contract/construct.md §7)."""

    @property
    def version(self) -> str:
        """Return `name/version`, as the evidence keeps it."""

    def sanitise(
        self,
        value: JsonObject,
        *,
        role_markers: Literal["break", "flag"],
        raw_fields: tuple[str, ...],
    ) -> SanitisedInput:
        """Return what is sent instead of `value`, and what was changed."""
