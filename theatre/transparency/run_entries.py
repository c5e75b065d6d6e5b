"""What a theatre leaves in its issuer's log: its commitment, and why that was closed without more.

Source: docs/contract/trust.md §4, "Closure".
"""

from collections.abc import Mapping
from typing import Final

from theatre.engine.canonical_json import JsonObject
from theatre.engine.coin import Coin
from theatre.engine.commitment import CommitmentReceipt
from theatre.engine.errors import CoinError, InvalidTransitionError
from theatre.engine.state_machine import TheatreState
from theatre.engine.templates import product_template
from theatre.engine.theatre import Theatre
from theatre.transparency.bundle_proofs import commitment_entry
from theatre.transparency.entries import VoidReason

_REASONS: Final[Mapping[tuple[object, object], VoidReason]] = {
    ("no_certificate", "nothing-scored"): VoidReason.NOTHING_SCORED,
    ("void", "cancelled"): VoidReason.CANCELLED,
    ("void", "not-closed-in-time"): VoidReason.ABANDONED,
}


def theatre_commitment(theatre: Theatre, coin: Coin | None) -> bytes:
    """Return the log's entry of a committed theatre, salted where it discloses hashes alone.

    InvalidTransitionError for one that is not committed or never run, CoinError where the salt is
    lost, and EntryError where its names are too long for an entry.
    """
    receipt, close_by = theatre.commitment, theatre.close_by
    template = product_template(receipt.template_snapshot)
    if close_by is None:
        raise InvalidTransitionError(f"expected a theatre that is run, got {theatre.theatre_id}")
    config = template.product_theatre_config
    construct_id = config.construct_under_test
    salt = None
    if config.disclosure == "hashes":
        if coin is None:
            raise CoinError(f"expected the coin of {theatre.theatre_id}, which salts its entry")
        salt = coin.secret
    return commitment_entry(
        {
            "theatre_id": theatre.theatre_id,
            "construct_id": construct_id,
            "construct_version": template.version_pins.constructs[construct_id],
            "template_id": template.theatre_id,
            "commitment_hash": receipt.commitment_hash,
            "coin_sha256": receipt.coin_sha256,
        },
        close_by=close_by,
        salt=salt,
    )


def receipt_commitment(receipt: CommitmentReceipt, coin: Coin | None) -> bytes:
    """Return the log's entry of what a receipt commits to; errors as `theatre_commitment`."""
    return theatre_commitment(
        Theatre(
            theatre_id=receipt.theatre_id,
            template=receipt.template_snapshot,
            state=TheatreState.COMMITTED,
            receipt=receipt,
        ),
        coin,
    )


def void_reason(resolution: JsonObject) -> VoidReason:
    """Return why the commitment of a theatre is void that ended so, without a certificate."""
    ended = resolution.get("outcome"), resolution.get("outcome_reason")
    return _REASONS.get(ended, VoidReason.FAILED)
