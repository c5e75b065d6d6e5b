"""From a debate's row to what is shown of it."""

from __future__ import annotations

from backend.repositories.debates import DebateRunView, StoredEvaluation
from backend.schemas.debates import DebateDocument, EvaluationDocument
from theatre.engine.canonical_json import parse_object


def debate_document(view: DebateRunView) -> DebateDocument:
    """Return the document of a run."""
    return DebateDocument.model_validate(
        {name: value for name, value in view._asdict().items() if name != "version"}
    )


def etag_of(view: DebateRunView) -> str:
    """Return the entity tag of a run: every change of its row is another one."""
    return f'"v{view.version}"'


def evaluation_document(one: StoredEvaluation) -> EvaluationDocument:
    """Return the document of what an evaluator said."""
    columns = {name: value for name, value in one._asdict().items() if name != "document"}
    return EvaluationDocument(**columns, evaluation=parse_object(one.document))
