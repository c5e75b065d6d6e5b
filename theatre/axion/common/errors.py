"""The errors of the audit: one class for each decision that a caller can take."""

from theatre.engine.errors import TheatreError


class AxionError(TheatreError):
    """Base of every error this package raises on purpose."""

    code = "axion-error"


class ActuationDeniedError(AxionError):
    """The world was not changed: there was no token for this very step.

    `reason` is stable: `no-token`, `malformed`, `signature`, `expired`, `revoked`, `rate-limit`,
    `binding`, `scope`, `cursor`, `step`, `raw`.
    """

    code = "actuation-denied"

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class FatalHangError(AxionError):
    """The policy gate did not answer in time; its process is killed and the log says so."""

    code = "fatal-hang"


class GateBrokenError(AxionError):
    """A process of the kernel ended or answered nonsense; nothing may be allowed any more."""

    code = "gate-broken"


class GateGoneError(GateBrokenError):
    """A process of the kernel ended before it answered: another one may be asked the same."""

    code = "gate-gone"


class EffectSyntaxError(AxionError):
    """A claimed effect is not a sentence of the strict language of P5-MCI."""

    code = "effect-syntax"


class ReplayModelError(AxionError):
    """A replay model does not fit its factors or itself."""

    code = "replay-model-invalid"


class UnknownNameError(AxionError):
    """No such agent, scenario, probe or interface."""

    code = "unknown-name"
