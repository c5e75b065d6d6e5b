"""The commitment: one hash over template, pins and dataset hashes, before anything runs.

Source: docs/contract/evidence.md §2.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation, localcontext
from types import NoneType
from typing import Any, cast

from theatre.engine.canonical_json import JsonObject, canonical_sha256
from theatre.engine.clock import format_rfc3339
from theatre.engine.coin import Coin
from theatre.engine.errors import CommitmentError
from theatre.engine.models import freeze_object
from theatre.engine.templates import DEFAULT_CLOSE_WITHIN_DAYS, NEWEST, SIMULATION

CANONICALISATION = "RFC8785"

_BILLIONTH = Decimal("1e-9")
_SPARE_DIGITS = 60
_BASIS_POINTS = 10_000
_PINNED = frozenset({"version_pins", "dataset_hashes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitmentReceipt:
    """Proof of what was committed, frozen deeply. `escrowed_capital` is null but for markets.

    `environment` (`environment_hash`, `interpreter`, `platform`) is what a construct that runs
    here could import when it was committed, and `isolation` (`files`, `processes`, `network`,
    `by`) what was closed to it when that was tried then; None where no such construct is called.
    `coin_sha256` names the coin, whose bytes the bundle reveals. `reproduces` is the bundle hash
    of the run that this one repeats with its revealed coin: such a theatre is never certified.
    None for any other.
    """

    theatre_id: str
    commitment_hash: str
    coin_sha256: str
    template_snapshot: JsonObject
    version_pins: JsonObject
    dataset_hashes: JsonObject
    scorer_pins: JsonObject
    scorer_kinds: JsonObject
    escrowed_capital: float | None
    committed_at: str
    environment: JsonObject | None = None
    isolation: JsonObject | None = None
    reproduces: str | None = None
    canonicalisation: str = CANONICALISATION

    def as_document(self) -> JsonObject:
        """Return `commitment_receipt.json`."""
        return {name: getattr(self, name) for name in _MEMBERS}

    @classmethod
    def from_document(cls, document: JsonObject) -> "CommitmentReceipt":
        """Read a receipt back; CommitmentError unless it is whole and its hash recomputes."""
        odd = {
            name
            for name in {*document, *_MEMBERS}
            if name not in document or not isinstance(document[name], _MEMBERS.get(name, ()))
        }
        if odd:
            raise CommitmentError(
                f"expected a receipt of {', '.join(_MEMBERS)}; got it wrong in "
                f"{', '.join(sorted(odd))[:200]}"
            )
        receipt = cls(**cast("dict[str, Any]", freeze_object(document)))
        CommitmentProtocol.verify(receipt)
        return receipt


_MEMBERS: Mapping[str, tuple[type, ...]] = {
    "theatre_id": (str,),
    "commitment_hash": (str,),
    "coin_sha256": (str,),
    "reproduces": (str, NoneType),
    "template_snapshot": (dict,),
    "version_pins": (dict,),
    "dataset_hashes": (dict,),
    "scorer_pins": (dict,),
    "scorer_kinds": (dict,),
    "escrowed_capital": (float, int, NoneType),
    "environment": (dict, NoneType),
    "isolation": (dict, NoneType),
    "canonicalisation": (str,),
    "committed_at": (str,),
}
"""The members of `commitment_receipt.json` and their types."""


def escrowed_capital(template: JsonObject) -> float | None:
    """Return what a market sets aside, in the unit of `liquidity_b`; None for any other template.

    The most that its market makers can lose, and the fee on it: Σ over forks b · ln(number of
    options), times (1 + taker_fee_bps / 10,000), half-even to 9 places. Raises CommitmentError
    where that is no number.
    """
    if template.get("schema_version") == SIMULATION or template.get("execution_path") != "market":
        return None
    try:
        escrow = float(_exact_escrow(cast("dict[str, Any]", template)))
    except (LookupError, TypeError, AttributeError, InvalidOperation) as error:
        raise CommitmentError(
            "expected a market whose liquidity_b, fees and forks give an escrow, got none"
        ) from error
    if not math.isfinite(escrow):
        raise CommitmentError(f"expected an escrow that a number can hold, got {escrow}")
    return escrow


def _exact_escrow(template: Mapping[str, Any]) -> Decimal:
    config = template["market_theatre_config"]["lmsr_config"]
    liquidity = Decimal(repr(config["liquidity_b"]))
    fee = Decimal(repr(config.get("fee_schedule", {}).get("taker_fee_bps", 0)))
    with localcontext() as context:
        context.prec = max(liquidity.adjusted(), 0) + _SPARE_DIGITS
        logarithms = (Decimal(len(fork["options"])).ln() for fork in template["fork_definitions"])
        at_risk = liquidity * sum(logarithms, Decimal(0))
        escrow = at_risk * (1 + fee / _BASIS_POINTS)
        return escrow.quantize(_BILLIONTH, rounding=ROUND_HALF_EVEN)


def close_by(template: JsonObject, committed_at: datetime) -> datetime:
    """Return the moment from which a theatre that has not ended is closed without a result.

    `execution_policy.close_within_days` after the commitment; 30 days where no such limit is
    committed, as in every template before 2.2.0.
    """
    policy = cast("JsonObject", template.get("execution_policy", {}))
    is_limited = template.get("schema_version") == NEWEST and "close_within_days" in policy
    days = cast("int", policy["close_within_days"]) if is_limited else DEFAULT_CLOSE_WITHIN_DAYS
    return committed_at + timedelta(days=days)


def content_hash(template: JsonObject) -> str:
    """Return the SHA-256 of what a template asks: all of it but `version_pins`, `dataset_hashes`.

    Two theatres with one content hash differ in nothing but the versions and the data.
    """
    return canonical_sha256(
        {name: value for name, value in template.items() if name not in _PINNED}
    )


class CommitmentProtocol:
    """Makes and recomputes commitments."""

    @staticmethod
    def compute_hash(
        template: JsonObject, *, version_pins: JsonObject, dataset_hashes: JsonObject
    ) -> str:
        """Return the SHA-256 over the canonical bytes of the one composite object."""
        return canonical_sha256(
            {"dataset_hashes": dataset_hashes, "template": template, "version_pins": version_pins}
        )

    @staticmethod
    def hash_template(template: JsonObject) -> str:
        """Return the commitment hash of a template, its own pins and hashes (else `{}`)."""
        return CommitmentProtocol.compute_hash(
            template,
            version_pins=_member(template, "version_pins"),
            dataset_hashes=_member(template, "dataset_hashes"),
        )

    @staticmethod
    def commit(
        theatre_id: str,
        template: JsonObject,
        *,
        coin: Coin,
        scorer_pins: Mapping[str, str],
        scorer_kinds: Mapping[str, str],
        committed_at: datetime,
        environment: JsonObject | None = None,
        isolation: JsonObject | None = None,
        reproduces: str | None = None,
    ) -> CommitmentReceipt:
        """Return the receipt for a validated template whose datasets have been verified.

        `scorer_pins` are the versions in use, which the validator compared with the template, and
        `scorer_kinds` what their scores rest on; `coin` has just been drawn, or is the revealed one
        of the bundle that `reproduces` names.
        Raises CommitmentError for a market whose escrow cannot be computed.
        """
        snapshot = freeze_object(template)
        return CommitmentReceipt(
            theatre_id=theatre_id,
            commitment_hash=CommitmentProtocol.hash_template(snapshot),
            coin_sha256=coin.sha256,
            reproduces=reproduces,
            template_snapshot=snapshot,
            version_pins=_member(snapshot, "version_pins"),
            dataset_hashes=_member(snapshot, "dataset_hashes"),
            scorer_pins=freeze_object(dict(scorer_pins)),
            scorer_kinds=freeze_object(dict(scorer_kinds)),
            escrowed_capital=escrowed_capital(snapshot),
            committed_at=format_rfc3339(committed_at),
            environment=None if environment is None else freeze_object(environment),
            isolation=None if isolation is None else freeze_object(isolation),
        )

    @staticmethod
    def verify(receipt: CommitmentReceipt) -> None:
        """Raise CommitmentError unless the receipt's parts agree and its hash recomputes."""
        if receipt.canonicalisation != CANONICALISATION:
            raise CommitmentError(
                f"expected a receipt under {CANONICALISATION}, got {receipt.canonicalisation[:40]}"
            )
        template = receipt.template_snapshot
        for name, copy in (
            ("version_pins", receipt.version_pins),
            ("dataset_hashes", receipt.dataset_hashes),
        ):
            if canonical_sha256(_member(template, name)) != canonical_sha256(copy):
                raise CommitmentError(
                    f"expected the receipt's {name} to equal the template's, got other ones"
                )
        escrow = escrowed_capital(template)
        if escrow != receipt.escrowed_capital:
            raise CommitmentError(
                f"expected escrowed_capital {escrow}, got {receipt.escrowed_capital}"
            )
        recomputed = CommitmentProtocol.hash_template(template)
        if recomputed != receipt.commitment_hash:
            raise CommitmentError(
                f"expected commitment {receipt.commitment_hash}, got {recomputed} from its parts"
            )


def _member(template: JsonObject, name: str) -> JsonObject:
    value = template.get(name)
    return value if isinstance(value, dict) else {}
