"""Signed certificates: a Sigstore bundle with one DSSE envelope with an in-toto Statement.

What is signed is bytes, and what is verified is these bytes: nothing is encoded a second time.
Source: docs/contract/trust.md §3; in-toto attestation v1, DSSE v1, Sigstore bundle v0.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)
from securesystemslib.exceptions import VerificationError

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import ParseError
from theatre.transparency.errors import MalformedError, SignatureError
from theatre.transparency.notes import decode_base64, encode_base64

if TYPE_CHECKING:
    # Loaded where a signature is made or verified: it loads each cloud's client that is installed.
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import Signer, SSlibKey

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
CERTIFICATE_TYPE: Final = "urn:echelon:attestation:calibration-certificate:v1"
QUALIFICATION_TYPE: Final = "urn:echelon:attestation:qualification:v1"
RESULT_TYPE: Final = "https://in-toto.io/attestation/svr/v0.2"
BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
MAX_BUNDLE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """The public half of an issuer's P-256 key, as DER of a SubjectPublicKeyInfo."""

    der: bytes

    def __post_init__(self) -> None:
        """Refuse another kind of key, and a second spelling of one."""
        if self._public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != self.der:
            raise MalformedError("expected a public key as DER gives it, got another spelling")

    @classmethod
    def of(cls, public: EllipticCurvePublicKey) -> IssuerKey:
        """Return the key of a signer."""
        return cls(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))

    @property
    def kid(self) -> str:
        """Return the SHA-256 of the DER: what signatures name."""
        return hashlib.sha256(self.der).hexdigest()

    @property
    def verifier(self) -> SSlibKey:
        """Return the key with the id that our signatures carry: the library's own is another."""
        from securesystemslib.signer import SSlibKey  # noqa: PLC0415

        return SSlibKey.from_crypto(self._public, keyid=self.kid)

    @property
    def _public(self) -> EllipticCurvePublicKey:
        try:
            key = load_der_public_key(self.der)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise MalformedError("expected a public key in DER, got other bytes") from error
        if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
            raise MalformedError("expected a P-256 key, got one of another kind")
        return key


def certificate_statement(certificate: JsonObject, commitment_log: JsonObject | None) -> bytes:
    """Return the statement about a certificate, canonical JSON.

    `certificate` stands in it unchanged; `commitment_log` is {origin, index, proof} of its
    commitment, None for a theatre that no log knows.
    """
    predicate: JsonObject = {"certificate": certificate, "commitment_log": commitment_log}
    return _statement(certificate, CERTIFICATE_TYPE, predicate)


def result_statement(
    certificate: JsonObject, *, verifier: str, properties: Sequence[str], at: datetime
) -> bytes:
    """Return the statement that `verifier`, a URI, found these properties of a bundle at `at`.

    It is a Simple Verification Result, which lists what passed and has no place for a score.
    Its policy is the committed measurement. Source: in-toto attestation, predicate svr v0.2.
    """
    measurement: JsonObject = {
        "name": "commitment",
        "digest": {"sha256": certificate["commitment_hash"]},
    }
    predicate: JsonObject = {
        "verifier": {"id": verifier, "policies": [measurement]},
        "timeCreated": format_rfc3339(at),
        "properties": [*properties],
    }
    return _statement(certificate, RESULT_TYPE, predicate)


def qualification_statement(document: JsonObject, sha256: str) -> bytes:
    """Return the statement about a measure's qualification; `sha256` is of its canonical bytes."""
    return canonical_line(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "qualification", "digest": {"sha256": sha256}}],
            "predicateType": QUALIFICATION_TYPE,
            "predicate": {"qualification": document},
        }
    ).removesuffix(b"\n")


def tier_property(certificate: JsonObject, *, at: datetime) -> str | None:
    """Return the tier as a property that ends with the days from `at` for which it still holds.

    None for a tier that asks for nothing, or that has less than a day left: a reader adds whole
    days to the statement's time, and must not come out behind the certificate's `expires_at`.
    """
    tier, expires_at = certificate["verification_tier"], certificate["expires_at"]
    if tier == "UNVERIFIED" or not isinstance(expires_at, str):
        return None
    days = (parse_rfc3339(expires_at) - at) // timedelta(days=1)
    return f"ECHELON_TIER_{tier}_{days}" if days > 0 else None


