"""`command@1` and `container@1`: any program as a construct, one start for each call.

A command runs isolated and under the limits of `local@1`, from a private copy of its files: its
version is their hash and that of the settings. A container is an image by its digest, which podman
or docker runs without a network. That is looked at, with podman; what else it could reach is not
tried, and so not certified.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from theatre.engine.canonical_json import JsonObject
from theatre.engine.clock import Clock
from theatre.engine.errors import TheatreError
from theatre.engine.oracle_contract import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_DETAIL,
    NOT_ISOLATED,
    Isolation,
    OracleInvocationRequest,
    clean_detail,
    pinned_version,
)
from theatre.oracles.child_process import AskedProgram
from theatre.oracles.construct_files import BoundProgram, CurrentProgram, PrivateFolder
from theatre.oracles.errors import ConstructUnreachableError
from theatre.oracles.isolation.canary import probe_isolation
from theatre.oracles.isolation.means import Reach
from theatre.oracles.limited_process import ProcessLimits, construct_environment, describe_exit
from theatre.oracles.plain_call import PlainAdapter, PlainSettings, PromptError, Said, fill_text
from theatre.oracles.wire_forms import CallFailure

INPUT = "{input}"
"""What stands in argv for the text that is asked, or for the file that holds it."""

_MAX_ARGUMENT_BYTES = 100 * 1024
_MAX_COMPLAINT_BYTES = MAX_ERROR_DETAIL - 400
_MOUNTED = "/echelon/input"


class CommandSettings(PlainSettings):
    """How a program is asked; `argv` is for containers alone."""

    input: Literal["stdin", "argument", "file"] = "stdin"
    argv: tuple[str, ...] = ()

    def asked_text(self, value: JsonObject) -> str:
        """Return what the program is asked; raises PromptError for what no argument can hold."""
        text = fill_text(self.prompt, value)
        size = len(text.encode("utf-8", "surrogatepass"))
        if self.input == "argument" and ("\0" in text or size > _MAX_ARGUMENT_BYTES):
            raise PromptError(
                f"expected an argument of at most {_MAX_ARGUMENT_BYTES} bytes without NUL, got "
                f"{size} bytes: use input stdin or file"
            )
        return text


class CommandAdapter(PlainAdapter):
    """Starts a program for each call; as many at a time as the template allows.

    Reasons beyond `PlainAdapter`'s: `unreachable` (could not be started), `exit-code` (other than
    0) and `too-large`.
    """

    pin = "command@1"

    def __init__(
        self,
        bind: Callable[[], BoundProgram],
        settings: CommandSettings,
        written: JsonObject,
        *,
        limits: ProcessLimits,
        reach: Reach,
        clock: Clock,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(clock=clock, monotonic=monotonic)
        self.answer = settings.answer
        self._settings = settings
        self._limits = limits
        self._reach = reach

        def bind_with_settings() -> BoundProgram:
            program = bind()
            return program._replace(version=pinned_version("command", program.version, written))

        # One copy for the whole run: each call starts the same files.
        self._program = CurrentProgram(bind_with_settings)

    @property
    def computed_version(self) -> str:
        """Return the hash of program and settings; raises ConstructFilesError."""
        return self._program.version

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Return what a program started now can reach."""
        return await asyncio.to_thread(probe_isolation, closed, self._reach)

    async def check_reachable(self) -> None:
        """Copy the files, and look for the program; raises ConstructUnreachableError."""
        program = await self._program.bound()
        if shutil.which(program.argv[0]) is None:
            raise ConstructUnreachableError(
                f"expected the program {program.argv[0]}, got none of that name; install it, or "
                "correct the first of the arguments"
            )

    async def aclose(self) -> None:
        """Remove the copy of the files."""
        self._closed = True
        self._program.release()

    async def _ask(self, request: OracleInvocationRequest) -> Said | CallFailure:
        text = self._settings.asked_text(request.input_data)
        program = await self._program.bound()
        with contextlib.ExitStack() as stack:
            reading, argv = program.reading, program.argv
            if self._settings.input != "stdin":
                word = text
                if self._settings.input == "file":
                    folder = PrivateFolder()
                    stack.callback(folder.remove)
                    word, reading = str(_write(folder.path, text)), (*reading, folder.path)
                argv = tuple(one.replace(INPUT, word) for one in argv)
            try:
                asked = AskedProgram(
                    argv,
                    environment=construct_environment(program.version),
                    limits=self._limits,
                    reach=self._reach._replace(reading=reading),
                    complaint_limit=_MAX_COMPLAINT_BYTES,
                )
            except TheatreError as error:
                return CallFailure(reason="unreachable", detail=str(error))
            return await self._talk(asked, text if self._settings.input == "stdin" else "")

    async def _talk(self, asked: AskedProgram, text: str) -> Said | CallFailure:
        try:
            await asked.wait_for_launch()
            output = await asked.answer(
                text.encode("utf-8", "surrogatepass"), limit=MAX_ANSWER_BYTES
            )
            code = await asked.end()
            return judge_output(
                output,
                0 if code == 0 else describe_exit(code, self._limits) if code else "it did not end",
                asked.complaints(),
            )
        except TheatreError as error:
            return CallFailure(reason="unreachable", detail=str(error))
        finally:
            await asked.end()
            asked.close()


