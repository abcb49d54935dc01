"""Base of all documents, and small forms for each command: errors, unreadable records, copied files.

Invariants: a view names every field that it shows, so that a record that gains a field does not show it by accident; no
view holds a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model, model_validator
from typing_extensions import Self

from airflow_provider_ha.errors import HaError
from airflow_provider_ha.query_names import shown


# A path, a tree or another object that is shown as its text.
Text = Annotated[str, BeforeValidator(str)]


class View(BaseModel):
    """A frozen value with one JSON form. A nested view is made from any object that has its attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True, extra="forbid")
    shown_record: ClassVar[type | None] = None  # its docstring explains the fields that the view's does not

    @model_validator(mode="after")
    def _with_names_of_the_script(self) -> Self:
        """Name queries as their script does, wherever a text or a key names one."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if (read := _shown(value)) is not value:
                object.__setattr__(self, name, read)
        return self

    @classmethod
    def of(cls, shown: Any, **others: Any) -> Self:
        """Return the view of an object: its attributes are the fields, except for *others*."""
        if not others:
            return cls.model_validate(shown)
        found = {name: getattr(shown, name) for name in cls.model_fields if name not in others and hasattr(shown, name)}
        return cls.model_validate(found | others)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON: text, numbers, flags, lists and mappings; moments as ISO 8601."""
        return self.model_dump(mode="json")


ViewT = TypeVar("ViewT", bound=View)


def shows(record: type, names: str, **types: Any) -> Callable[[type[ViewT]], type[ViewT]]:
    """Give a view the named fields and properties of a record, in this order and without their defaults.

    A type checker does not see these fields: a view whose fields are read in Python declares them itself.

    :param types: Field -> its type, where it is not the record's.
    """

    def with_fields(view: type[ViewT]) -> type[ViewT]:
        hints = get_type_hints(record) | types
        fields: dict[str, Any] = {name: (hints.get(name) or _returned(record, name), ...) for name in names.split()}
        made = create_model(view.__name__, __base__=view, __module__=view.__module__, __doc__=view.__doc__, **fields)
        made.shown_record = record
        return made

    return with_fields


def _returned(record: type, name: str) -> Any:
    return get_type_hints(getattr(record, name).fget)["return"]


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


class ErrorView(View):
    """An error, and the next step.

    :param type: Class of the error (page Errors).
    :param message: The object and the reason.
    :param next_step: Steps that resolve the problem; empty if unknown.
    """

    type: str
    message: str
    next_step: str


class ErrorDocument(View):
    """In place of any other document: the command has failed.

    :param error: The error.
    """

    error: ErrorView


def error_view(error: HaError) -> ErrorView:
    """Return an error for programs."""
    return ErrorView(type=type(error).__name__, message=error.message, next_step=error.next_step)


class UnreadableView(View):
    """A record that a list has found and could not read: it may be the newest."""

    name: str
    reason: str


class CopiedFilesView(View):
    """The result of a copy of the examples.

    :param directory: Where they are.
    """

    directory: Text
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
