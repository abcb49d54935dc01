"""Checkpoints that Spark's own tests keep of its old releases: 2.1.0 to 4.0.1, each really written by that release.

They lie in the tests jar of ``spark-sql`` on Maven Central, which Ivy (a part of PySpark) brings once per machine. Kept
in ``build/test-cache/spark-fixtures``; nothing of it is in this repository.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.releases.installed import ROOT


RELEASE = "4.2.0"
CACHE = (ROOT / "build" / "test-cache").resolve() / "spark-fixtures"
_PREFIX = "structured-streaming/"
_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tests" module="fixtures"/>
  <dependencies>
    <dependency org="org.apache.spark" name="spark-sql_2.13" rev="{RELEASE}" transitive="false">
      <artifact name="spark-sql_2.13" type="test-jar" ext="jar" m:classifier="tests"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def fixtures() -> Path:
    """Return the folder of the fixtures, one folder for each. Skips the test where they cannot be had."""
    made = CACHE / RELEASE
    made.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "complete").exists():
            with zipfile.ZipFile(_jar(made)) as jar:
                jar.extractall(made, [name for name in jar.namelist() if name.startswith(_PREFIX)])
            (made / "complete").touch()
    return made / _PREFIX


def _jar(made: Path) -> Path:
    wanted = made / "ivy.xml"
    wanted.write_text(_IVY)
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    (ivy,) = Path(spec.submodule_search_locations[0]).glob("jars/ivy-*.jar")
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java"
    command = [java, "-cp", str(ivy), "org.apache.ivy.Main", "-warn", "-cache", str(CACHE / "ivy"), "-ivy", str(wanted)]
    done = subprocess.run(command, check=False, timeout=900, capture_output=True, text=True)
    found = sorted((CACHE / "ivy").rglob(f"spark-sql_2.13-{RELEASE}-tests.jar"))
    if not found:
        pytest.skip(f"the tests jar of Spark {RELEASE} could not be had: {(done.stdout + done.stderr)[-300:]}")
    return found[0]
