"""The file of the keys that sign tokens: made once, its owner's alone, refused without a quote."""

import json
from pathlib import Path

import pytest

from backend.auth.signing_keys import KeyFile, make_key_file, new_key
from backend.errors import SigningKeysError


def test_a_key_file_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "tokens.json"
    make_key_file(file)
    made = file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    make_key_file(file)
    assert file.read_bytes() == made
    assert list(file.parent.iterdir()) == [file]
    assert KeyFile(file).current().signing_id == json.loads(made)["keys"][0]["kid"]


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    make_key_file(file)
    file.chmod(0o640)
    with pytest.raises(SigningKeysError, match="got mode 640: chmod 600"):
        KeyFile(file)


PUBLIC_ONLY = {name: value for name, value in new_key().items() if name != "d"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": {}}',
        '{"keys": ["secret"]}',
        json.dumps({"keys": [PUBLIC_ONLY]}),
        json.dumps({"keys": [{**new_key(), "kid": ""}]}),
        json.dumps({"keys": [{**new_key(), "kid": "k"}, {**new_key(), "kid": "k"}]}),
        json.dumps({"keys": [{**new_key(), "crv": "P-384"}]}),
        json.dumps({"keys": [{"kty": "oct", "kid": "k", "k": "c2VjcmV0"}]}),
    ],
)
def test_a_file_that_holds_no_key_set_is_refused_without_being_quoted(
    tmp_path: Path, content: str
) -> None:
    file = tmp_path / "tokens.json"
    file.touch(mode=0o600)
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SigningKeysError, match=r"^expected a JSON Web Key Set") as caught:
        KeyFile(file)
    assert "secret" not in str(caught.value)
    assert not any(key in str(caught.value) for key in ('"d"', "c2VjcmV0"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SigningKeysError, match="No such file"):
        KeyFile(tmp_path / "tokens.json")
