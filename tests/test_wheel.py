"""The built wheel works away from the checkout: empty environment, empty folder."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.backend.embedded_home import EmbeddedHome
from tests.backend.serving import Client
from tests.theatre.echelon_process import until
from theatre.cli.demo.command import TEMPLATES
from theatre.cli.demo.stage import BASELINES
from theatre.files.published_bundle import unpack_bundle

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGED = (
    *("theatre", "backend", "docs", "fixtures", "migrations"),
    *("pyproject.toml", "README.md", "LICENSE"),
)
TEMPLATE = "fixtures/templates/product_cartograph_v1.json"
LISTENING = re.compile(r"running on http://127\.0\.0\.1:(\d+)")
PASSING = shutil.ignore_patterns(".echelon-canary-*", "*.pyc.*")
"""Files that other tests' runs and interpreters make in the checkout and take away again."""
PATIENCE_SECONDS = 300
MOST_DISTRIBUTIONS, MOST_BYTES = 28, 150 * 1000 * 1000
RESOURCES = "theatre/_resources/"
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
            shutil.copytree(REPOSITORY / name, source / name, ignore=PASSING)
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


def test_the_wheel_holds_the_package_and_what_its_commands_need_once_and_no_caches(
    source: Path, wheel: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []
    packaged = {name for name in names if ".dist-info/" not in name}
    resources = {name.removeprefix(RESOURCES) for name in packaged if name.startswith(RESOURCES)}
    assert {f"{RESOURCES}{name}" for name in resources} | files_below(source, "theatre") | (
        files_below(source, "backend")
    ) == packaged
    for folder in ("docs/schemas", "migrations", "fixtures/adversaries"):
        assert files_below(source, folder) == below(resources, folder)
    templates = below(resources, "fixtures/templates")
    assert templates == {f"fixtures/templates/{name}.json" for name in TEMPLATES.values()}
    data = {
        value.removeprefix("fixtures/")
        for name in templates
        for value in re.findall(r'"(ground_truth/[^"]+)"', (source / name).read_text())
    }
    assert below(resources, "fixtures/ground_truth") == {f"fixtures/{name}" for name in data}


def below(names: set[str], folder: str) -> set[str]:
    return {name for name in names if name.startswith(f"{folder}/")}


def test_the_wheels_constructs_are_those_of_the_demo_as_the_checkout_has_them(
    source: Path, wheel: Path
) -> None:
    folder = "fixtures/constructs"
    with zipfile.ZipFile(wheel) as archive:
        listed = tomllib.loads(archive.read(f"{RESOURCES}{folder}/constructs.toml").decode())
        held = {name.removeprefix(RESOURCES) for name in archive.namelist()}
    constructs = listed["constructs"]
    assert set(constructs) == {"artisan", "cartograph", "easel", "mint", "observer", *BASELINES}
    here = tomllib.loads((source / folder / "constructs.toml").read_text(encoding="utf-8"))
    assert constructs == {name: here["constructs"][name] for name in constructs}
    for name in {construct["folder"] for construct in constructs.values()}:
        assert files_below(source, f"{folder}/{name}") == below(held, f"{folder}/{name}")


def needed_packages(wheel: Path, *extras: str) -> dict[str, metadata.Distribution]:
    """Return the packages that the wheel needs with these extras and no other, by name."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        own = message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    found = dict[str, metadata.Distribution]()
    wanted, seen = [("echelon-theatre", extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name != "echelon-theatre":
            found[name] = metadata.distribution(name)
        for requirement in map(Requirement, found[name].requires or () if name in found else own):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                package = canonicalize_name(requirement.name)
                wanted += ((package, more) for more in ("", *requirement.extras))
    return found


def bytes_of(package: metadata.Distribution) -> int:
    places = (Path(str(package.locate_file(path))) for path in package.files or ())
    return sum(place.stat().st_size for place in places if place.is_file())


def paths_of(packages: Iterable[metadata.Distribution]) -> set[Path]:
    """Return what packages have in the environment of the tests, one level deep."""
    return {
        Path(str(package.locate_file(part)))
        for package in packages
        for part in {path.parts[0] for path in package.files or ()} - {"..", "__pycache__"}
    }


def made(environment: Path, wheel: Path, *, links: Iterable[Path], index: Sequence[str]) -> Path:
    """Return the folder of programs of an empty environment with the wheel and what it needs.

    With ECHELON_SOAK the packages come from the index, else by links to those of the tests.
    """
    succeeds(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment.parent)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    if SOAK:
        succeeds(*pip, "install", "--quiet", "--no-compile", *index, cwd=environment)
    else:
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        packages = Path(succeeds(python, "-c", where, cwd=environment).strip())
        for path in links:
            (packages / path.name).symlink_to(path)
    succeeds(*pip, "install", "--quiet", "--no-deps", "--no-compile", wheel, cwd=environment)
    return environment / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment as the README installs it, and isolation; no models."""
    environment = tmp_path_factory.mktemp("empty environment") / "venv"
    extras = ("service", "embedded", "isolation")
    packages = needed_packages(wheel, *extras)
    assert not {"anthropic", "httpx2", "mcp", "openai"} & set(packages)
    index = [f"{wheel}[{','.join(extras)}]"]
    return made(environment, wheel, links=paths_of(packages.values()), index=index)


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it needs without an extra."""
    environment = tmp_path_factory.mktemp("core") / "venv"
    links = paths_of(needed_packages(wheel).values())
    return made(environment, wheel, links=links, index=[str(wheel)])


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """An environment that knows nothing of the checkout."""
    hidden = ("ECHELON_", "PYTHON", "COVERAGE", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "HOME": str(tmp_path)}


def test_the_core_is_light(wheel: Path) -> None:
    packages = needed_packages(wheel)
    assert "cryptography" in packages
    assert "uvloop" not in packages
    assert len(packages) + 1 <= MOST_DISTRIBUTIONS, sorted(packages)
    with zipfile.ZipFile(wheel) as archive:
        own = sum(entry.file_size for entry in archive.infolist())
    assert own + sum(map(bytes_of, packages.values())) <= MOST_BYTES


def test_the_core_alone_certifies_draws_and_checks(
    core: Path, outside: dict[str, str], tmp_path: Path
) -> None:
    where = "import theatre.engine.schema_registry as s; print(s.resource_root())"
    resources = Path(succeeds(core / "python", "-c", where, cwd=tmp_path, env=outside).strip())
    echelon = core / "echelon"
    command = (echelon, "theatre", "run", resources / TEMPLATE, "--json", "--quiet")
    run = json.loads(succeeds(*command, cwd=tmp_path, env=outside))
    assert run["outcome"] == "certified"
    (bundle,) = (path.parent for path in tmp_path.rglob("manifest.json"))
    expected = REPOSITORY / TEMPLATE.replace(".json", ".expected.json")
    certificate = json.loads((bundle / "certificate.json").read_bytes())
    assert certificate["results_hash"] == json.loads(expected.read_bytes())["results_hash"]
    checked = succeeds(echelon, "check", bundle, cwd=tmp_path, env=outside)
    assert checked.endswith("valid, logged (signed by your own key): 38 checks\n")
    drawn = (echelon, "theatre", "show", run["theatre_id"], "--plot", "pictures")
    assert "plot         pictures/criteria.svg\n" in succeeds(*drawn, cwd=tmp_path, env=outside)


EVERY_MODULE = """
import importlib, json, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing = set(json.load(sys.stdin))
sys.meta_path.insert(0, Missing())
import theatre
for module in pkgutil.walk_packages(theatre.__path__, "theatre."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            print(module.name, error.name)
"""


def test_in_the_core_every_module_is_there_but_what_extras_bring(wheel: Path) -> None:
    core = set(needed_packages(wheel)) | {"echelon-theatre"}
    missing = {
        module
        for module, packages in metadata.packages_distributions().items()
        if not core & {canonicalize_name(package) for package in packages}
    }
    ended = subprocess.run(
        [sys.executable, "-c", EVERY_MODULE],
        input=json.dumps(sorted(missing)),
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert ended.stdout == (
        "theatre.api.certificate_report jinja2\n"
        "theatre.oracles.guarded_client httpx2\n"
        "theatre.oracles.mcp_tool anyio\n"
        "theatre.oracles.models httpx2\n"
        "theatre.pages.badge jinja2\n"
        "theatre.pages.certificate_page jinja2\n"
        "theatre.pages.comparison_page jinja2\n"
        "theatre.pages.rendering jinja2\n"
        "theatre.pages.served jinja2\n"
        "theatre.pytest_plugin pytest\n"
    )


@pytest.mark.parametrize(
    ("command", "extras"),
    [(("serve",), "service"), (("demo",), "service,embedded"), (("openapi", "--help"), "service")],
)
def test_a_command_of_an_extra_says_which_one_to_install(
    core: Path, outside: dict[str, str], tmp_path: Path, command: tuple[str, ...], extras: str
) -> None:
    ended = subprocess.run(
        [core / "echelon", *command],
        cwd=tmp_path,
        # No PostgreSQL on PATH, which would serve the demo as well.
        env=outside | {"PATH": str(core)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        encoding="utf-8",
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        f"error (missing-extra): expected the packages of the extra {extras}, got an installation "
        f"without them: pip install 'echelon-theatre[{extras}]'\n"
    )
    assert list(tmp_path.iterdir()) == []


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

        def listening() -> re.Match[str] | None:
            assert process.poll() is None, log.read_text()
            return LISTENING.search(log.read_text())

        try:
            yield Client(int(until(listening, "the service")[1]))
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

    bundle = tmp_path / "downloaded"
    unpack_bundle(io.BytesIO(archive), bundle)
    isolation = json.loads((bundle / "certificate.json").read_bytes())["isolation"]
    # The package's own ground truth lies in the prefix of the interpreter that a construct runs.
    assert (isolation["files"], isolation["processes"]) == (True, True)
    checked = succeeds(installed / "echelon", "check", bundle, cwd=tmp_path, env=outside)
    assert checked.endswith("consistent (no one vouches for it): 38 checks\n")
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
