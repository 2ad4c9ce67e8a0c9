"""Decodes a YAML document into a struct, and reports what is wrong in one line with the path of its key.

`settings` calls `decode` with the text of the configuration. msgspec decides what is valid: types are strict, unknown
fields are forbidden, ranges and patterns are `msgspec.Meta`. This module adds what YAML needs. YAML 1.1 turns an
unquoted `on` into true, `0140` into 96 and `1:30` into 90; a number is accepted only as people read it, text must be
text, and a key must be unique. Null is the same as absent.
"""

from __future__ import annotations

import difflib
import enum
import math
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import msgspec
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

S = TypeVar("S", bound=msgspec.Struct)

_TAG: Final = "tag:yaml.org,2002:"
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_EXPONENT: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)(\.[0-9]*)?[eE][-+]?[0-9]+$")
_WORDS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_KINDS: Final = {
    "object": "a mapping",
    "array": "a list",
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}
_EXPECTED: Final = re.compile(r"Expected `(\w+)(?: \| null)?`(, got .*| .*)")
_KEY: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_MAX_EXCERPT: Final = 60
INT64_MAX: Final = 2**63 - 1
_MAX_DIGITS: Final = 40
_UNREADABLE: Final = object()
"""Stands for a value that no field accepts: a date, an octal number, an unknown tag."""


class DocumentError(ValueError):
    """One line: the key's path, or the line and column, and what is wrong there."""


