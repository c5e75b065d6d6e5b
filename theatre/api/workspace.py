"""The folders and settings of this machine; the only reader of the environment variables."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from theatre.engine.schema_registry import resource_root
from theatre.files.datasets import DatasetRoots
from theatre.files.theatre_store import FileTheatreStore
from theatre.oracles.construct_registry import (
    ConstructRegistry,
    RegisteredConstruct,
    RemoteConstruct,
    program_of,
)
from theatre.oracles.endpoints import Places
from theatre.oracles.errors import KEY_ORIGINS, UnknownConstructError

CONSTRUCTS_FILE = "constructs.toml"
OUTBOUND_ALLOW = "ECHELON_OUTBOUND_ALLOW"


def _listed(environment: Mapping[str, str], variable: str) -> tuple[str, ...]:
    entries = (entry.strip() for entry in environment.get(variable, "").split(","))
    return tuple(entry for entry in entries if entry)


def utc_now() -> datetime:
    """Return the time; the one clock that is handed to the engine here."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The settings of one invocation.

    - `home` (ECHELON_HOME, default `.echelon`): theatres, journals, bundles.
    - `issuer` (ECHELON_ISSUER, default `local`): the name that goes on certificates.
    - `dataset_roots` (ECHELON_DATASET_ROOTS, separated like PATH): folders with ground truth.
    - `constructs` (ECHELON_CONSTRUCTS): the user's `constructs.toml`.
    - `outbound_allow` (ECHELON_OUTBOUND_ALLOW, separated by commas): where calls may go besides
      public addresses, as `OutboundPolicy` takes it.
    - `key_origins` (ECHELON_KEY_ORIGINS, separated by commas): where the values of variables may go
      that a template names, as `KeyOrigins` takes them.
    - `environment`: all variables, for the request headers whose values are in some of them.
    - `code_folder`: where callables and programs of a template begin, if not in its own folder.
    """

    home: Path
    issuer: str
    dataset_roots: tuple[Path, ...]
    constructs: Path | None
    outbound_allow: tuple[str, ...]
    key_origins: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    code_folder: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Workspace":
        """Read the settings."""
        roots = environment.get("ECHELON_DATASET_ROOTS", "").split(os.pathsep)
        constructs = environment.get("ECHELON_CONSTRUCTS")
        return cls(
            home=Path(environment.get("ECHELON_HOME", ".echelon")),
            issuer=environment.get("ECHELON_ISSUER", "local"),
            dataset_roots=tuple(Path(root) for root in roots if root),
            constructs=Path(constructs) if constructs else None,
            outbound_allow=_listed(environment, OUTBOUND_ALLOW),
            key_origins=_listed(environment, KEY_ORIGINS),
            environment=environment,
        )

    @property
    def store(self) -> FileTheatreStore:
        """Return the store of theatres below `home`."""
        return FileTheatreStore(self.home)

    def datasets_for(self, template_folder: Path, *own: Path) -> DatasetRoots:
        """Return the roots in order: a theatre's `own`, its template's folder, the user's, ours."""
        shipped = resource_root() / "fixtures"
        return DatasetRoots([*own, template_folder, *self.dataset_roots, shipped])

    def registries(self, folder: Path) -> list[Path]:
        """Return the `constructs.toml` that there are: of a folder, the user's, the shipped one."""
        shipped = resource_root() / "fixtures" / "constructs" / CONSTRUCTS_FILE
        candidates = [folder / CONSTRUCTS_FILE, self.constructs, shipped]
        return [path for path in candidates if path is not None and path.is_file()]

    def places(self, template_folder: Path, headers_env: Mapping[str, str] | None = None) -> Places:
        """Return what the endpoints of a template in `template_folder` are looked up in."""
        return Places(
            find=lambda construct_id: self.find_registered(construct_id, template_folder),
            folder=self.code_folder or template_folder,
            headers_env=headers_env or {},
        )

    def find_construct(self, construct_id: str, template_folder: Path) -> RegisteredConstruct:
        """Return a registered construct that is run here; errors as `find_registered`.

        Raises ConstructTransportError for one that is called by its URL.
        """
        return program_of(self.find_registered(construct_id, template_folder))

    def find_registered(
        self, construct_id: str, template_folder: Path
    ) -> RegisteredConstruct | RemoteConstruct:
        """Return a registered construct: of the template's folder, the user, or the release.

        Raises UnknownConstructError naming the files that were looked into.
        """
        files = self.registries(template_folder)
        for path in files:
            with contextlib.suppress(UnknownConstructError):
                found = ConstructRegistry.load(path).find_registered(construct_id)
                if isinstance(found, RemoteConstruct) and not self._is_own(path):
                    return replace(found, is_own=False)
                return found
        looked_in = ", ".join(str(path) for path in files)
        raise UnknownConstructError(f"expected construct {construct_id} in {looked_in}; got none")

    def _is_own(self, registry: Path) -> bool:
        """Return whether it is the user's registry, not one that came with a template."""
        return self.constructs is not None and registry.samefile(self.constructs)
