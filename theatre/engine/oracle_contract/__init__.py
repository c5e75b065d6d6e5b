"""How a construct is called and how its answer is read (docs/contract/construct.md §1).

The same strict reader serves every adapter, so a construct cannot be judged differently
because of the wire it sits on.
"""

from theatre.engine.models import (
    Attempt,
    InvocationMetadata,
    OracleInvocationRequest,
    OracleInvocationResponse,
    RetryPolicy,
)
from theatre.engine.oracle_contract.adapters import (
    NOT_ISOLATED,
    REMOTE,
    InputSanitiser,
    Invoker,
    IsolatedBy,
    Isolation,
    OracleAdapter,
    RehearsalAdapter,
    SanitisedInput,
    program_version,
    served_argv,
    weakest_isolation,
)
from theatre.engine.oracle_contract.answers import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_DETAIL,
    MAX_STDERR,
    clean_detail,
    cut_raw,
    failed_attempt,
    read_answer,
)

__all__ = [
    "MAX_ANSWER_BYTES",
    "MAX_ERROR_DETAIL",
    "MAX_STDERR",
    "NOT_ISOLATED",
    "REMOTE",
    "Attempt",
    "InputSanitiser",
    "InvocationMetadata",
    "Invoker",
    "IsolatedBy",
    "Isolation",
    "OracleAdapter",
    "OracleInvocationRequest",
    "OracleInvocationResponse",
    "RehearsalAdapter",
    "RetryPolicy",
    "SanitisedInput",
    "clean_detail",
    "cut_raw",
    "failed_attempt",
    "program_version",
    "read_answer",
    "served_argv",
    "weakest_isolation",
]
