"""Shapes of `class_name` objects, and of lists whose elements have a name."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runward.config import documents, shapes
from runward.core import errors


@dataclass(frozen=True, slots=True)
class Object:
    """A mapping whose `class_name` says which keys it has."""

    classes: Mapping[str, shapes.Fields]
    default: str | None = None
    partial: bool = False
    """Whether a file may give some keys and leave the class to what it extends; for the schema only."""

    def read(self, value: documents.Value, path: str, problems: shapes.Problems) -> Any:
        if not isinstance(value.data, dict):
            raise problems.add(value, path, f"must be a mapping with class_name, is {value.kind}")
        said = value.data.get("class_name")
        if said is None and self.default is None:
            words = ", ".join(self.classes)
            raise problems.add(value, shapes.join(path, "class_name"), f"is missing: one of {words}")
        rest = {word: item for word, item in value.data.items() if word != "class_name"}
        keys = documents.Value(rest, value.mark)
        name = self.default
        if said is not None:
            choice = shapes.Choice(tuple(self.classes))
            try:
                name = choice.read(said, shapes.join(path, "class_name"), problems)
            except shapes.Invalid:
                self._as_meant(said, keys, path, problems)
                raise
        return self.classes[name or ""].read(keys, path, problems)

    def _as_meant(
        self, said: documents.Value, keys: documents.Value, path: str, problems: shapes.Problems
    ) -> None:
        """The other mistakes of an object whose class is misspelt are told too."""
        meant = errors.nearest(str(said.data), tuple(self.classes))
        if meant is not None:
            with contextlib.suppress(shapes.Invalid):
                self.classes[meant].read(keys, path, problems)

    def schema(self) -> dict[str, Any]:
        whole = [_with_class(name, shape.schema()) for name, shape in self.classes.items()]
        if not self.partial:
            return {"oneOf": whole}
        keys = {
            word: item for one in whole for word, item in one["properties"].items() if word != "class_name"
        }
        return {"oneOf": [*whole, {"type": "object", "properties": keys, "additionalProperties": False}]}


def _with_class(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    properties = {"class_name": {"const": name}, **schema["properties"]}
    return {**schema, "properties": properties, "required": ["class_name", *schema.get("required", ())]}


def named_list(schema: dict[str, Any], key: str) -> dict[str, Any]:
    """A list whose elements have a name, or a mapping from the name."""
    properties = {key: {"type": "string"}, **schema["properties"]}
    element = {**schema, "properties": properties, "required": [key]}
    partly = {word: data for word, data in schema.items() if word != "required"}
    mapping = {"type": "object", "additionalProperties": partly}
    return {"anyOf": [{"type": "array", "items": element}, mapping]}
