"""The page of the JSON of ``savepoint verify`` names every key of the view, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_ha.views.savepoint_verification import SavedQueryView, SavepointVerificationView


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "savepoint-verify.md"


def test_the_page_names_the_keys_of_the_views_in_their_order() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert documented == [*SavepointVerificationView.model_fields, *SavedQueryView.model_fields]