def _statement(certificate: JsonObject, kind: str, predicate: JsonObject) -> bytes:
    digest: JsonObject = {"sha256": certificate["evidence_bundle_hash"]}
    return canonical_line(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "SHA256SUMS", "digest": digest}],
            "predicateType": kind,
            "predicate": predicate,
        }
    ).removesuffix(b"\n")


def sign_statement(payload: bytes, signer: Signer) -> bytes:
    """Return the Sigstore bundle of a statement, canonical JSON and a line feed.

    The signer's key must have been made with `IssuerKey.verifier`, whose id the bundle names.
    """
    from securesystemslib.dsse import Envelope  # noqa: PLC0415

    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    envelope.sign(signer)
    return _encode(envelope)


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A statement whose signature was verified, and the key's id."""

    payload: bytes
    document: JsonObject
    kid: str

    @classmethod
    def verify(cls, data: bytes, keys: Iterable[IssuerKey]) -> SignedStatement:
        """Read a Sigstore bundle that one of `keys` signed.

        Raises MalformedError for anything but the one spelling of a bundle with one signature,
        SignatureError where the key is not trusted or the signature is not its own.
        """
        envelope, kid = _decode(data)
        trusted = {key.kid: key for key in keys}
        if kid not in trusted:
            raise SignatureError(f"expected a signature by a trusted key, got one by {kid!r:.80}")
        try:
            envelope.verify([trusted[kid].verifier], threshold=1)
        except VerificationError as error:
            raise SignatureError(f"expected a signature by {kid}, got another") from error
        try:
            document = parse_object(envelope.payload)
        except ParseError as error:
            raise MalformedError(f"expected a statement in strict JSON: {error}") from error
        if canonical_line(document) != envelope.payload + b"\n":
            raise MalformedError("expected a statement in canonical JSON, got another spelling")
        return cls(envelope.payload, document, kid)

    @property
    def sha256(self) -> str:
        """Return the hash that the log's entry names."""
        return hashlib.sha256(self.payload).hexdigest()

    def certificate(self) -> JsonObject:
        """Return the certificate; MalformedError where the statement is about something else."""
        predicate = self.document.get("predicate")
        certificate = predicate.get("certificate") if isinstance(predicate, dict) else None
        log = predicate.get("commitment_log") if isinstance(predicate, dict) else None
        if not isinstance(certificate, dict) or not isinstance(log, dict | None):
            raise MalformedError("expected a statement about a certificate, got another")
        # Whatever else a statement says would be said under the issuer's signature.
        if certificate_statement(certificate, log) != self.payload:
            raise MalformedError("expected a certificate's statement, got other members or subject")
        return certificate


def named_key(data: bytes) -> str:
    """Return the id of the key that a Sigstore bundle says it was signed with: nothing verified.

    Raises MalformedError as `SignedStatement.verify`.
    """
    return _decode(data)[1]


def _encode(envelope: Envelope) -> bytes:
    (signature,) = envelope.signatures.values()
    return canonical_line(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": signature.keyid}},
            "dsseEnvelope": cast("JsonObject", envelope.to_dict()),
        }
    )


def _decode(data: bytes) -> tuple[Envelope, str]:
    """Return envelope and key id of a bundle that has one signature and nothing else."""
    from securesystemslib.dsse import Envelope  # noqa: PLC0415

    try:
        document: Any = parse_object(data, max_bytes=MAX_BUNDLE_BYTES)
        stated = document["dsseEnvelope"]
        (signature,) = stated["signatures"]
        kid, sig = signature["keyid"], signature["sig"]
        envelope = Envelope.from_dict(
            {
                "payload": encode_base64(decode_base64(stated["payload"])),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"keyid": kid, "sig": encode_base64(decode_base64(sig))}],
            }
        )
        again = _encode(envelope)
    except (ParseError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedError(
            "expected a Sigstore bundle with one signature, got another"
        ) from error
    if again != data:
        raise MalformedError("expected a Sigstore bundle of these members, got others")
    return envelope, kid
