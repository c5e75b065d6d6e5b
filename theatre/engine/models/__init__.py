"""The values that every stage shares: criteria, episodes, answers, scorers, results.

All of them are frozen. Documents that were committed are frozen deeply (`freeze_json`), so
"immutable after COMMITTED" is a property of the type before it is a check.
"""

from theatre.engine.models.episode_runners import (
    SINGLE_CALL,
    EpisodePlay,
    EpisodeRunner,
    Turn,
    turn_of,
)
from theatre.engine.models.episodes import (
    MAX_EPISODE_BYTES,
    GroundTruthEpisode,
    read_episodes,
    read_gold_labels,
)
from theatre.engine.models.frozen import (
    FrozenArray,
    FrozenObject,
    freeze_json,
    freeze_object,
)
from theatre.engine.models.judging import (
    ANSWER,
    REQUEST,
    Judge,
    Judgement,
    ask_judge,
    replay_judgement,
)
from theatre.engine.models.outcomes import (
    CriterionResult,
    EpisodeOutcome,
    ExecutionPath,
    InvocationStatus,
    Scored,
    TheatreCriteria,
    Verdict,
)
from theatre.engine.models.records import (
    EPISODE_RESULT,
    FIRST,
    JUDGEMENTS,
    SECOND,
    Attempt,
    EpisodeRecord,
    EpisodeTrouble,
    InvocationMetadata,
    OracleInvocationRequest,
    OracleInvocationResponse,
    PlayedRecord,
    RecordedBatch,
    RecordedCall,
    RetryPolicy,
    members_of,
)
from theatre.engine.models.results import (
    EpisodeResult,
    InvocationRecord,
    sequence_ranges,
)
from theatre.engine.models.scorers import (
    Computation,
    Scorer,
    ScorerKind,
    ScoringCase,
)

__all__ = [
    "ANSWER",
    "EPISODE_RESULT",
    "FIRST",
    "JUDGEMENTS",
    "MAX_EPISODE_BYTES",
    "REQUEST",
    "SECOND",
    "SINGLE_CALL",
    "Attempt",
    "Computation",
    "CriterionResult",
    "EpisodeOutcome",
    "EpisodePlay",
    "EpisodeRecord",
    "EpisodeResult",
    "EpisodeRunner",
    "EpisodeTrouble",
    "ExecutionPath",
    "FrozenArray",
    "FrozenObject",
    "GroundTruthEpisode",
    "InvocationMetadata",
    "InvocationRecord",
    "InvocationStatus",
    "Judge",
    "Judgement",
    "OracleInvocationRequest",
    "OracleInvocationResponse",
    "PlayedRecord",
    "RecordedBatch",
    "RecordedCall",
    "RetryPolicy",
    "Scored",
    "Scorer",
    "ScorerKind",
    "ScoringCase",
    "TheatreCriteria",
    "Turn",
    "Verdict",
    "ask_judge",
    "freeze_json",
    "freeze_object",
    "members_of",
    "read_episodes",
    "read_gold_labels",
    "replay_judgement",
    "sequence_ranges",
    "turn_of",
]