def judge_output(output: bytes, ended: str | int, stderr: str) -> Said | CallFailure:
    """Return what a program said; `ended` is 0, or how it ended otherwise."""
    # First: a program that prints too much is ended by us.
    if len(output) > MAX_ANSWER_BYTES:
        return CallFailure(
            reason="too-large",
            detail=f"expected at most {MAX_ANSWER_BYTES} bytes, got more",
            raw=output[:MAX_ANSWER_BYTES],
        )
    if ended != 0:
        last = clean_detail(stderr.strip(), limit=400)
        return CallFailure(
            reason="exit-code",
            detail=f"expected exit code 0, got: {ended}" + (f"; stderr: {last}" if last else ""),
            raw=output[:MAX_ANSWER_BYTES],
        )
    try:
        # Some programs begin with a byte order mark, which is no part of what they say.
        text = output.decode("utf-8-sig")
    except UnicodeDecodeError:
        return CallFailure(
            reason="not-utf-8", detail="expected UTF-8 on stdout, got other bytes", raw=output
        )
    return Said(text=text, stderr=stderr)


def _write(folder: Path, text: str) -> Path:
    path = folder / "input"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    path.chmod(0o444)
    return path


# An image by its digest, where podman or docker is found.


def find_runtime(which: Callable[[str], str | None] = shutil.which) -> str:
    """Return podman or docker, as it lies on PATH; raises ConstructUnreachableError."""
    found = which("podman") or which("docker")
    if found is None:
        raise ConstructUnreachableError(
            "expected podman or docker on PATH to run the image, got neither; install one of "
            "them, or run the program as a command"
        )
    return found


def container_argv(
    runtime: str,
    image: str,
    settings: CommandSettings,
    *,
    name: str,
    text: str = "",
    mounted: Path | None = None,
) -> list[str]:
    """Return the command line of one call: no network, nothing to write to, no rights.

    The image is never pulled here: a download is no part of a call's time.
    """
    mount = [] if mounted is None else ["--volume", f"{mounted}:{_MOUNTED}:ro"]
    word = _MOUNTED if settings.input == "file" else text
    asked = [one.replace(INPUT, word) for one in settings.argv]
    return [
        *(runtime, "run", "--rm", "--interactive", "--name", name, "--pull", "never"),
        *("--network", "none", "--read-only", "--tmpfs", "/tmp"),  # noqa: S108 - inside
        # What is printed is an answer, and kept as one: a log on disk would have no limit.
        *("--log-driver", "none"),
        *("--cap-drop", "all", "--security-opt", "no-new-privileges"),
        *("--memory", "2048m", "--pids-limit", "256", "--stop-timeout", "0"),
        *mount,
        image,
        *asked,
    ]


