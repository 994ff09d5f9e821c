"""Published studies as experiments: one file a study.

Every module of this package is imported: a study that registers itself is found.
"""

from __future__ import annotations

import importlib
import pkgutil

from lengthwise.studies.study import Choice as Choice
from lengthwise.studies.study import Study as Study
from lengthwise.studies.study import Trial as Trial
from lengthwise.studies.study import studies as studies

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")
