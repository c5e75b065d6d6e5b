"""Which document is a draft, and which a template."""

from theatre.engine.canonical_json import JsonObject

_ONLY_IN_DRAFTS = ("construct", "chain", "data", "answer", "measure", "measures", "template")


def is_draft(document: JsonObject) -> bool:
    """Tell a draft from a template: it has no `schema_version`, and a member of its own."""
    return "schema_version" not in document and any(one in document for one in _ONLY_IN_DRAFTS)
