"""The scripted debater: answers whose truth, and whose tendency to lose it, is known.

It exists to test estimators and the control loop against what they should find. It is no model
of anybody.
"""

from theatre.debate.scripted.debater import Disposition, ScriptedDebater
from theatre.debate.scripted.scenarios import Scenario, read_scenario

__all__ = ["Disposition", "Scenario", "ScriptedDebater", "read_scenario"]
