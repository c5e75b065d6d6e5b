"""What theatres of the service are created and run with; built once, from the settings."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from backend.errors import SettingsError
from backend.evidence_store import EvidenceStore
from backend.schemas.theatres import AvailableTemplateDocument
from backend.services.constructs import ConstructAccess
from backend.services.ground_truth import GroundTruth
from backend.services.judge_access import JudgeAccess
from backend.services.transparency.keys import IssuerKeys, own_trust_file
from backend.services.transparency.signatures import CertificateSignatures
from backend.services.verifications.repository_access import RepositoryAccess
from backend.settings import Settings
from theatre.engine.canonical_json import JsonObject, canonical_sha256, parse_object
from theatre.engine.clock import Clock
from theatre.engine.commitment import content_hash
from theatre.engine.errors import InvalidTemplateError
from theatre.engine.models import Computation, EpisodeRunner, Scorer
from theatre.engine.schema_registry import SchemaRegistry, resource_root
from theatre.engine.template_validator import TemplateValidator, ValidationReport
from theatre.oracles.construct_registry import ConstructRegistry, read_accepted_templates
from theatre.oracles.in_process import NO_MODULES, ListedModules
from theatre.oracles.outbound_policy import OutboundPolicy
from theatre.scorers import load_computations, load_episode_runners, load_scorers


class AcceptedTemplates:
    """The operator's list of content hashes, and the templates that ship with this release."""

    def __init__(self, named: Mapping[str, str]) -> None:
        """Take the operator's names and the content hash of each."""
        self._named = dict(named)
        self.content_hashes: Sequence[str] = sorted(set(named.values()))

    def available(self) -> list[AvailableTemplateDocument]:
        """Return what ships, then what else is accepted, each by name. Blocks the first time."""
        shipped = [
            one.model_copy(update={"accepted": one.content_hash in self.content_hashes})
            for one in _shipped_templates()
        ]
        known = {one.content_hash for one in shipped}
        others = [
            AvailableTemplateDocument(
                name=name,
                content_hash=hash_,
                sha256=None,
                template_family=None,
                display_name=None,
                ships=False,
                accepted=True,
            )
            for name, hash_ in sorted(self._named.items())
            if hash_ not in known
        ]
        return [*shipped, *others]


@cache
def _shipped_templates() -> tuple[AvailableTemplateDocument, ...]:
    folder = resource_root() / "fixtures" / "templates"
    documents = [
        parse_object(path.read_bytes())
        for path in folder.rglob("*.json")
        if not path.name.endswith(".expected.json")
    ]
    found = [
        AvailableTemplateDocument(
            name=str(document["theatre_id"]),
            content_hash=content_hash(document),
            sha256=canonical_sha256(document),
            template_family=str(document["template_family"]),
            display_name=str(document["display_name"]),
            ships=True,
            accepted=False,
        )
        for document in documents
    ]
    return tuple(sorted(found, key=lambda one: (one.name, one.content_hash)))


GITHUB_TOKEN = "GITHUB_TOKEN"  # noqa: S105 - the name of the variable
"""The token comes from the environment of the worker process alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TheatreResources:
    """Plug-ins, data, constructs, repositories, evidence store, folder of what is under way."""

    scorers: Mapping[str, Scorer]
    computations: Mapping[str, Computation]
    runners: Mapping[str, EpisodeRunner]
    schemas: SchemaRegistry
    data: GroundTruth
    constructs: ConstructAccess
    judges: JudgeAccess
    repositories: RepositoryAccess
    accepted_templates: AcceptedTemplates
    signatures: CertificateSignatures
    store: EvidenceStore
    desk: Path
    drafts: Path
    """Bundles of this machine that failed the check, by theatre: for the operator alone."""
    issuer: str
    clock: Clock
    keys: IssuerKeys | None
    """What signs certificates and the log: for processes that run theatres."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        clock: Clock,
        keys: IssuerKeys | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Self:
        """Read what the settings name.

        Raises SettingsError, ConstructRegistryError, ConstructFilesError, OutboundPolicyError.
        """
        shipped = resource_root() / "fixtures"
        home = settings.home.resolve() / "evidence"
        store = EvidenceStore(settings.evidence_url, home)
        return cls(
            scorers=load_scorers(),
            computations=load_computations(),
            runners=load_episode_runners(),
            schemas=SchemaRegistry(),
            data=GroundTruth([*settings.dataset_roots, shipped], store),
            constructs=ConstructAccess(
                registry=_registry(settings, shipped / "constructs" / "constructs.toml"),
                policy=OutboundPolicy(allow=settings.outbound_allow),
                environment=dict(environment),
                closed=(settings.home.resolve(), *settings.dataset_roots),
                clock=clock,
                modules=_listed_modules(settings),
            ),
            judges=JudgeAccess.of(settings),
            repositories=RepositoryAccess(
                github=settings.github_api_url,
                token=environment.get(GITHUB_TOKEN),
                token_for=settings.github_token_for,
                clone_roots=settings.clone_roots,
                desk=home / "readings",
                clock=clock,
            ),
            accepted_templates=AcceptedTemplates(
                {} if settings.constructs is None else read_accepted_templates(settings.constructs)
            ),
            signatures=CertificateSignatures(own_trust_file(settings)),
            store=store,
            desk=home / "theatres",
            drafts=home / "drafts",
            issuer=settings.issuer,
            clock=clock,
            keys=keys,
        )

    def require_keys(self) -> IssuerKeys:
        """Return the keys; SettingsError in a process that may not sign."""
        if self.keys is None:
            raise SettingsError("expected a process that runs theatres, got one without keys")
        return self.keys

    def validate(self, document: JsonObject) -> ValidationReport:
        """Return what is wrong with a template of the API. Blocks for milliseconds."""
        return TemplateValidator(self.scorers).validate(
            document,
            from_api=True,
            python_modules=self.constructs.modules.names,
            judges=self.judges.providers,
        )

    def require_valid(self, document: JsonObject) -> ValidationReport:
        """Return the report of a valid template; InvalidTemplateError lists every violation."""
        report = self.validate(document)
        if report.errors or report.view is None:
            raise InvalidTemplateError(
                f"the template breaks {len(report.errors)} rule(s)", violations=report.errors
            )
        return report

    def folder_of(self, theatre_id: str) -> Path:
        """Return the folder in which a theatre's run is worked on, on this machine."""
        return self.desk / theatre_id


def _listed_modules(settings: Settings) -> ListedModules:
    """Return the modules that templates may name; SettingsError for names without a folder."""
    if not settings.python_modules:
        return NO_MODULES
    if settings.python_folder is None:
        raise SettingsError("expected ECHELON_PYTHON_FOLDER with ECHELON_PYTHON_MODULES, got none")
    names = frozenset(settings.python_modules)
    return ListedModules(folder=settings.python_folder.resolve(), names=names)


def _registry(settings: Settings, shipped: Path) -> ConstructRegistry:
    """Return the operator's registry; the shipped one where the mode is embedded and none given."""
    if settings.constructs is not None:
        return ConstructRegistry.load(settings.constructs)
    return ConstructRegistry.load(shipped) if settings.mode == "embedded" else ConstructRegistry({})
