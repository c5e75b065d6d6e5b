"""Notes, keys and cosignatures are those of the specifications' examples, and nothing else is."""

import pytest

from tests.theatre.transparency.log_stage import signer
from theatre.transparency.errors import MalformedError, SignatureError
from theatre.transparency.merkle import EMPTY_ROOT
from theatre.transparency.notes import (
    Checkpoint,
    KeyKind,
    Note,
    SignatureLine,
    SignedCheckpoint,
    VerifierKey,
    cosign_text,
    decode_base64,
    sign_text,
)

# The example of C2SP signed-note.
KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""  # noqa: E501 - a line of a note is not broken
# The example of C2SP tlog-cosignature; its keys are not published.
COSIGNED = """example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
"""  # noqa: E501 - a line of a note is not broken
LOG = signer("log.example/1")
WITNESS = signer("witness.example", KeyKind.WITNESS, seed=2)
TEXT = str(Checkpoint("log.example/1", 0, EMPTY_ROOT))


def signed(*lines: SignatureLine, text: str = TEXT) -> bytes:
    """Return a note with these signatures."""
    return bytes(Note(text, lines))


def test_the_example_of_the_specification_verifies() -> None:
    key, note = VerifierKey.parse(KEY), Note.parse(NOTE.encode())
    assert (str(key), bytes(note), note.signed_by([key])) == (KEY, NOTE.encode(), {key: None})


def test_the_example_of_a_cosigned_checkpoint_reads_back() -> None:
    note = Note.parse(COSIGNED.encode())
    checkpoint = Checkpoint.parse(note.text)
    assert (bytes(note), str(checkpoint)) == (COSIGNED.encode(), note.text)
    assert (checkpoint.origin, checkpoint.size) == ("example.com/behind-the-sofa", 20852163)
    names = [line.name for line in note.signatures]
    assert names == ["example.com/behind-the-sofa", "witness.example.com/w1"]


def test_a_text_may_have_empty_lines() -> None:
    text = "Ognuno sta solo\n\ned è subito sera.\n"
    note = Note.parse(signed(sign_text(text, LOG.key, LOG.sign), text=text))
    assert (note.text, note.signed_by([LOG.key])) == (text, {LOG.key: None})


def test_a_checkpoint_tells_who_cosigned_it_and_when() -> None:
    data = signed(
        sign_text(TEXT, LOG.key, LOG.sign), cosign_text(TEXT, WITNESS.key, WITNESS.sign, at=1_700)
    )
    read = SignedCheckpoint.verify(data, [LOG.key], [WITNESS.key])
    assert read.checkpoint == Checkpoint("log.example/1", 0, EMPTY_ROOT)
    assert read.cosigned == {WITNESS.key: 1_700}


def test_lines_of_unknown_keys_are_ignored() -> None:
    stranger = signer("stranger.example", seed=9)
    data = signed(sign_text(TEXT, stranger.key, stranger.sign), sign_text(TEXT, LOG.key, LOG.sign))
    assert SignedCheckpoint.verify(data, [LOG.key]).cosigned == {}
    with pytest.raises(SignatureError, match="expected a checkpoint of a trusted log"):
        SignedCheckpoint.verify(signed(sign_text(TEXT, stranger.key, stranger.sign)), [LOG.key])


def test_a_log_signs_under_its_own_name_only() -> None:
    other = str(Checkpoint("other.example", 0, EMPTY_ROOT))
    with pytest.raises(SignatureError, match=r"got one of 'other\.example'"):
        SignedCheckpoint.verify(signed(sign_text(other, LOG.key, LOG.sign), text=other), [LOG.key])


def test_a_witness_cannot_sign_for_a_log() -> None:
    same_name = signer("log.example/1", KeyKind.WITNESS)
    data = signed(cosign_text(TEXT, same_name.key, same_name.sign, at=1))
    with pytest.raises(SignatureError, match="expected a checkpoint of a trusted log"):
        SignedCheckpoint.verify(data, [same_name.key])


def test_a_wrong_line_of_a_known_key_refuses_the_note() -> None:
    good = sign_text(TEXT, LOG.key, LOG.sign)
    late = cosign_text(TEXT, WITNESS.key, WITNESS.sign, at=5)
    backdated = late._replace(signature=(4).to_bytes(8, "big") + late.signature[8:])
    for line in (good._replace(signature=bytes(64)), backdated, late._replace(signature=b"short")):
        with pytest.raises(SignatureError):
            SignedCheckpoint.verify(signed(good, line), [LOG.key], [WITNESS.key])


@pytest.mark.parametrize(
    "text",
    [
        "log.example/1\n0\n",
        f"log.example/1\n00\n{TEXT.splitlines()[2]}\n",
        f"log.example/1\n-1\n{TEXT.splitlines()[2]}\n",
        f"log.example/1\n9223372036854775808\n{TEXT.splitlines()[2]}\n",
        "log.example/1\n0\nAAAA\n",
        f"\n0\n{TEXT.splitlines()[2]}\n",
        TEXT + "an extension\n",
    ],
)
def test_another_text_is_no_checkpoint(text: str) -> None:
    with pytest.raises(MalformedError):
        Checkpoint.parse(text)


@pytest.mark.parametrize(
    "data",
    [
        b"no signatures\n",
        b"\xff\n\n\xe2\x80\x94 a AAAAAAA=\n",
        NOTE.encode().replace("—".encode(), b"-"),
        NOTE.encode()[:-1],
        NOTE.encode().replace(b"example message", b"example\tmessage"),
        b"x" * 70_000 + NOTE.encode(),
        NOTE.encode().replace(b"example.com/foo U", b"example.com/foo  U"),
    ],
)
def test_another_form_is_no_note(data: bytes) -> None:
    with pytest.raises(MalformedError):
        Note.parse(data)


@pytest.mark.parametrize("text", ["AAA", "AA==\n", "AB==", "A A=", "-_==", "é"])
def test_base64_has_one_spelling(text: str) -> None:
    with pytest.raises(MalformedError):
        decode_base64(text)


@pytest.mark.parametrize(
    "text", [KEY.replace("530d903a", "530d903b"), KEY[:-4], "name", "a b+00000000+AAAA"]
)
def test_another_form_is_no_key(text: str) -> None:
    with pytest.raises(MalformedError):
        VerifierKey.parse(text)
