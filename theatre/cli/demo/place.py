"""The one folder of the demo: what is where, and which demo may work in it."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from theatre.api.workspace import Workspace
from theatre.engine.errors import StateConflictError

_PREFIX = "ECHELON_"


class DemoRunningError(StateConflictError):
    """Another demo works in the same folder."""

    code = "demo-running"


class DemoPlace(NamedTuple):
    """The folder `demo` below ECHELON_HOME, also the home of the demo's service.

    Database, users, keys and evidence in it outlast a demo; `bundles`, `certificates`, `plots`,
    `monitor`, `rewritten`, `trust.json` and `pages.txt` are those of the last one.
    """

    folder: Path
    issuer: str

    @classmethod
    @contextlib.contextmanager
    def held(cls, workspace: Workspace) -> Iterator[Self]:
        """Make the folder and hold it for one demo; DemoRunningError where another one does."""
        folder = workspace.home.resolve() / "demo"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DemoRunningError(
                    f"expected no other demo in {folder}, got one that runs: wait for its end, or "
                    "name another folder in ECHELON_HOME"
                ) from error
            place = cls(folder=folder, issuer=workspace.issuer)
            for name in ("bundles", "certificates", "monitor", "plots", "rewritten", "temporary"):
                shutil.rmtree(folder / name, ignore_errors=True)
            place.temporary.mkdir()
            try:
                yield place
            finally:
                shutil.rmtree(place.temporary, ignore_errors=True)

    @property
    def log(self) -> Path:
        """Return where the service writes its log."""
        return self.folder / "service.log"

    @property
    def pages(self) -> Path:
        """Return the file with all that the last demo showed, whatever it printed of that."""
        return self.folder / "pages.txt"

    @property
    def constructs(self) -> Path:
        """Return the operator's `constructs.toml`."""
        return self.folder / "constructs.toml"

    @property
    def people(self) -> Path:
        """Return the file with names and passwords of the demo's users."""
        return self.folder / "people.json"

    @property
    def temporary(self) -> Path:
        """Return where processes of the demo put what ends with them."""
        return self.folder / "temporary"

    def bundle(self, name: str) -> Path:
        """Return where a downloaded bundle is unpacked."""
        return self.folder / "bundles" / name

    def certificate(self, name: str) -> Path:
        """Return where the issuer's copy of a certificate is kept."""
        return self.folder / "certificates" / f"{name}.json"

    @property
    def trust(self) -> Path:
        """Return the issuer's trust.json, as anybody gets it from the service."""
        return self.folder / "trust.json"

    @property
    def keys(self) -> Path:
        """Return the folder of the service's keys, those of its certificates and of its log."""
        return self.folder / "trust"

    @property
    def monitor(self) -> Path:
        """Return what the monitor has seen of the service's log."""
        return self.folder / "monitor"

    @property
    def rewritten(self) -> Path:
        """Return the log as the operator would rather have it."""
        return self.folder / "rewritten"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the service: no setting of the caller's, no real database."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
        return {
            **kept,
            "ECHELON_HOME": str(self.folder),
            "ECHELON_CONSTRUCTS": str(self.constructs),
            "ECHELON_ISSUER": self.issuer,
            "TMPDIR": str(self.temporary),
        }
