"""The description of the interface (OpenAPI): problems and credentials as they really are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from backend.schemas.problems import ProblemDocument

PROBLEM = "#/components/schemas/ProblemDocument"
_REFERENCES = "#/components/schemas/{model}"


class DescribedApi(FastAPI):
    """An application whose description names problem documents and bearer credentials."""

    def openapi(self) -> dict[str, Any]:
        """Return the description, made once."""
        if self.openapi_schema is None:
            described = super().openapi()
            components = described.setdefault("components", {})
            schemas = components.setdefault("schemas", {})
            schema = ProblemDocument.model_json_schema(ref_template=_REFERENCES)
            schemas.update(schema.pop("$defs"))
            schemas["ProblemDocument"] = schema
            components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        return super().openapi()
