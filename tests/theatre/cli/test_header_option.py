"""`--header`: where the value of a request header comes from, where it goes, and where not."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.theatre.cli.doubler import EPISODES, write_module, write_theatre
from tests.theatre.echelon_process import Answer
from tests.theatre.forked_echelon import forked
from tests.theatre.oracles.loopback import Received, envelope, response, serving

TOKEN = "tok-5d5b/8f2f7a11"  # noqa: S105 - the secret of this test
OPTION = ("--header", "Authorization=DOUBLER_TOKEN")
NO_URL = "https://construct.example/"


def run(template: Path, *options: str, json_output: bool = True, token: str = TOKEN) -> Answer:
    more = {"DOUBLER_TOKEN": f"Bearer {token}", "ECHELON_OUTBOUND_ALLOW": "127.0.0.1"}
    output = ["--json"] if json_output else []
    home = template.parent / "home"
    return forked("theatre", "run", template, *output, *options, home=home, more=more)


def holds_token(folder: Path) -> list[Path]:
    """Return the files below `folder` in which the token stands, in any spelling of JSON."""
    spellings = [TOKEN, TOKEN.replace("/", "\\/"), escaped(TOKEN)]
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(text.encode() in path.read_bytes() for text in spellings)
    ]


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


async def echo_the_token(request: Received, writer: asyncio.StreamWriter) -> None:
    """Give the token away, each time in another place."""
    value = request.headers["authorization"]
    number = request.envelope["input_data"]["number"]
    honest = envelope(request, output_data={"result": 2 * number})
    told = envelope(request, output_data={"result": 2 * number, "you": "@"})
    leaks = {
        1: response(told.replace(b"@", value.encode())),
        2: response(told.replace(b"@", value.replace("/", "\\/").encode())),
        3: response(told.replace(b"@", escaped(value).encode())),
        4: response(f"<h1>{value}</h1>".encode(), status="500 Oops"),
        5: response(b"", status="302 Found", headers=f"Location: /{value}\r\n"),
        6: response(envelope(request, status="refused", error_detail=f"not for {value}")),
        7: response(envelope(request, construct_version=TOKEN)),
    }
    writer.write(leaks.get(number, response(honest)))


@pytest.mark.parametrize("json_output", [True, False])
def test_a_value_reaches_the_construct_and_nothing_else(tmp_path: Path, json_output: bool) -> None:  # noqa: FBT001 - a parameter
    with serving(echo_the_token) as server:
        policy = {"on_threshold": "continue"}
        template = write_theatre(tmp_path, adapter_type="http", endpoint=server.url, policy=policy)
        answer = run(template, *OPTION, json_output=json_output)
        sent = [received.headers["authorization"] for received in server.received]
    assert answer.code == 0, answer.stdout + answer.stderr
    assert sent == [f"Bearer {TOKEN}"] * EPISODES
    assert holds_token(tmp_path) == []
    assert TOKEN not in answer.stdout + answer.stderr
    (bundle,) = tmp_path.glob("home/theatres/*/evidence_bundle_*")
    records = [json.loads(path.read_bytes()) for path in sorted(bundle.glob("invocations/*"))]
    reasons = [record["calls"][0]["attempts"][0]["reason"] for record in records]
    echoed = "credential-echoed"
    assert reasons == [echoed] * 3 + ["http-status", "redirect", echoed, echoed, None]


def test_the_search_for_the_token_finds_it(tmp_path: Path) -> None:
    spellings = {"plain": TOKEN, "slash": TOKEN.replace("/", "\\/"), "escaped": escaped(TOKEN)}
    for name, text in spellings.items():
        (tmp_path / name).write_text(f"... {text} ...")
    assert {path.name for path in holds_token(tmp_path)} == set(spellings)


MISTAKEN = {
    "a value instead of a variable": (f"Authorization=Bearer {TOKEN}", 2, "usage"),
    "as another program has it": (f"Authorization: Bearer {TOKEN}=", 2, "usage"),
    "no variable": ("Authorization=", 2, "usage"),
    "no name": ("=DOUBLER_TOKEN", 2, "usage"),
    "variable not set": ("Authorization=NO_SUCH_VARIABLE", 5, "request-headers-invalid"),
    "header of ours": ("Host=DOUBLER_TOKEN", 5, "request-headers-invalid"),
}


@pytest.mark.parametrize("case", MISTAKEN)
def test_a_mistaken_header_is_refused_without_its_value(case: str, tmp_path: Path) -> None:
    word, code, error_code = MISTAKEN[case]
    template = write_theatre(tmp_path, adapter_type="http", endpoint=NO_URL)
    answer = run(template, "--header", word)
    assert (answer.code, answer.document["error"]["code"]) == (code, error_code)
    assert TOKEN not in answer.stdout + answer.stderr


def test_an_unset_variable_is_named_with_its_header(tmp_path: Path) -> None:
    template = write_theatre(tmp_path, adapter_type="http", endpoint=NO_URL)
    answer = run(template, "--header", "X-Key=NO_SUCH_VARIABLE")
    assert answer.document["error"]["message"] == (
        "expected the value of header X-Key in the environment variable NO_SUCH_VARIABLE, "
        "got none: set it"
    )


def test_a_value_that_cannot_be_sent_is_not_repeated(tmp_path: Path) -> None:
    template = write_theatre(tmp_path, adapter_type="http", endpoint=NO_URL)
    answer = run(template, *OPTION, token=f"{TOKEN}\nX-Other: y")
    assert answer.document["error"] == {
        "code": "request-headers-invalid",
        "message": "expected the value of header Authorization as printable ASCII without spaces "
        "around it",
    }


@pytest.mark.parametrize("words", [("X-Key=A", "X-Key=B"), ("X-Key=HOME", "x-key=PATH")])
def test_a_header_given_twice_is_refused(words: tuple[str, str], tmp_path: Path) -> None:
    template = write_theatre(tmp_path, adapter_type="http", endpoint=NO_URL)
    answer = run(template, "--header", words[0], "--header", words[1])
    assert answer.code in {2, 5}
    assert "expected each header once, got " in answer.document["error"]["message"]


def test_headers_that_no_construct_would_get_are_refused(tmp_path: Path) -> None:
    version = write_module(tmp_path)
    template = write_theatre(
        tmp_path, adapter_type="python", endpoint="doubling:double", version=version
    )
    answer = run(template, *OPTION)
    assert (answer.code, answer.document["error"]) == (
        5,
        {
            "code": "request-headers-invalid",
            "message": "expected a URL in the template to send Authorization to, got none: "
            "a registered construct has its headers_env",
        },
    )