class _Loader(yaml.SafeLoader):
    """Loads text, decimal numbers, booleans, lists and mappings; any other value is unreadable."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:  # type: ignore[override]  # noqa: FBT001, FBT002 -- as in the base class
        """Return the mapping, with keys as they are written; values that are null stay in it."""
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    def integer(self, node: yaml.ScalarNode) -> object:
        """Return a decimal integer; what other programs read as octal, hexadecimal or base 60 is unreadable."""
        text = self.construct_scalar(node)
        # More digits are out of any range.
        return int(text[:_MAX_DIGITS].replace("_", "")) if _DECIMAL.fullmatch(text) else _UNREADABLE

    def number(self, node: yaml.ScalarNode) -> object:
        """Return a finite number."""
        try:
            found = float(self.construct_scalar(node).replace("_", ""))
        except ValueError:
            return _UNREADABLE
        return found if math.isfinite(found) else _UNREADABLE

    def boolean(self, node: yaml.ScalarNode) -> object:
        """Return true or false, in the spellings of YAML 1.1 (`yes`, `on`)."""
        return _WORDS.get(self.construct_scalar(node).lower(), _UNREADABLE)

    def other(self, node: yaml.Node) -> object:
        """Return a list or mapping whatever its tag; a scalar of any other tag is unreadable."""
        if isinstance(node, yaml.MappingNode):
            return self.construct_yaml_map(node)
        return self.construct_yaml_seq(node) if isinstance(node, yaml.SequenceNode) else _UNREADABLE


_Loader.add_constructor(_TAG + "int", _Loader.integer)
_Loader.add_constructor(_TAG + "float", _Loader.number)
_Loader.add_constructor(_TAG + "bool", _Loader.boolean)
_Loader.add_constructor(_TAG + "timestamp", _Loader.other)
_Loader.add_constructor(None, _Loader.other)
# 1e3 is a number for YAML 1.2 and for the loaders that Kubernetes uses.
_Loader.add_implicit_resolver(_TAG + "float", _EXPONENT, list("-+0123456789"))


def decode(text: str, struct: type[S], hook: Callable[[type, Any], object]) -> S:
    """Decode a document.

    Args:
        text: YAML; an empty document is an empty mapping.
        struct: what the document must be.
        hook: makes a value of a type that msgspec does not know; it raises ValueError with a reason.

    Raises:
        DocumentError: the text is not YAML, or not valid for the struct.
    """
    node = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return struct()
        _check_keys(node, "", set())
        found = loader.construct_document(node)
        return msgspec.convert(_without_nulls({} if found is None else found, struct), struct, dec_hook=hook)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise DocumentError(f"{where}{error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        character = f"U+{int(error.character):04X}"
        raise DocumentError(f"character {error.position + 1}, {character}, is not allowed in YAML") from error
    except RecursionError:
        raise DocumentError("it is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise DocumentError(_explain(str(error), node, struct)) from error


def _check_keys(node: yaml.Node, path: str, checked: set[int]) -> None:
    """Refuse keys that are not text, are given twice, or merge another mapping."""
    if id(node) in checked:  # an alias
        return
    checked.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for place, item in enumerate(node.value):
            _check_keys(item, f"{path}[{place}]", checked)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise DocumentError(f"{path}: a key must be text, found a list or a mapping".removeprefix(": "))
        where = f"{path}.{_printable(key.value)}".removeprefix(".")
        if key.tag == _TAG + "merge":
            raise DocumentError(f"{where}: merge keys are not supported; write the keys out")
        if key.value in seen:
            raise DocumentError(f"{where}: the key is given twice")
        seen.add(key.value)
        _check_keys(value, where, checked)


def _without_nulls(value: Any, struct: type[msgspec.Struct] | None) -> Any:
    """Leave out fields that are null; an unknown key stays, to be reported."""
    if struct is None:
        return value
    if isinstance(value, list):
        return [_without_nulls(item, struct) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict):
        return value
    known = {field.encode_name: _struct_in(field.type) for field in msgspec.structs.fields(struct)}
    return {
        key: _without_nulls(item, known.get(key)) for key, item in value.items() if item is not None or key not in known
    }


# --- errors: msgspec's message has the path and the kind of error; type and node at the path say the rest -------------


def _explain(message: str, node: Any, struct: type[msgspec.Struct]) -> str:
    reason, _, place = (
        message.rpartition(" - at `$") if message.endswith("`") and " - at `$" in message else (message, "", "")
    )
    path = place.removesuffix("`")
    wanted: Any = struct
    for name, index in _STEP.findall(path):
        if name:
            wanted = next(field.type for field in _fields_of(wanted) if field.encode_name == name)
            node = next(value for key, value in node.value if key.value == name)
        else:
            node = node.value[int(index)]
    path = path.removeprefix(".")
    if match := _KEY.fullmatch(reason):
        kind, key = match.groups()
        path = f"{path}.{_printable(key)}".removeprefix(".")
        reason = "is required" if kind == "missing required" else _unknown(key, wanted)
    elif match := _EXPECTED.fullmatch(reason):
        kind, rest = match.groups()
        reason = _unexpected(kind, wanted, node, is_kind=not rest.startswith(", got"))
    elif reason.startswith("Invalid enum value"):
        reason = f"must be {_choices(wanted)}, found {_found(node)}"
    return " ".join((f"{path}: {reason}" if path else reason).splitlines())


def _unknown(key: str, wanted: Any) -> str:
    near = difflib.get_close_matches(key, [field.encode_name for field in _fields_of(wanted)], 1)
    return "unknown key" + (f"; did you mean {near[0]}?" if near else "")


def _unexpected(kind: str, wanted: Any, node: yaml.Node, *, is_kind: bool) -> str:
    """Say what the value must be: of a kind, or within the limits of that kind."""
    limits = next((_limits(part) for part in _parts(wanted) if isinstance(part, msgspec.Meta)), "")
    what = limits if is_kind and limits else _KINDS.get(kind, kind)
    quote = kind == "str" and isinstance(node, yaml.ScalarNode) and node.tag not in {_TAG + "str", _TAG + "null"}
    return f"must be {what}, found {_found(node)}" + ("; quote it" if quote else "")


def _limits(meta: msgspec.Meta) -> str:
    if meta.description:
        return meta.description
    low = f"greater than {meta.gt}" if meta.gt is not None else f"at least {meta.ge}"
    return low if meta.le in {None, INT64_MAX} else f"{low} and at most {meta.le}"


def _choices(wanted: Any) -> str:
    choices = [part for part in _parts(wanted) if isinstance(part, str)]
    for part in _parts(wanted):
        if isinstance(part, type) and issubclass(part, enum.Enum):
            choices = [str(member) for member in part]
    return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"


def _found(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list" if node.value else "an empty list"
    if node.tag == _TAG + "null":
        return "nothing"
    raw = _short(node.value)
    if node.tag == _TAG + "str":
        return f"the text {raw!r}"
    try:
        meaning = yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        # What PyYAML raises about a value whose tag is a lie, such as `!!int x`.
        return f"{raw!r}, tagged {node.tag}"
    word = str(meaning).lower() if isinstance(meaning, bool) else str(meaning)
    return raw if raw == word else f"{raw}, which YAML reads as {_short(word)}"


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield a type and everything that it is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    return next(
        (part for part in _parts(annotation) if isinstance(part, type) and issubclass(part, msgspec.Struct)), None
    )


def _fields_of(annotation: Any) -> tuple[msgspec.structs.FieldInfo, ...]:
    struct = _struct_in(annotation)
    return () if struct is None else msgspec.structs.fields(struct)


def _printable(key: str) -> str:
    return key if key.isprintable() and len(key) <= _MAX_EXCERPT else repr(key[:_MAX_EXCERPT])


def _short(text: str) -> str:
    return text if len(text) <= _MAX_EXCERPT else text[:_MAX_EXCERPT] + "..."
