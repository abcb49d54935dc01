"""What a rule of a bucket does to the files of a work root."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.storage._s3_bucket import effect


def rule(**values: Any) -> dict[str, Any]:
    return {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}} | values


@pytest.mark.parametrize(
    ("prefix", "reached"),
    [("", True), ("ha/", True), ("ha/live/", True), ("ha/live/default/jobs/", True), ("h", True), ("logs/", False)],
)
def test_a_rule_affects_prefixes_below_and_above_its_own(prefix: str, reached: bool) -> None:
    found = {
        effect(rule(Filter={"Prefix": prefix}), "ha/live/default/"),
        effect(rule(Filter={}, Prefix=prefix), "ha/live/default/"),
        effect(rule(Filter={"And": {"Prefix": prefix, "ObjectSizeGreaterThan": 1}}), "ha/live/default/"),
    }

    assert found == {"expires objects after 30 days" if reached else ""}


@pytest.mark.parametrize(
    "harmless",
    [
        rule(Status="Disabled"),
        rule(Filter={"Tag": {"Key": "scratch", "Value": "yes"}}),
        rule(Filter={"And": {"Prefix": "", "Tags": [{"Key": "scratch", "Value": "yes"}]}}),
        rule(Expiration={"ExpiredObjectDeleteMarker": True}),
        {"Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
        {"Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 7}},
        {"Status": "Enabled", "Filter": {}, "Transitions": [{"Days": 9, "StorageClass": "STANDARD_IA"}]},
    ],
)
def test_a_rule_that_takes_no_current_object_away_is_harmless(harmless: dict[str, Any]) -> None:
    assert effect(harmless, "ha/") == ""


def test_an_archive_is_no_place_for_state() -> None:
    moving = {"Status": "Enabled", "Filter": {}, "Transitions": [{"Days": 9, "StorageClass": "GLACIER"}]}

    assert effect(moving, "ha/") == "moves objects to GLACIER after 9 days"
