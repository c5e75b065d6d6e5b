"""What every interface shares: its name and specification, and snapshots that can be opened."""

from dataclasses import dataclass
from enum import StrEnum

from theatre.axion.common.hashing import Document, commitment, factor_digest

K8, K16 = 8, 16
SNAPSHOT_CHARACTERS = 80


class Mode(StrEnum):
    """The three interfaces (docs/requirements.md R110)."""

    FULL = "full"
    MCI_LATENT = "mci_latent"
    MCI_MINIMAL = "mci_minimal"


@dataclass(frozen=True, slots=True)
class Interface:
    """A mode and the factors it has. `projection` is None where agents supply their own."""

    mode: Mode
    factor_dim: int = K8
    projection: str | None = None

    @property
    def has_factors(self) -> bool:
        """Return whether proposals carry factors and a replay model."""
        return self.mode is not Mode.FULL

    def as_document(self) -> Document:
        """Return the `interface_spec`."""
        spec: Document = {"mode": self.mode.value, "factor_dim": self.factor_dim}
        return spec if self.projection is None else {**spec, "projection_id": self.projection}


def factor_snapshot(interface: Interface, factors: list[float], nonce: str, ref: str) -> Document:
    """Return the snapshot that commits to `factors` under `nonce` (hex), known by `ref`."""
    spec = interface.as_document()
    digest = factor_digest(factors, spec)
    return {
        "snapshot_id": f"snapshot-{ref}"[:SNAPSHOT_CHARACTERS],
        "factor_digest": digest,
        "dim": len(factors),
        "commitment": commitment(nonce, digest, spec),
        "nonce_ref": ref,
    }
