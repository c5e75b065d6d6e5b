"""Signed certificates: a Sigstore bundle with one DSSE envelope with an in-toto Statement.

What is signed is bytes, and what is verified is these bytes: nothing is encoded a second time.
Source: docs/contract/trust.md §3; in-toto attestation v1, DSSE v1, Sigstore bundle v0.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from theatre.engine.canonical_json import JsonObject, canonical_line, parse_object
from theatre.engine.clock import format_rfc3339, parse_rfc3339
from theatre.engine.errors import ParseError
from theatre.transparency.errors import MalformedError, SignatureError
from theatre.transparency.notes import decode_base64, encode_base64

if TYPE_CHECKING:
    # Loaded for the key of a KMS alone: it loads the client of each cloud that is installed.
    from securesystemslib.signer import SSlibKey

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
        """Return the key for signers of securesystemslib, with the id that our signatures carry."""
        from securesystemslib.signer import SSlibKey  # noqa: PLC0415

        return SSlibKey.from_crypto(self._public, keyid=self.kid)

    def verify(self, signature: bytes, data: bytes) -> None:
        """Raise SignatureError unless `signature` (ECDSA with SHA-256, DER) is this key's of it."""
        try:
            self._public.verify(signature, data, ECDSA(SHA256()))
        except InvalidSignature as error:
            raise SignatureError(f"expected a signature by {self.kid}, got another") from error

    @property
    def _public(self) -> EllipticCurvePublicKey:
        try:
            key = load_der_public_key(self.der)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise MalformedError("expected a public key in DER, got other bytes") from error
        if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
            raise MalformedError("expected a P-256 key, got one of another kind")
        return key


class Signature(Protocol):
    """A signature in hex digits, and the id of its key."""

    keyid: str
    signature: str


class Signer(Protocol):
    """What signs statements: `KeySigner`, or that of a KMS by securesystemslib."""

    def sign(self, payload: bytes) -> Signature:
        """Return the signature of these bytes."""


@dataclass(slots=True)
class KeySignature:
    """A signature by a key that is here."""

    keyid: str
    signature: str


@dataclass(frozen=True, slots=True)
class KeySigner:
    """Signs with a key that is here."""

    private: EllipticCurvePrivateKey

    def sign(self, payload: bytes) -> KeySignature:
        """Return the signature of these bytes, by ECDSA with SHA-256."""
        signature = self.private.sign(payload, ECDSA(SHA256()))
        return KeySignature(IssuerKey.of(self.private.public_key()).kid, signature.hex())


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

    The signer's key has the id of `IssuerKey`, which the bundle names.
    """
    made = signer.sign(dsse_encoding(PAYLOAD_TYPE, payload))
    return _encode(payload, bytes.fromhex(made.signature), made.keyid)


def dsse_encoding(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed of a payload: DSSE v1's PAE."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


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
        payload, signature, kid = _decode(data)
        trusted = {key.kid: key for key in keys}
        if kid not in trusted:
            raise SignatureError(f"expected a signature by a trusted key, got one by {kid!r:.80}")
        trusted[kid].verify(signature, dsse_encoding(PAYLOAD_TYPE, payload))
        try:
            document = parse_object(payload)
        except ParseError as error:
            raise MalformedError(f"expected a statement in strict JSON: {error}") from error
        if canonical_line(document) != payload + b"\n":
            raise MalformedError("expected a statement in canonical JSON, got another spelling")
        return cls(payload, document, kid)

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
    return _decode(data)[2]


def _encode(payload: bytes, signature: bytes, kid: str) -> bytes:
    return canonical_line(
        {
            "mediaType": BUNDLE_TYPE,
            "verificationMaterial": {"publicKey": {"hint": kid}},
            "dsseEnvelope": {
                "payload": encode_base64(payload),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"keyid": kid, "sig": encode_base64(signature)}],
            },
        }
    )


def _decode(data: bytes) -> tuple[bytes, bytes, str]:
    """Return payload, signature and key id of a bundle of one signature, and nothing else."""
    try:
        document: Any = parse_object(data, max_bytes=MAX_BUNDLE_BYTES)
        (stated,) = document["dsseEnvelope"]["signatures"]
        payload, kid = decode_base64(document["dsseEnvelope"]["payload"]), stated["keyid"]
        signature = decode_base64(stated["sig"])
    except (ParseError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedError(
            "expected a Sigstore bundle with one signature, got another"
        ) from error
    if not isinstance(kid, str) or _encode(payload, signature, kid) != data:
        raise MalformedError("expected a Sigstore bundle of these members, got others")
    return payload, signature, kid
