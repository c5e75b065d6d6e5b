"""What a rule is, what it looks at, and what a validation found."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from theatre.engine.canonical_json import JsonObject, JsonValue
from theatre.engine.models import Scorer
from theatre.engine.schema_registry import (
    Quoted,
    SchemaRegistry,
    SchemaViolation,
    json_pointer,
    phrase,
)
from theatre.engine.templates import (
    CURRENT,
    EXISTING,
    NEWEST,
    SIMULATION,
    ProductTheatreConfig,
    TemplateView,
    TheatreTemplate,
)

Violation = SchemaViolation
"""Runtime rules report in the same form as the schema."""


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Everything that is wrong (`errors`) or doubtful (`warnings`), each sorted by pointer.

    `view` is the template as a run obeys it; None where there are errors.
    """

    errors: tuple[Violation, ...]
    warnings: tuple[Violation, ...]
    view: TemplateView | None = field(default=None, compare=False, repr=False)

    @property
    def valid(self) -> bool:
        """Return whether the template may be committed; warnings do not stop it."""
        return not self.errors


VERSIONS = (SIMULATION, EXISTING, CURRENT, NEWEST)
"""The versions that there are, oldest first."""

Finding: TypeAlias = tuple[str, str]
"""A JSON Pointer, and what was expected and seen there."""


Path: TypeAlias = tuple[str | int, ...]
"""The member names and indices that lead to a value."""


class Subject(NamedTuple):
    """A template as a value and as it is written, and what it is checked against.

    Of a document that its schema refuses `template` is what fits. `values` has every value of the
    document with its path. `version` is the one that it is read as. `certificate_run` asks for the
    rules of a run that issues a certificate, `from_api` for those of a document that did not come
    from the machine it will run on; `python_modules` are those that such a document may name, and
    `judges` the providers of judges.
    """

    document: JsonObject
    template: TheatreTemplate
    values: Sequence[tuple[Path, JsonValue]]
    version: str
    scorers: Mapping[str, Scorer]
    registry: SchemaRegistry
    certificate_run: bool
    from_api: bool
    python_modules: Collection[str] = ()
    judges: Collection[str] = ()

    @property
    def config(self) -> ProductTheatreConfig:
        """Return the configuration of a replay, an empty one where there is none."""
        return self.template.product_theatre_config or NO_CONFIG

    @property
    def criterion_ids(self) -> frozenset[str]:
        """Return the criteria ids."""
        return frozenset(self.template.criteria.criteria_ids) - {""}

    def unless_criterion(self, criterion: str, *where: str | int) -> Iterator[Finding]:
        """Yield at `where` that `criterion` is none of the template's."""
        if criterion not in self.criterion_ids:
            yield (
                json_pointer(*where),
                phrase("expected a criterion of criteria_ids, got ", Quoted(criterion)),
            )


NO_CONFIG = ProductTheatreConfig(ground_truth_source="", construct_under_test="", adapter_type="")


class Rule(NamedTuple):
    """One named rule: a total function from a subject to what breaks the rule there.

    `since` is the first version that it holds for.
    """

    name: str
    check: Callable[[Subject], Iterator[Finding]]
    severity: Literal["error", "warning"] = "error"
    since: str = EXISTING

    def holds_for(self, subject: Subject) -> bool:
        """Return whether the version of the document knows this rule."""
        return VERSIONS.index(subject.version) >= VERSIONS.index(self.since)
