"""Page about JSON, and the pinned schema of every document."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.get_provider_info import get_provider_info
from tests.docs.json_page import COMMANDS, OPERATORS, PAGE, described, page, shown_models


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))
    if not hasattr(group, "commands"):
        yield " ".join(path), group


WITH_JSON = {
    name: command
    for name, command in commands(typer.main.get_command(app))
    if any("--json" in parameter.opts for parameter in command.params)
}


def test_the_page_is_in_step_with_the_views() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.json_page"


def test_every_command_with_json_names_its_documents() -> None:
    assert WITH_JSON.keys() == COMMANDS.keys()


def test_every_operator_and_sensor_names_its_documents() -> None:
    info = get_provider_info()
    modules = [name for kind in ("operators", "sensors") for entry in info[kind] for name in entry["python-modules"]]
    classes = {name for module in modules for name in importlib.import_module(module).__all__}

    assert OPERATORS.keys() == classes


@pytest.mark.parametrize("model", shown_models(), ids=lambda model: str(model.__name__))
def test_every_key_is_explained(model: type[BaseModel]) -> None:
    assert set(model.model_fields) <= described(model).keys()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_written_with_the_views_that_it_names(name: str) -> None:
    written = inspect.getmodule(WITH_JSON[name].callback)
    assert written is not None
    modules = {written.__name__} | {getattr(value, "__module__", "") for value in vars(written).values()}
    modules |= {getattr(value, "__name__", "") for value in vars(written).values() if inspect.ismodule(value)}
    sources = "".join(inspect.getsource(__import__(each, fromlist=["_"])) for each in modules if ".cli." in each)

    missing = [view for view in COMMANDS[name].values() if view.__module__ not in sources]

    assert missing == []


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
    assert schemas() == json.loads(PINNED.read_text(encoding="utf-8")), "run python -m tests.docs.test_json_page"


if __name__ == "__main__":
    PINNED.write_text(written(), encoding="utf-8")
