"""The base of all views.

Invariants: a view names every field that it shows, so that a record that gains a field does not show it by accident; no
view holds a secret.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict
from typing_extensions import Self


# A path, a tree or another object that is shown as its text.
Text = Annotated[str, BeforeValidator(str)]


class View(BaseModel):
    """A frozen value with one JSON form. A nested view is made from any object that has its attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True, extra="forbid")

    @classmethod
    def of(cls, shown: Any) -> Self:
        """Return the view of an object that has all its fields as attributes."""
        return cls.model_validate(shown)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON: text, numbers, flags, lists and mappings; moments as ISO 8601."""
        return self.model_dump(mode="json")
