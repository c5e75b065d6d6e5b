"""What a construct could reach while it ran, as was found by trying (docs/constructs.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from theatre.engine.canonical_json import JsonObject

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
