"""Puts the jar of the component into the wheel."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


sys.path.insert(0, str(Path(__file__).parent))

from build_component import NoJdkError, build  # a script beside this one; both are in the sdist


REQUIRED = "SPARK_HA_COMPONENT_REQUIRED"


class ComponentBuildHook(BuildHookInterface[Any]):
    """Builds the jar before the wheel.

    Without a JDK the wheel is built without it, since jobs on local and mounted paths do not need it: what needs it
    says so. ``SPARK_HA_COMPONENT_REQUIRED=1`` refuses that, for wheels that others install.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar."""
        try:
            jar = build(Path(self.root))
        except NoJdkError as error:
            if os.environ.get(REQUIRED):
                raise
            self.app.display_warning(f"The wheel has no component for Spark's JVM: {error}")
            return
        if version != "editable":  # which finds it where it is
            build_data["force_include"][str(jar)] = str(jar.relative_to(self.root))
