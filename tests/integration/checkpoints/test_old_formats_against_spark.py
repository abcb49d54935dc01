"""Spark of today goes on from what the writer of old formats made, and from damaged copies as the verdict says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.old_formats import BATCHES, RELEASES, damages_of, write_checkpoint
from tests.support.releases.damages import NothingToDamageError
from tests.support.releases.installed import BY_VERSION, run_program
from tests.support.releases.shapes import Shape, truth
from tests.support.spark.corpus import NEXT_FILE, write_input


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3600)]
COUNTS = truth(Shape("old", "counts", (2, 1), files=BATCHES))


def outcomes(places: list[Path], scratch: Path) -> list[str]:
    """Go on with the checkpoint in each place; ``"right"``, ``"wrong: ..."`` or ``"failed: ..."``."""
    tasks: list[dict[str, Any]] = []
    for place in places:
        write_input(place / "input", NEXT_FILE)
        told = {"kind": "counts", "conf": {}, "input": str(place / "input"), "out": ""}
        tasks.append(told | {"checkpoint": str(place / "checkpoint")})
    answers = run_program(BY_VERSION["4.2.0"], "judge", tasks, scratch)
    return [_outcome(answer) for answer in answers]


def _outcome(answer: dict[str, Any]) -> str:
    if answer["error"]:
        return f"failed: {answer['error']}"
    rows = sorted(answer["rows"], key=str)
    return "right" if sorted(map(_items, rows)) == sorted(map(_items, COUNTS)) else f"wrong: {rows}"


def _items(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(row.items())


@pytest.mark.hours
def test_spark_continues_from_checkpoints_of_old_releases(tmp_path: Path) -> None:
    places = [tmp_path / release for release in RELEASES]
    for release, place in zip(RELEASES, places, strict=True):
        write_checkpoint(release, place)
    assert dict(zip(RELEASES, outcomes(places, tmp_path), strict=True)) == dict.fromkeys(RELEASES, "right")


@pytest.mark.hours
@pytest.mark.parametrize("release", ["2.1.3", "2.4.8"])
def test_spark_reacts_to_damage_as_the_verdict_predicts(release: str, tmp_path: Path) -> None:
    places, verdicts = [], []
    for damage in damages_of(release):
        place = tmp_path / damage.name
        checkpoint = write_checkpoint(release, place)
        try:
            damage.apply(checkpoint)
        except NothingToDamageError:
            continue
        if damage.at_once:
            places.append(place)
            verdicts.append(verify(LocalTree(checkpoint), spark_version="4.2.0").startable)
    wrong = [
        f"{place.name}: verified {verdict}, Spark: {outcome}"
        for place, verdict, outcome in zip(places, verdicts, outcomes(places, tmp_path), strict=True)
        if verdict is not (outcome == "right")
    ]
    assert wrong == []
