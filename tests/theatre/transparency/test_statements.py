"""A signed certificate verifies with our code and others', and no byte of it can be changed."""

import base64
import json
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner

from theatre.engine.canonical_json import JsonObject, canonical_line
from theatre.transparency.errors import MalformedError, SignatureError
from theatre.transparency.statements import (
    IssuerKey,
    SignedStatement,
    certificate_statement,
    sign_statement,
    tier_property,
)

CERTIFICATE: JsonObject = {"evidence_bundle_hash": "ab" * 32, "tier": "BACKTESTED", "scores": [0.5]}
PRIVATE = ec.derive_private_key(19, ec.SECP256R1())
KEY = IssuerKey.of(PRIVATE.public_key())
SIGNER = CryptoSigner(PRIVATE, KEY.verifier)
BUNDLE = sign_statement(certificate_statement(CERTIFICATE, None), SIGNER)


def test_a_signed_certificate_reads_back() -> None:
    signed = SignedStatement.verify(BUNDLE, [KEY])
    assert (signed.certificate(), signed.kid) == (CERTIFICATE, KEY.kid)


def test_no_byte_can_be_changed() -> None:
    accepted = []
    for place, byte in enumerate(BUNDLE):
        for changed in {byte ^ 1, byte ^ 0x20, ord("A"), ord(" ")} - {byte}:
            mutant = BUNDLE[:place] + bytes([changed]) + BUNDLE[place + 1 :]
            try:
                SignedStatement.verify(mutant, [KEY]).certificate()
            except (MalformedError, SignatureError):
                continue
            accepted.append((place, changed))
    assert accepted == []


def test_a_key_that_is_not_trusted_is_refused() -> None:
    other = IssuerKey.of(ec.derive_private_key(20, ec.SECP256R1()).public_key())
    with pytest.raises(SignatureError, match="expected a signature by a trusted key"):
        SignedStatement.verify(BUNDLE, [other])


def test_another_key_under_a_trusted_id_is_refused() -> None:
    private = ec.derive_private_key(20, ec.SECP256R1())
    other = IssuerKey.of(private.public_key())
    forged = sign_statement(
        certificate_statement(CERTIFICATE, None), CryptoSigner(private, other.verifier)
    )
    bundle = forged.replace(other.kid.encode(), KEY.kid.encode())
    with pytest.raises(SignatureError, match="got another"):
        SignedStatement.verify(bundle, [KEY])


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["dsseEnvelope"]["signatures"].append(
            document["dsseEnvelope"]["signatures"][0]
        ),
        lambda document: document["dsseEnvelope"]["signatures"].clear(),
        lambda document: document["dsseEnvelope"].update(payloadType="text/plain"),
        lambda document: document.update(more=1),
        lambda document: document.pop("verificationMaterial"),
        lambda document: document.update(dsseEnvelope=[]),
    ],
)
def test_another_bundle_is_refused(change: object) -> None:
    document = json.loads(BUNDLE)
    assert callable(change)
    change(document)
    with pytest.raises(MalformedError, match="expected a Sigstore bundle"):
        SignedStatement.verify(canonical_line(document), [KEY])


@pytest.mark.parametrize(
    "payload",
    [
        b'{"_type":"https://in-toto.io/Statement/v1"}',
        certificate_statement(CERTIFICATE, None).replace(b"SHA256SUMS", b"SHA256SUMZ"),
        certificate_statement(CERTIFICATE, None).replace(b"certificate:v1", b"certificate:v2"),
        certificate_statement(CERTIFICATE, None).replace(b'"sha256":"ab', b'"sha256":"cd'),
    ],
)
def test_a_signed_statement_about_something_else_is_no_certificate(payload: bytes) -> None:
    signed = SignedStatement.verify(sign_statement(payload, SIGNER), [KEY])
    with pytest.raises(MalformedError, match="certificate"):
        signed.certificate()


@pytest.mark.parametrize("payload", [b"not json", b'{"b":1, "a":2}', b'{"a":1,"a":2}'])
def test_a_statement_has_one_spelling(payload: bytes) -> None:
    with pytest.raises(MalformedError, match="expected a statement in"):
        SignedStatement.verify(sign_statement(payload, SIGNER), [KEY])


def test_only_p256_keys_are_issuers() -> None:
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    der = other.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for data in (
        der,
        b"no key",
        ec.generate_private_key(ec.SECP384R1())
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ):
        with pytest.raises(MalformedError, match="expected a"):
            IssuerKey(data)


@pytest.mark.parametrize(
    ("tier", "expires_at", "stated"),
    [
        ("UNVERIFIED", None, None),
        ("BACKTESTED", "2027-02-21T12:00:00.000000Z", "ECHELON_TIER_BACKTESTED_90"),
        ("BACKTESTED", "2027-02-21T11:59:59.000000Z", "ECHELON_TIER_BACKTESTED_89"),
        ("BACKTESTED", "2026-11-24T12:00:00.000000Z", "ECHELON_TIER_BACKTESTED_1"),
        ("BACKTESTED", "2026-11-24T11:59:59.000000Z", None),
        ("BACKTESTED", "2026-11-22T12:00:00.000000Z", None),
    ],
)
def test_a_tier_is_attested_for_the_whole_days_that_it_has_left(
    tier: str, expires_at: str | None, stated: str | None
) -> None:
    at = datetime(2026, 11, 23, 12, tzinfo=UTC)
    certificate: JsonObject = {"verification_tier": tier, "expires_at": expires_at}
    assert tier_property(certificate, at=at) == stated


def test_the_example_of_the_dsse_specification_verifies_and_another_body_does_not() -> None:
    """Its key and its signature, r and s one behind the other, are those of its protocol.md."""
    x = 46950820868899156662930047687818585632848591499744589407958293238635476079160
    y = 5640078356564379163099075877009565129882514886557779369047442380624545832820
    key = IssuerKey.of(ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key())
    raw = base64.b64decode(
        "A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA=="
    )
    der = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))

    def signed(body: bytes) -> Envelope:
        return Envelope.from_dict(
            {
                "payload": base64.b64encode(body).decode(),
                "payloadType": "http://example.com/HelloWorld",
                "signatures": [{"keyid": key.kid, "sig": base64.b64encode(der).decode()}],
            }
        )

    assert signed(b"hello world").pae() == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert signed(b"hello world").verify([key.verifier], threshold=1).keys() == {key.kid}
    with pytest.raises(VerificationError):
        signed(b"hello worlds").verify([key.verifier], threshold=1)
