"""The watchdog: ends a gate that does not answer, and writes that it did. It can do no more.

It holds two functions, one that appends to the log and one that ends a process. It knows no
token, no decision and no world, so a hang can never turn into permission (I5).
"""

from collections.abc import Callable

from theatre.axion.common.errors import FatalHangError


class Watchdog:
    """Waits at most `limit_ms` for an answer; a gate that takes longer is ended."""

    def __init__(
        self, *, limit_ms: int, append: Callable[[str], None], terminate: Callable[[], None]
    ) -> None:
        self._limit_ms = limit_ms
        self._append = append
        self._terminate = terminate

    def wait(self, answered: Callable[[float], bool]) -> None:
        """Return once `answered(seconds)` says yes within the limit.

        Raises FatalHangError after the process is ended and the log says so.
        """
        if answered(self._limit_ms / 1000):
            return
        self._terminate()
        self._append(f"no answer within {self._limit_ms} ms: the gate's process was killed")
        raise FatalHangError(
            f"expected a decision within {self._limit_ms} ms, got none: the gate was killed and "
            "the run ends; raise --watchdog_ms if this machine is only slow"
        )
