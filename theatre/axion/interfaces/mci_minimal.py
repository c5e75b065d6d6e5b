"""The interface `mci_minimal`: agents name their own factors, and the kernel sees no world.

Nothing here, nor anything it imports, knows the environment (an import contract).
"""

from theatre.axion.interfaces.base import K8, Interface, Mode

MCI_MINIMAL = Interface(Mode.MCI_MINIMAL, K8)
