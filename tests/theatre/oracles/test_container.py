"""Images that podman runs: what a container is asked, what it can do, and how it ends.

They need podman and the right to run a container: elsewhere each is skipped, with podman's own
words. `.ci/container` installs it. The image is this machine's shell and `sleep` with their
libraries, imported from a tar: no registry is asked.
"""

import asyncio
import ctypes
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.theatre.echelon_process import echelon
from tests.theatre.oracles.test_plain_call import AROUND
from theatre.engine.canonical_json import JsonObject
from theatre.engine.oracle_contract import Attempt, OracleInvocationRequest
from theatre.oracles.construct_registry import RemoteConstruct
from theatre.oracles.endpoints import Endpoint
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.plain_adapters import make_plain_adapter
from theatre.oracles.process_tree import _PR_SET_CHILD_SUBREAPER as PR_SET_CHILD_SUBREAPER

RequestFor = Callable[..., OracleInvocationRequest]
Asked = Callable[..., Attempt]
SHELL, SLEEP = "/bin/sh", "/bin/sleep"
NAME = "localhost/echelon-test"
TWICE = "read number; echo $((2 * number))"

PODMAN = str(shutil.which("podman"))

pytestmark = pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed")


def podman(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PODMAN, *words], capture_output=True, encoding="utf-8", check=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give podman a store and settings of its own.

    Where the tests are themselves in a container or a small machine, overlays and limits above the
    caller's are not to be had, and crun refuses a mixture of both versions of cgroups.
    """
    folder = tmp_path_factory.mktemp("podman")
    limits = 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]'
    runtime = "runc" if shutil.which("runc") else "crun"
    settings = {
        "CONTAINERS_STORAGE_CONF": "[storage]\n"
        f'driver = "vfs"\nrunroot = "{folder}/run"\ngraphroot = "{folder}/graph"\n',
        "CONTAINERS_CONF": f'[containers]\n{limits}\n[engine]\nruntime = "{runtime}"\n',
    }
    # Another test may have made this process adopt what others leave, as podman leaves its monitor.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    with pytest.MonkeyPatch.context() as patch:
        for name, text in settings.items():
            (folder / name).write_text(text, encoding="utf-8")
            patch.setenv(name, str(folder / name))
        yield


@pytest.fixture(scope="module")
def image(store: None, tmp_path_factory: pytest.TempPathFactory) -> str:  # noqa: ARG001 - where it lies
    """Import the image; return it by its digest."""
    packed = tmp_path_factory.mktemp("image") / "image.tar"
    with tarfile.open(packed, "w") as archive:
        for path in (SHELL, SLEEP, *sorted(libraries_of(SHELL) | libraries_of(SLEEP))):
            archive.add(Path(path).resolve(), path)
        everyones = tarfile.TarInfo("everyones")
        everyones.type, everyones.mode = tarfile.DIRTYPE, 0o777
        archive.addfile(everyones)
    imported = podman("import", packed, f"{NAME}:1")
    assert imported.returncode == 0, imported.stderr
    plain = podman("run", "--rm", "--network", "none", f"{NAME}:1", SHELL, "-c", "exit 0")
    if plain.returncode != 0:
        pytest.skip(f"podman runs nothing here: {plain.stderr.strip()[-200:]}")
    return f"{NAME}@{json.loads(podman('image', 'inspect', f'{NAME}:1').stdout)[0]['Digest']}"


def libraries_of(program: str) -> set[str]:
    """Return the files that the loader takes for a program, by `ldd`."""
    listed = subprocess.check_output(["ldd", program], encoding="utf-8")
    return set(re.findall(r"(/\S+) \(0x", listed))


@pytest.fixture
def asked(image: str, request_for: RequestFor) -> Asked:
    """Have the shell of the image run a script; return what the call comes to."""

    def ask(script: str, *, seconds: float = 60, **settings: Any) -> Attempt:  # noqa: ANN401
        words: JsonObject = {"argv": [SHELL, "-c", script], "prompt": "{{/number}}", **settings}
        place = Endpoint(
            construct_id="doubler", adapter_type="container", place=image, settings=words
        )

        async def session() -> Attempt:
            construct = RemoteConstruct(construct_id="doubler", url=image)
            adapter = make_plain_adapter(place, construct, AROUND)
            await adapter.check_reachable()
            try:
                return await adapter.invoke(
                    request_for(
                        input_data={"number": 21},
                        version=adapter.computed_version,
                        timeout_seconds=seconds,
                    )
                )
            finally:
                await adapter.aclose()

        return asyncio.run(session())

    return ask


@pytest.mark.parametrize(
    ("way", "script"),
    [
        ("stdin", TWICE),
        ("argument", "number={input}; echo $((2 * number))"),
        ("file", f"{{ {TWICE}; }} < {{input}}"),
    ],
)
def test_an_image_answers_what_it_is_asked(asked: Asked, way: str, script: str) -> None:
    attempt = asked(script, input=way)
    assert (attempt.response.status.value, attempt.response.output_data) == (
        "success",
        {"answer": "42"},
    ), attempt


def test_a_container_reaches_no_network_writes_to_tmp_alone_and_has_no_rights(asked: Asked) -> None:
    script = """
        while read -r name rest; do case $name in *:) echo $name; esac; done < /proc/net/dev
        (echo x > /everyones/file) 2> /dev/null || echo "image is closed"
        echo x > /tmp/written && echo "tmp is open"
        while read -r name value; do
            case $name in CapEff:|NoNewPrivs:) echo $name $value; esac
        done < /proc/self/status
    """
    said = asked(script).response.output_data
    assert said is not None
    assert str(said["answer"]).splitlines() == [
        *("lo:", "image is closed", "tmp is open", "CapEff: 0000000000000000", "NoNewPrivs: 1")
    ]


def test_another_exit_code_and_a_program_that_is_not_in_the_image_are_errors_of_the_call(
    asked: Asked,
) -> None:
    # It reads its input first: podman may drop what a program says that leaves it unread.
    failed = asked("while read -r line; do :; done; echo cannot >&2; exit 3")
    assert (failed.reason, failed.response.error_detail) == (
        "exit-code",
        "expected exit code 0, got: exit code 3; stderr: cannot",
    )
    absent = asked("", argv=["/bin/absent"])
    assert absent.reason == "exit-code"
    assert "/bin/absent" in str(absent.response.error_detail)


def test_output_without_end_is_cut_and_its_container_ends(asked: Asked) -> None:
    attempt = asked("while :; do echo 0123456789012345678901234567890123456789; done")
    assert attempt.reason == "too-large"
    assert containers() == []


def test_a_container_that_takes_too_long_is_removed(asked: Asked) -> None:
    attempt = asked("sleep 600", seconds=2)
    assert attempt.response.status.value == "timeout"
    assert containers() == []


def containers() -> list[str]:
    """Return the names of all containers in the store, running or not."""
    return podman("ps", "--all", "--format", "{{.Names}}").stdout.split()


def test_an_image_that_is_not_here_is_named(image: str) -> None:
    absent = f"{image.partition('@')[0]}@sha256:{'0' * 64}"
    place = Endpoint(construct_id="doubler", adapter_type="container", place=absent, settings={})
    construct = RemoteConstruct(construct_id="doubler", url=absent)
    adapter = make_plain_adapter(place, construct, AROUND)
    with pytest.raises(ConstructUnreachableError, match=r"expected the image .* pull "):
        asyncio.run(adapter.check_reachable())


def test_an_image_is_certified_from_a_draft_and_its_bundle_checked(
    image: str, tmp_path: Path
) -> None:
    answer: JsonObject = {"from": "json", "field": "result"}
    settings = {"prompt": "{{/number}}", "argv": [SHELL, "-c", TWICE], "answer": answer}
    draft = {
        "construct": {"adapter": "container", "endpoint": image, "settings": settings},
        "data": "numbers.jsonl",
        "answer": "result",
    }
    (tmp_path / "echelon.yaml").write_text(json.dumps(draft), encoding="utf-8")
    rows = (
        {
            "episode_id": f"e{number}",
            "input_data": {"number": number},
            "expected_output": {"result": 2 * number},
        }
        for number in range(2)
    )
    (tmp_path / "numbers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    more = {name: os.environ[name] for name in os.environ if name.startswith("CONTAINERS_")}
    home = tmp_path / "home"
    ran = echelon("run", "echelon.yaml", "--json", home=home, cwd=tmp_path, more=more)
    assert ran.code == 0, ran.stdout
    run = ran.document
    assert (run["outcome"], run["scores"], run["verification_tier"]) == (
        *("certified", {"right_result": 1}, "UNVERIFIED"),
    )
    assert "version-declared" in run["findings"]
    assert "network-open" not in run["findings"]
    certificate = json.loads((Path(run["bundle_path"]) / "certificate.json").read_text())
    closed = {"files": False, "processes": False, "network": True, "by": "none"}
    assert certificate["isolation"] == closed
    assert containers() == []
    checked = echelon("check", run["bundle_path"], "--json", home=home)
    assert checked.document["verdict"] == "valid, logged"
