"""The tables of the service. `Base.metadata` is what `alembic check` compares a database with.

Nothing is loaded lazily and no model has relationships: repositories send Core statements.
"""

from backend.database.models.base import Base
from backend.database.models.debates import DebateEvaluation, DebateEvent, DebateRun
from backend.database.models.evidence import (
    HumanScore,
    SealedBundle,
    TheatreAuditEvent,
    TheatreCertificate,
    TheatreEpisodeScore,
)
from backend.database.models.judging import JudgeBudget, JudgeCall, JudgeLimit
from backend.database.models.people import (
    ApiKey,
    ConstructDecision,
    IdempotencyKey,
    Invite,
    RegisteredConstruct,
    User,
)
from backend.database.models.theatres import (
    Dataset,
    Theatre,
    TheatreCoin,
    TheatreTemplate,
    Verification,
)
from backend.database.models.transparency import (
    LogCheckpoint,
    LoggedEntry,
    LogTile,
    QueuedEntry,
    TrustDocument,
)

__all__ = [
    "ApiKey",
    "Base",
    "ConstructDecision",
    "Dataset",
    "DebateEvaluation",
    "DebateEvent",
    "DebateRun",
    "HumanScore",
    "IdempotencyKey",
    "Invite",
    "JudgeBudget",
    "JudgeCall",
    "JudgeLimit",
    "LogCheckpoint",
    "LogTile",
    "LoggedEntry",
    "QueuedEntry",
    "RegisteredConstruct",
    "SealedBundle",
    "Theatre",
    "TheatreAuditEvent",
    "TheatreCertificate",
    "TheatreCoin",
    "TheatreEpisodeScore",
    "TheatreTemplate",
    "TrustDocument",
    "User",
    "Verification",
]
