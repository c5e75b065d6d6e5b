"""`echelon construct serve` and `echelon construct version`, as real processes."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.theatre.construct_kit.kit_process import (
    VERSION,
    WriteModule,
    answer,
    encoded,
    http_service,
    plain_version,
    question,
    talk,
    version_of,
)
from tests.theatre.echelon_process import ECHELON, REPOSITORY
from tests.theatre.forked_echelon import forked
from theatre.oracles.construct_registry import ConstructRegistry, construct_version
from theatre.oracles.isolation.canary import probe_isolation
from theatre.oracles.isolation.means import REFUSED, Reach

SERVE = (str(ECHELON), "construct", "serve")
SHIPPED = REPOSITORY / "fixtures" / "constructs" / "constructs.toml"

PILOT = """
print("noise: import")

def answer(input_data):
    print("noise: call")
    return {"seen": input_data["seq"]}
"""


def test_it_serves_on_stdin_and_stdout(write_module: WriteModule) -> None:
    said = talk(write_module(PILOT), encoded(question(7)), command=SERVE)
    assert said.answers == [answer(7, output_data={"seen": 7})]
    assert (said.stderr, said.code) == ("noise: import\nnoise: call\n", 0)


def test_it_serves_over_http_under_the_given_id(write_module: WriteModule) -> None:
    folder = write_module(PILOT)
    with http_service(folder, options=["--id", "co-pilot"], command=SERVE) as service:
        asked = encoded(question(7, construct_id="co-pilot"))
        expected = answer(7, construct_id="co-pilot", output_data={"seen": 7})
        assert service.ask(asked).document == expected
        assert service.announcement.startswith(f"construct co-pilot version {VERSION} listens on ")


@pytest.mark.parametrize("transports", [[], ["--stdio", "--port", "0"]])
def test_it_wants_one_transport(tmp_path: Path, transports: list[str]) -> None:
    ended = forked("construct", "serve", "pilot:answer", *transports, home=tmp_path)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr == "error (usage): expected either --stdio or --port\n"


def test_what_cannot_be_served_has_the_exit_code_of_what_is_not_found(tmp_path: Path) -> None:
    where = ("--folder", tmp_path)
    ended = forked("construct", "serve", "--stdio", *where, "pilot:answer", home=tmp_path)
    assert (ended.code, ended.stdout, ended.stderr) == (
        3,
        "",
        f"error (callable-not-found): expected module pilot in {tmp_path}, got none\n",
    )


def test_the_version_of_a_registered_construct_is_its_pin(tmp_path: Path) -> None:
    pin = construct_version(ConstructRegistry.load(SHIPPED).find("cartograph"))
    ended = forked("construct", "version", "cartograph", home=tmp_path)
    assert (ended.code, ended.stdout, ended.stderr) == (0, f"{pin}\n", "")


def test_a_registry_in_the_folder_goes_first(tmp_path: Path) -> None:
    (tmp_path / "main.sh").write_text("true\n")
    (tmp_path / "constructs.toml").write_text(
        '[constructs.cartograph]\nargv = ["sh"]\nfolder = "."\nfiles = ["main.sh"]\n'
    )
    ended = forked("construct", "version", "cartograph", "--folder", tmp_path, home=tmp_path)
    assert ended.stdout == f"{plain_version(['sh'], tmp_path, 'main.sh')}\n"


def test_the_version_of_a_callable_comes_with_the_files_behind_it(
    write_module: WriteModule, tmp_path: Path
) -> None:
    write_module("", "pilot/__init__.py")
    folder = write_module(PILOT, "pilot/main.py")
    ended = forked("construct", "version", "pilot.main:answer", "--json", home=tmp_path, cwd=folder)
    files = ["pilot/__init__.py", "pilot/main.py"]
    assert ended.document == {
        "construct": "pilot.main:answer",
        "construct_version": version_of(folder, *files, target="pilot.main:answer"),
        "folder": str(folder),
        "argv": [
            *("{python}", "-P", "-m", "theatre.construct_kit", "--stdio"),
            *("--folder", "{folder}", "pilot.main:answer"),
        ],
        "files": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files},
    }


@pytest.mark.parametrize(
    ("subject", "exit_code", "error_code"),
    [("absent", 3, "construct-unknown"), ("absent:answer", 5, "construct-files-invalid")],
)
def test_what_has_no_version_is_said(
    tmp_path: Path, subject: str, exit_code: int, error_code: str
) -> None:
    ended = forked("construct", "version", subject, "--json", home=tmp_path, cwd=tmp_path)
    assert (ended.code, ended.document["error"]["code"]) == (exit_code, error_code)
    assert json.loads(ended.stdout).keys() == {"error"}


LISTED = """
[constructs.cartograph]
argv = ["{python}", "{folder}/mine.py"]
folder = "."
files = ["mine.py"]
network = true

[constructs.elsewhere]
url = "https://construct.example/"

[constructs.served]
argv = ["{python}", "{folder}/mine.py"]
folder = "."
files = ["mine.py"]
serves_http = true
"""


def test_the_list_says_what_each_registered_construct_is_kept_from(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    (tmp_path / "constructs.toml").write_text(LISTED)
    asked = ("construct", "list", "--folder", tmp_path)
    listed = forked(*asked, "--json", home=tmp_path / "home").document["constructs"]
    tried = {
        network: probe_isolation([tmp_path], Reach(network=network)).as_document()
        for network in (False, True)
    }
    assert [row["construct"] for row in listed] == sorted(
        {"cartograph", "elsewhere", "served"} | ConstructRegistry.load(SHIPPED).constructs.keys()
    )
    assert {row["construct"]: row for row in listed if row["construct"] in LISTED} == {
        # The one in the folder, not the shipped one.
        "cartograph": {
            "construct": "cartograph",
            "adapter_type": "local",
            "isolation": tried[True],
        },
        "elsewhere": {"construct": "elsewhere", "adapter_type": "http", "isolation": None},
        "served": {"construct": "served", "adapter_type": "http", "isolation": tried[False]},
    }


def test_the_list_says_what_is_open_where_nothing_isolates(tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    (tmp_path / "constructs.toml").write_text(LISTED)
    refused = {REFUSED: "namespaces,landlock,other-user"}
    listed = forked("construct", "list", "--folder", tmp_path, home=tmp_path, more=refused).stdout
    nothing = "files OPEN, processes OPEN, network OPEN (none)"
    elsewhere = "a service elsewhere: judged by the address that answers"
    assert [line for line in listed.splitlines() if line.split()[0] in LISTED] == [
        f"cartograph                      local  {nothing}",
        f"elsewhere                       http   {elsewhere}",
        f"served                          http   {nothing}",
    ]
