"""Commit, record each answer as it comes, seal: a run whose construct another program asks.

The run goes through the same engine, journal and log as any other, in a thread with an event loop
of its own, since the other program has its own.
"""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

from theatre.api.commitments import commit_template
from theatre.api.run_log import Logged
from theatre.api.runs import logged_report
from theatre.api.template_files import require_runnable
from theatre.api.theatre_run import RunOptions, run_theatre
from theatre.api.workspace import Workspace
from theatre.engine.canonical_json import JsonObject
from theatre.oracles.in_process import LiveAnswers


class RecordedRun:
    """One committed run that waits for the answers of another program."""

    def __init__(self, theatre_id: str, episode_ids: Sequence[str], workspace: Workspace) -> None:
        """Take a theatre in the state COMMITTED, made by `begin`."""
        self.theatre_id = theatre_id
        self._workspace = workspace
        self._answers = LiveAnswers(episode_ids)
        self._is_logged = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="echelon-recording", daemon=True)

    @classmethod
    def begin(
        cls, template: JsonObject, folder: Path, episode_ids: Sequence[str], workspace: Workspace
    ) -> "RecordedRun":
        """Commit `template`, let the log have it, and return; only then may anything be asked.

        `episode_ids` are those of the dataset, in its order. Errors as `commit_template` and a
        run before its first call. Blocks: call it from no event loop.
        """
        valid = require_runnable(template)
        theatre = asyncio.run(commit_template(valid, template_folder=folder, workspace=workspace))
        run = cls(theatre.theatre_id, episode_ids, workspace)
        run._thread.start()
        run._is_logged.wait()
        if run._error is not None:
            raise run._error
        return run

    def record(self, episode_id: str, answer: JsonObject) -> None:
        """Record members of an answer envelope, at once; errors as `LiveAnswers.give`."""
        self._answers.give(episode_id, answer)

    def seal(self, changed: str | None = None) -> JsonObject:
        """End the run and return its report, as `theatre show --json`.

        Episodes without an answer count as failed. With `changed` (what is not as committed) the
        run ends as failed, without a certificate. Blocks until all is sealed; errors as a run.
        """
        self._answers.close(changed)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return logged_report(self._workspace.store.view(self.theatre_id))

    def _run(self) -> None:
        def logged(_: Logged) -> None:
            self._is_logged.set()

        try:
            asyncio.run(
                run_theatre(
                    self.theatre_id,
                    self._workspace,
                    RunOptions(recorded=self._answers, on_logged=logged),
                    on_start=lambda _: None,
                    on_progress=lambda _: None,
                )
            )
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
            self._error = error
        finally:
            self._is_logged.set()
