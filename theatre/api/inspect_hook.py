"""What inspect_ai loads by its entry-point group `inspect_ai`, in whatever it runs.

That is next to nothing, unless `ECHELON_INSPECT` asks for a record.
"""

import os
from typing import Final

VARIABLE: Final = "ECHELON_INSPECT"

if VARIABLE in os.environ:
    from theatre.api.inspect_recording import register

    register()
