"""Fixtures that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checkpoints.layered_files import FIRST, LayeredFiles
from tests.support.checkpoints.recorded_damage import Recorded
from tests.support.releases.samples import unpack


@pytest.fixture
def job(tmp_path: Path) -> LayeredFiles:
    files = LayeredFiles(tmp_path / "cluster")
    files.run(FIRST)
    return files


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """Unpacks one of the checkpoints that a release wrote."""
    return lambda release, shape: unpack(release, tmp_path)[shape]