class ContainerAdapter(PlainAdapter):
    """Runs an image for each call.

    Reasons beyond `PlainAdapter`'s: as `CommandAdapter`.
    """

    pin = "container@1"

    def __init__(
        self,
        image: str,
        settings: CommandSettings,
        *,
        version: str,
        clock: Clock,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(clock=clock, monotonic=monotonic)
        self.answer = settings.answer
        self._image = image
        self._settings = settings
        self._version = version
        self._calls = 0

    @property
    def computed_version(self) -> str:
        """Return the hash of the image's digest and the settings."""
        return self._version

    async def probe_isolation(self, _: Sequence[Path]) -> Isolation:
        """Return whether the network is closed; no more is known, as no probe runs in the image."""
        with contextlib.suppress(ConstructUnreachableError):
            runtime = find_runtime()
            # docker prepares no container without running it: there is nothing to look at.
            if Path(runtime).name == "podman":
                closed = await self._has_no_network(runtime)
                return replace(NOT_ISOLATED, network=closed)
        return NOT_ISOLATED

    async def _has_no_network(self, runtime: str) -> bool:
        """Return whether a container as a call starts it has loopback alone, and one of its own.

        Seen from outside, of a container whose program never runs. It sees no path of this machine
        either, so that Unix sockets are as far away.
        """
        name = f"echelon-probe-{os.getpid()}-{id(self)}"
        argv = container_argv(runtime, self._image, self._settings, name=name)
        argv[1] = "create"
        asked = (
            argv,
            [runtime, "init", name],
            [runtime, "inspect", "--format", "{{.State.Pid}}", name],
            # Of a service elsewhere the number would be that of another process here.
            [runtime, "info", "--format", "{{.Host.ServiceIsRemote}}"],
        )
        try:
            said = [await _run(one, b"") for one in asked]
            pid, is_remote = (output.decode().strip() for _, output, _ in said[-2:])
            if is_remote != "false" or any(code for code, _, _ in said):
                return False
            return _has_loopback_alone(Path("/proc", pid))
        except (OSError, UnicodeDecodeError):
            return False
        finally:
            await asyncio.shield(_run([runtime, "rm", "--force", name], b""))

    async def check_reachable(self) -> None:
        """Look for a runtime, and in it for the image; raises ConstructUnreachableError."""
        runtime = find_runtime()
        code, _, stderr = await _run([runtime, "image", "inspect", self._image], b"")
        if code != 0:
            await _require_daemon(runtime)
            said = clean_detail(stderr.strip(), limit=300)
            raise ConstructUnreachableError(
                f"expected the image {self._image} here, got: {said}; "
                f"{Path(runtime).name} pull {self._image}"
            )

    async def aclose(self) -> None:
        """Hold nothing: each container ends with its call."""
        self._closed = True

    async def _ask(self, request: OracleInvocationRequest) -> Said | CallFailure:
        text = self._settings.asked_text(request.input_data)
        self._calls += 1
        name = f"echelon-{request.invocation_id}-{self._calls}"
        try:
            runtime = find_runtime()
        except ConstructUnreachableError as error:
            return CallFailure(reason="unreachable", detail=str(error))
        with contextlib.ExitStack() as stack:
            mounted = None
            if self._settings.input == "file":
                folder = PrivateFolder()
                stack.callback(folder.remove)
                folder.path.chmod(0o755)
                mounted = _write(folder.path, text)
            argv = container_argv(
                runtime, self._image, self._settings, name=name, text=text, mounted=mounted
            )
            sent = text.encode("utf-8", "surrogatepass")
            has_ended = False
            try:
                code, output, stderr = await _run(
                    argv, sent if self._settings.input == "stdin" else b""
                )
                has_ended = len(output) <= MAX_ANSWER_BYTES
            finally:
                if not has_ended:
                    # The runtime's command may end while its container goes on.
                    await asyncio.shield(_run([runtime, "rm", "--force", name], b""))
        return judge_output(output, 0 if code == 0 else f"exit code {code}", stderr)


def _has_loopback_alone(process: Path) -> bool:
    devices = (process / "net" / "dev").read_text(encoding="ascii").splitlines()[2:]
    is_own = (process / "ns" / "net").readlink() != Path("/proc/self/ns/net").readlink()
    return is_own and [one.partition(":")[0].strip() for one in devices] == ["lo"]


async def _require_daemon(runtime: str) -> None:
    """Raise ConstructUnreachableError where the command is there and its daemon is not.

    Both then fail to inspect an image: `version` fails for want of a daemon alone.
    """
    code, _, stderr = await _run([runtime, "version"], b"")
    if code != 0:
        said = clean_detail(stderr.strip(), limit=300)
        raise ConstructUnreachableError(
            f"expected a daemon that answers {runtime}, got: {said}; "
            "start it, name another one in DOCKER_HOST, or install podman, which needs none"
        )


async def _run(argv: Sequence[str], sent: bytes) -> tuple[int, bytes, str]:
    """Run a command of the runtime; one that prints more than an answer may have is killed."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_ANSWER_BYTES,
    )
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise AssertionError("expected three pipes")

    async def write(pipe: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            pipe.write(sent)
            await pipe.drain()
        pipe.close()

    async def read(pipe: asyncio.StreamReader, limit: int) -> bytes:
        kept = bytearray()
        while chunk := await pipe.read(65536):
            kept += chunk[: max(0, limit + 1 - len(kept))]
            if pipe is process.stdout and len(kept) > limit:
                # It may have no end, and its time would be spent for what does not count.
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                break
        return bytes(kept)

    try:
        _, output, complaints = await asyncio.gather(
            write(process.stdin),
            read(process.stdout, MAX_ANSWER_BYTES),
            read(process.stderr, _MAX_COMPLAINT_BYTES),
        )
        return await process.wait(), output, complaints.decode("utf-8", "replace")
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
