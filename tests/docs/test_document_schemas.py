"""The JSON schema of every document is pinned: a record that gains a field shows it only where that is decided.

``python -m tests.docs.test_document_schemas`` writes the schemas of today.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from tests.docs.json_page import shown_models


PINNED = Path(__file__).parents[1] / "data" / "document_schemas.json"


def schemas() -> dict[str, Any]:
    """Return document -> key -> its JSON schema; of an enumeration, its values. Texts are on the page about JSON."""
    by_name = models_json_schema([(model, "serialization") for model in shown_models()])[1]["$defs"]
    return {name: _without_texts(by_name[name].get("properties", by_name[name])) for name in sorted(by_name)}


def _without_texts(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_texts(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {key: _without_texts(each) for key, each in part.items() if not _is_text(key, each)}


def _is_text(key: str, value: Any) -> bool:
    # The key of a document may be called "title": then its value is a schema.
    return key == "default" or (key in {"title", "description"} and not isinstance(value, dict))


def written() -> str:
    """Return the schemas as text, with a line for each key."""
    parts = [
        f'"{name}": {{\n' + ",\n".join(f' "{key}": {json.dumps(each)}' for key, each in keys.items()) + "\n}"
        for name, keys in schemas().items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def test_every_document_has_its_pinned_schema() -> None:
    assert schemas() == json.loads(PINNED.read_text(encoding="utf-8")), "run python -m tests.docs.test_document_schemas"


if __name__ == "__main__":
    PINNED.write_text(written(), encoding="utf-8")
