"""Where the files lie that ship with the package."""

from __future__ import annotations

from pathlib import Path

from theatre.engine.errors import ResourceMissingError

_PACKAGE = Path(__file__).resolve().parents[2]


def resource_root() -> Path:
    """Return the folder that holds `docs/schemas/…` and `fixtures/…`.

    In an installed wheel that is `theatre/_resources`, in a checkout the repository root.
    Raises ResourceMissingError where neither holds `docs/schemas`.
    """
    installed, checkout = _PACKAGE / "_resources", _PACKAGE.parent
    for root in (installed, checkout):
        if (root / "docs" / "schemas").is_dir():
            return root
    raise ResourceMissingError(
        f"expected docs/schemas in {installed} or {checkout}, got neither: "
        "install the package again"
    )
