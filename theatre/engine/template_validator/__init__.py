"""Is a document a theatre template that can be committed? Schema first, then every rule.

Source: docs/contract/template.md. All violations are reported, not only the first, and no document,
however odd, makes a rule raise.
"""

from theatre.engine.template_validator.subject import ValidationReport, Violation
from theatre.engine.template_validator.validator import TemplateValidator

__all__ = ["TemplateValidator", "ValidationReport", "Violation"]
