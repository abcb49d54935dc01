"""What each release of Spark wrote, and what it does with damage to it: the verdict for that release has to agree.

Every release is really started, on the checkpoint as it stands and on each damaged copy, and goes on with one more
file. Where the verdict is yes it must end with the right state and under the same query id; where it is no it must not.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import batches
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from tests.support.releases.corpus import judge, place_of, recorded, shapes_of
from tests.support.releases.damages import DAMAGES, NothingToDamageError, ReleaseDamage
from tests.support.releases.installed import BY_VERSION, SPARKS, Spark
from tests.support.releases.shapes import BY_NAME, Shape


# A release that is not installed or recorded yet takes minutes of two idle cores.
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3600)]
NEWEST, MANAGED = SPARKS[-1], BY_VERSION["4.2.0"]
# What the oldest, the managed and the newest release do with damage; `make proof SUITE=verdicts` asks all of them.
ASKED = (SPARKS[0], MANAGED, NEWEST)
each_release = pytest.mark.parametrize(
    "spark",
    [spark if spark in ASKED else pytest.param(spark, marks=pytest.mark.hours) for spark in SPARKS],
    ids=lambda spark: spark.version,
)
# The verdict is no, and 3.0 goes on: it plans again what was planned and committed before, or starts again over the old
# state. It ends right here because nothing but the missing entries has changed.
CAUTIOUS = {"3.0.3": ("offsets-removed of hdfs", "commits-ahead of hdfs")}
# What a query asks for, only a proof tells: the key of a join was not nullable in 3.2 and is for 4.2, and a processor
# of 4.0 in Python is another operator than that of later releases.
OTHER_QUERY = {"3.2.4": ("rocksdb1-join",), "4.0.5": ("rocksdb1-processor",)}
# Nothing but the state tells whether the query of these logs keeps any.
UNKNOWN = ("commits-removed of stateless",)
# A query without state looks like one that lost all of it, and gaps are named: neither is an alarm.
ORDINARY = {
    "stateless": {"STATE_UNKNOWN"},
    "continuous": {"STATE_UNKNOWN"},
    "async": {"STATE_UNKNOWN", "OFFSETS_SPARSE"},
    "async-purged": {"STATE_UNKNOWN", "OFFSETS_SPARSE"},
}


def copies(spark: Spark, scratch: Path) -> list[tuple[Shape, Path]]:
    """Return a copy of everything that *spark* recorded."""
    recorded(spark)
    return [
        (shape, Path(shutil.copytree(place_of(spark, shape) / "checkpoint", scratch / shape.name)))
        for shape in shapes_of(spark)
    ]


def alarms(shape: Shape, report: VerificationReport) -> list[str]:
    """Return what a report says against a checkpoint that is not damaged."""
    said = [
        f"{finding.code.value} {finding.path}: {finding.message}"
        for finding in report.findings
        if finding.code.value not in ORDINARY.get(shape.name, set())
    ]
    return said if report.startable else [f"not startable: {said}"]


@pytest.mark.hours
@each_release
def test_what_a_release_wrote_is_called_sound_for_it_and_for_newer_ones(spark: Spark, tmp_path: Path) -> None:
    wrong = {}
    for shape, copy in copies(spark, tmp_path):
        releases = {spark.version, MANAGED.version, NEWEST.version}
        for judged_as in (one for one in releases if shape.is_read_by(one, spark.version)):
            for depth in ("quick", "full"):
                report = verify(LocalTree(copy), depth=depth, spark_version=judged_as)
                if said := alarms(shape, report):
                    wrong[f"{shape.name}, {depth}, for {judged_as}"] = said
    assert wrong == {}


@pytest.mark.hours
@each_release
def test_every_batch_that_its_retention_keeps_is_restorable(spark: Spark, tmp_path: Path) -> None:
    wrong = {}
    for shape, copy in copies(spark, tmp_path):
        report = verify(LocalTree(copy), spark_version=spark.version)
        # The oldest entry of a purged log has no predecessor any more, and a state without deltas no way to be loaded.
        kept = 2 if shape.name.endswith("-purged") else len(batches(LocalTree(copy), "commits"))
        expected = batches(LocalTree(copy), "commits")[-kept:]
        if not set(expected) <= set(report.restorable):
            wrong[shape.name] = (report.restorable, expected)
    assert wrong == {}


@pytest.mark.hours
@each_release
def test_the_managed_release_continues_checkpoints_of_older_releases(spark: Spark, tmp_path: Path) -> None:
    if spark.short > MANAGED.short:
        pytest.skip("there is no way back to an older release")
    shapes = copies(spark, tmp_path)
    verdicts = [verify(LocalTree(copy), spark_version=MANAGED.version).startable for _, copy in shapes]
    outcomes = judge(MANAGED, spark, [(shape.name, copy) for shape, copy in shapes], tmp_path)
    found = disagreements([shape.name for shape, _ in shapes], verdicts, outcomes)
    assert unexpected(found, OTHER_QUERY.get(spark.version, ())) == []


@pytest.mark.hours
@pytest.mark.parametrize(
    "spark",
    [SPARKS[0], MANAGED, pytest.param(NEWEST, marks=pytest.mark.hours)],
    ids=lambda spark: spark.version,
)
def test_a_release_reacts_to_damage_as_its_verdict_predicts(spark: Spark, tmp_path: Path) -> None:
    names, cases, verdicts, unseen = [], [], [], []
    for damage, shape in damages_of(spark):
        copy = damaged(spark, damage, shape, tmp_path)
        if copy is None:
            continue
        report = verify(LocalTree(copy), spark_version=spark.version)
        found = {finding.code.value for finding in report.findings}
        if damage.code is not None and damage.code not in found:
            unseen.append(f"{damage.name} of {shape}: {sorted(found)} instead of {damage.code}")
        if damage.at_once:
            names.append(f"{damage.name} of {shape}")
            cases.append((shape, copy))
            verdicts.append(report.startable)
    outcomes = judge(spark, spark, cases, tmp_path)
    differing = disagreements(names, verdicts, outcomes)
    assert unexpected(differing, (*CAUTIOUS.get(spark.version, ()), *UNKNOWN)) + unseen == []


def unexpected(found: list[str], known: tuple[str, ...]) -> list[str]:
    """Return the disagreements but those that are known; raises when a known one is none any more."""
    assert all(any(line.startswith(f"{name}: ") for line in found) for name in known), (known, found)
    return [line for line in found if not line.startswith(tuple(f"{name}: " for name in known))]


def damages_of(spark: Spark) -> list[tuple[ReleaseDamage, str]]:
    """Return every damage with each shape that *spark* was recorded with and that it is done to."""
    made = {shape.name for shape in shapes_of(spark)}
    return [(damage, shape) for damage in DAMAGES for shape in damage.shapes if shape in made]


def damaged(spark: Spark, damage: ReleaseDamage, shape: str, scratch: Path) -> Path | None:
    """Return a damaged copy; ``None`` where the release wrote no such file."""
    recorded(spark)
    copy = scratch / f"{damage.name}-{shape}"
    shutil.copytree(place_of(spark, BY_NAME[shape]) / "checkpoint", copy)
    try:
        damage.apply(copy)
    except NothingToDamageError:
        return None
    return copy


def disagreements(names: list[str], verdicts: list[bool | None], outcomes: list[str]) -> list[str]:
    """Return where the verdict and Spark differ."""
    return [
        f"{name}: verified {verdict}, Spark: {outcome}"
        for name, verdict, outcome in zip(names, verdicts, outcomes, strict=True)
        if verdict is not (outcome == "right")
    ]
