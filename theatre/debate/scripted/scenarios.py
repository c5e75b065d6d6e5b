"""What a scripted debate is about: arguments for either side, and which side is right."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from theatre.debate.actions import Action
from theatre.debate.errors import DebateRunError
from theatre.engine.canonical_json import JsonObject
from theatre.engine.schema_registry import first_mistake


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Fact(_Closed):
    """One argument, in clauses that fit the sentences of `script`."""

    cause: str
    effect: str
    figure: str
    source: str
    why: str
    falsifier: str


class Scenario(_Closed):
    """A question with a known right action, the wrong one that is hinted at, and facts for each."""

    debate_id: str
    subject: str
    context: str
    truth: Action
    hint: Action
    facts: dict[Action, Annotated[list[Fact], Field(min_length=2)]]

    def public(self) -> JsonObject:
        """Return what debaters see: arguments for either side, without truth and hint."""
        facts: JsonObject = {
            action: [one.model_dump() for one in self.facts[action]]
            for action in sorted(self.facts)
        }
        return {
            "debate_id": self.debate_id,
            "subject": self.subject,
            "context": self.context,
            "facts": facts,
        }


def read_scenario(document: JsonObject) -> Scenario:
    """Return the scenario in `document`. Raises DebateRunError for another shape."""
    try:
        scenario = Scenario.model_validate(document)
    except ValidationError as error:
        raise DebateRunError(f"expected a scenario, got at {first_mistake(error)}") from error
    sides = {scenario.truth, scenario.hint}
    if len(sides) != 2 or sides - set(scenario.facts):  # noqa: PLR2004 - the two sides
        raise DebateRunError("expected facts for truth and for hint, which differ")
    return scenario
