"""The built wheel works away from the checkout: empty environment, empty folder."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

import pytest

from tests.backend.embedded_home import EmbeddedHome
from tests.backend.serving import Client
from tests.theatre.echelon_process import until

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGED = (
    *("theatre", "backend", "docs", "fixtures", "migrations"),
    *("pyproject.toml", "README.md", "LICENSE"),
)
TEMPLATE = "fixtures/templates/product_cartograph_v1.json"
LISTENING = re.compile(r"running on http://127\.0\.0\.1:(\d+)")
PATIENCE_SECONDS = 300
SOAK = os.environ.get("ECHELON_SOAK") == "1"


def succeeds(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    ended = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        encoding="utf-8",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, in which caches lie about as they do where people work."""
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGED:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, source / name)
        else:
            shutil.copy(REPOSITORY / name, source / name)
    for folder in ("theatre", "fixtures/constructs/cartograph", "docs/schemas"):
        (source / folder / "__pycache__").mkdir(exist_ok=True)
        (source / folder / "__pycache__" / "stale.cpython-311.pyc").write_bytes(b"stale")
    return source


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", target)
    succeeds(*pip, "wheel", *options, source, cwd=target)
    (built,) = target.iterdir()
    return built


def files_below(source: Path, folder: str) -> set[str]:
    return {
        path.relative_to(source).as_posix()
        for path in (source / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_package_schemas_and_fixtures_once_and_no_caches(
    source: Path, wheel: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []
    folders = ("docs/schemas", "fixtures", "migrations")
    resources = {name for folder in folders for name in files_below(source, folder)}
    modules = files_below(source, "theatre") | files_below(source, "backend")
    packaged = {name for name in names if ".dist-info/" not in name}
    assert packaged == modules | {f"theatre/_resources/{name}" for name in resources}


def locked_packages() -> set[Path]:
    """Return what the locked packages have in the environment of the tests, and nothing else."""
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
    # A package may be locked more than once, each time for other Pythons or systems.
    locked = re.findall(r"^([\w.-]+)==([^\s;]+)", lock, flags=re.MULTILINE)
    found: set[Path] = set()
    for name in {name for name, _ in locked}:
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        assert (name, package.version) in locked
        parts = {path.parts[0] for path in package.files or ()} - {"..", "__pycache__"}
        found |= {Path(str(package.locate_file(part))) for part in parts}
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an empty environment with the locked packages and the wheel.

    With ECHELON_SOAK they come from the index, as `make` installs them, else by links.
    """
    environment = tmp_path_factory.mktemp("empty environment") / "venv"
    succeeds(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment.parent)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    if SOAK:
        locked = ("--require-hashes", "--requirement", REPOSITORY / "requirements.lock")
        succeeds(*pip, "install", "--quiet", "--no-compile", *locked, cwd=environment)
    else:
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(succeeds(python, "-c", where, cwd=environment).strip())
        for path in locked_packages():
            (packages / path.name).symlink_to(path)
    succeeds(*pip, "install", "--quiet", "--no-deps", wheel, cwd=environment)
    return environment / "bin"


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """An environment that knows nothing of the checkout."""
    hidden = ("ECHELON_", "PYTHON", "COVERAGE", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "HOME": str(tmp_path)}


@contextlib.contextmanager
def served(command: Path, home: Path, env: Mapping[str, str]) -> Iterator[Client]:
    """Run a wheel's `echelon serve` with its embedded database; it has to end well."""
    log = home.with_name("serve.log")
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [command, "serve", "--port", "0", "--until-stdin-ends"],
            cwd=home.parent,
            env=env,
            stdin=subprocess.PIPE,
            stderr=written,
        ) as process,
    ):
        try:
            yield Client(int(until(lambda: LISTENING.search(log.read_text()), "the service")[1]))
        finally:
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(PATIENCE_SECONDS) == 0
            EmbeddedHome(home).end()


def test_the_installed_wheel_serves_and_certifies_in_an_empty_folder(
    installed: Path, outside: dict[str, str], tmp_path: Path
) -> None:
    where = "import theatre.engine.schema_registry as s; print(s.resource_root())"
    resources = Path(succeeds(installed / "python", "-c", where, cwd=tmp_path, env=outside).strip())
    assert resources.is_relative_to(installed.parent)

    template = resources / TEMPLATE
    command = (installed / "echelon", "theatre", "validate", template, "--json")
    validation = json.loads(succeeds(*command, cwd=tmp_path, env=outside))
    evidence = validation.pop("evidence")
    assert validation == {"valid": True, "errors": [], "warnings": []}
    assert (evidence["findings"], evidence["caps"]) == (["near-duplicates"], [])

    with served(installed / "echelon", tmp_path / ".echelon", outside) as anybody:
        ada = anybody.registered("ada")
        document = {"template_json": json.loads(template.read_bytes())}
        made = ada.post("/api/v1/theatres", document).document
        path = f"/api/v1/theatres/{made['id']}"
        committed = ada.post(f"{path}/commit", {}).document
        over = ada.post(f"{path}/run", {}, headers={"Prefer": "wait=60"}).document
        archive = anybody.get(f"{path}/evidence-bundle").body
    commitment = REPOSITORY / "fixtures/templates/product_cartograph_v1.commitment.txt"
    assert committed["commitment_hash"] == commitment.read_text(encoding="utf-8").strip()
    assert (over["state"], over["outcome"]) == ("ARCHIVED", "certified")

    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(tmp_path / "downloaded")  # noqa: S202 - of the service started above
    (bundle,) = (tmp_path / "downloaded").iterdir()
    isolation = json.loads((bundle / "certificate.json").read_bytes())["isolation"]
    # The package's own ground truth lies in the prefix of the interpreter that a construct runs.
    assert (isolation["files"], isolation["processes"]) == (True, True)
    checked = succeeds(installed / "echelon", "check", bundle, cwd=tmp_path, env=outside)
    assert checked.endswith("consistent (no one vouches for it): 31 checks\n")
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {".echelon", "downloaded", "serve.log"}


@pytest.mark.skipif(not SOAK, reason="a second whole demo: ECHELON_SOAK=1")
def test_the_installed_wheel_demonstrates_in_an_empty_folder(
    installed: Path, outside: dict[str, str], tmp_path: Path
) -> None:
    try:
        command = (installed / "echelon", "demo", "--json")
        demo = json.loads(succeeds(*command, cwd=tmp_path, env=outside))
    finally:
        EmbeddedHome(tmp_path / ".echelon" / "demo").end()
    assert (demo["easel"]["check"]["valid"], demo["forgery"]["valid"]) == (True, False)
    assert [path.name for path in tmp_path.iterdir()] == [".echelon"]
