"""The verdicts, compared with what Spark does: it is started on every damaged copy and goes on with one more file."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.damage import DAMAGES, Damage
from tests.support.spark.corpus import checkpoint_copy
from tests.support.spark.spark_judge import judge


# One of each kind; all of them are the long test.
ESSENTIAL = (
    "rocksdb2-in-flight",
    "rocksdb2-zip-half",
    "rocksdb2-offsets-before-last-removed",
    "hdfs-source-compact-cut",
    "hdfs-snapshot-half",
    "rocksdb1-changelog-sst-removed",
)


def disagreements(damages: list[Damage], tmp_path: Path) -> list[str]:
    """Return the damages on which Spark and the verdict differ."""
    cases, verdicts = [], []
    for damage in damages:
        copy = checkpoint_copy(damage.shape, tmp_path / damage.id)
        damage.apply(copy)
        verdicts.append(verify(LocalTree(copy)).startable)
        cases.append((damage.shape, copy))
    outcomes = judge(cases, tmp_path)
    return [
        f"{damage.id}: verified {verdict}, Spark: {outcome}"
        for damage, verdict, outcome in zip(damages, verdicts, outcomes, strict=True)
        if verdict is not (outcome == "right")
    ]


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_agrees_on_one_damage_of_each_kind(tmp_path: Path) -> None:
    assert disagreements([damage for damage in DAMAGES if damage.id in ESSENTIAL], tmp_path) == []


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not importlib.metadata.version("pyspark").startswith("4.2"), reason="the table is that of 4.2")
def test_spark_agrees_on_every_damage(tmp_path: Path) -> None:
    assert disagreements(list(DAMAGES), tmp_path) == []
