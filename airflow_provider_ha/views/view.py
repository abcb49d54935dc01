"""The base of all views.

Invariants: a view names every field that it shows, so that a record that gains a field does not show it by accident; no
view holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, model_validator
from typing_extensions import Self

from airflow_provider_ha.query_names import shown


# A path, a tree or another object that is shown as its text.
Text = Annotated[str, BeforeValidator(str)]


class View(BaseModel):
    """A frozen value with one JSON form. A nested view is made from any object that has its attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True, extra="forbid")

    @model_validator(mode="after")
    def _with_names_of_the_script(self) -> Self:
        """Name queries as their script does, wherever a text or a key names one."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if (read := _shown(value)) is not value:
                object.__setattr__(self, name, read)
        return self

    @classmethod
    def of(cls, shown: Any) -> Self:
        """Return the view of an object that has all its fields as attributes."""
        return cls.model_validate(shown)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON: text, numbers, flags, lists and mappings; moments as ISO 8601."""
        return self.model_dump(mode="json")


def _shown(value: Any) -> Any:
    """Return a value whose texts are for people; the value itself where nothing of it changes."""
    if type(value) is str:
        return shown(value)
    if isinstance(value, Mapping):
        changed = {_shown(key): _shown(each) for key, each in value.items()}
        same = all(
            a is b for pair in zip(changed.items(), value.items(), strict=False) for a, b in zip(*pair, strict=True)
        )
        return value if same and len(changed) == len(value) else changed
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        read = [_shown(each) for each in value]
        return value if all(a is b for a, b in zip(read, value, strict=True)) else type(value)(read)
    return value
