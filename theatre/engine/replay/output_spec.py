"""Holds each answer against the committed `output_spec` (docs/contract/construct.md §1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from theatre.engine.canonical_json import canonical_bytes
from theatre.engine.models import InvocationStatus
from theatre.engine.oracle_contract import (
    Attempt,
    Isolation,
    OracleAdapter,
    OracleInvocationRequest,
    clean_detail,
    cut_raw,
)
from theatre.engine.schema_registry import SchemaRegistry
from theatre.engine.templates import Hop

MISFIT = "output-spec"
"""The reason of an answer that was rejected for its shape; it is retried as any error is."""


def wrap_in_shape_check(
    hops: Iterable[Hop], adapters: Mapping[str, OracleAdapter], registry: SchemaRegistry
) -> dict[str, OracleAdapter]:
    """Return the adapter of each hop's construct; where a shape is committed, it is checked."""
    return {
        hop.construct_id: ShapeCheckingAdapter(
            adapters[hop.construct_id], hop.output_spec, registry
        )
        if hop.output_spec
        else adapters[hop.construct_id]
        for hop in hops
    }


class ShapeCheckingAdapter:
    """Passes calls on; a success whose `output_data` does not fit `output_spec` is an error."""

    def __init__(
        self, adapter: OracleAdapter, output_spec: Mapping[str, object], registry: SchemaRegistry
    ) -> None:
        self._adapter = adapter
        self._output_spec = output_spec
        self._registry = registry

    @property
    def pin(self) -> str:
        """Return the pin of the adapter behind."""
        return self._adapter.pin

    @property
    def computed_version(self) -> str | None:
        """Return the version that the adapter behind computes."""
        return self._adapter.computed_version

    async def probe_isolation(self, closed: Sequence[Path]) -> Isolation:
        """Return what the construct behind can reach."""
        return await self._adapter.probe_isolation(closed)

    async def invoke(self, request: OracleInvocationRequest) -> Attempt:
        """Make one try and judge the shape of what came back."""
        attempt = await self._adapter.invoke(request)
        output = attempt.response.output_data
        if attempt.response.status is not InvocationStatus.SUCCESS or output is None:
            return attempt
        violations = self._registry.validate_inline(self._output_spec, output)
        if not violations:
            return attempt
        first = violations[0]
        detail = f"expected output_data to fit output_spec, got at {first.pointer or '/'}: "
        rejected = replace(
            attempt.response,
            status=InvocationStatus.ERROR,
            output_data=None,
            error_detail=clean_detail(detail + first.detail),
        )
        return Attempt(
            response=rejected,
            reason=MISFIT,
            raw=cut_raw(canonical_bytes(output)),
            stderr=attempt.stderr,
        )

    async def aclose(self) -> None:
        """Close the adapter behind."""
        await self._adapter.aclose()
