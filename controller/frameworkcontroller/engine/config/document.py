"""Decodes a YAML document into a struct, and reports what is wrong in one line with the path of its key.

msgspec decides what is valid: types are strict, unknown fields are forbidden, ranges and patterns are `msgspec.Meta`.
YAML 1.1 turns an unquoted `on` into true, `0140` into 96 and `1:30` into 90, and of two equal keys takes the second;
here a number is accepted only as people read it, text must be text, and a key must be unique. Null is the same as
absent.
"""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

import msgspec
import yaml

S = TypeVar("S", bound=msgspec.Struct)

_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = {
    f"{_TAG}str": re.compile(r"[^\ud800-\udfff]*"),  # "\ud800" is half a character, which no UTF-8 can hold
    f"{_TAG}null": re.compile(r"(?s:.*)"),
    f"{_TAG}bool": re.compile(r"(?ai:yes|no|true|false|on|off)"),
    f"{_TAG}int": re.compile(r"[-+]?(0|[1-9][0-9_]{0,39})"),
    f"{_TAG}float": re.compile(r"[-+]?([0-9][0-9_]{0,39}(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]{1,2})?"),
}
"""How a scalar of each tag must be written; numbers are bounded, and so finite. One of any other tag is refused."""
_EXPONENT: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)(\.[0-9]*)?[eE][-+]?[0-9]+$")
_MAX_EXCERPT: Final = 60
_MAX_LINE: Final = 500


class Group(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of the mappings in a document."""


class DocumentError(ValueError):
    """One line: the key's path, or the line and column, and what is wrong there."""

    def __init__(self, reason: str, where: str = "") -> None:
        line = f"{where.removeprefix('.')}: {reason}".removeprefix(": ")
        super().__init__((line if line.isprintable() else repr(line)[1:-1])[:_MAX_LINE])


class _Loader(yaml.SafeLoader):
    """Loads text, decimal numbers, booleans, lists and mappings; anything else is an error at its path."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._paths: dict[yaml.Node, str] = {}

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 -- as in PyYAML
        """Check a node, once for all its aliases, and return its value; PyYAML constructs every node by this method."""
        if node not in self.constructed_objects:
            path = self._paths.get(node, "")[:_MAX_LINE]
            if isinstance(node, yaml.ScalarNode):
                self._check_scalar(node, path)
            elif node.tag not in self.yaml_constructors:  # `!mine {a: 1}` is a mapping
                node.tag = _TAG + ("map" if isinstance(node, yaml.MappingNode) else "seq")
            if isinstance(node, yaml.SequenceNode):
                self._paths |= {item: f"{path}[{place}]" for place, item in enumerate(node.value)}
            elif isinstance(node, yaml.MappingNode):
                self._check_keys(node, path)
        return super().construct_object(node, deep)

    def _check_scalar(self, node: yaml.ScalarNode, path: str) -> None:
        if node.tag not in _SCALARS or not _SCALARS[node.tag].fullmatch(node.value):
            found = f"{node.tag.removeprefix(_TAG)} {node.value[:_MAX_EXCERPT]!r}"
            raise DocumentError(f"{found} is not supported; write a decimal number, or quote text", path)

    def _check_keys(self, node: yaml.MappingNode, path: str) -> None:
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentError("a key must be text, found a list or a mapping", path)
            self._paths[value] = where = f"{path}.{key.value[:_MAX_EXCERPT]}"
            if key.tag != f"{_TAG}str":
                raise DocumentError("a key must be text, and merge keys are not supported", where)
            if key.value in seen:
                raise DocumentError("the key is given twice", where)
            seen.add(key.value)


# 1e3 is a number for YAML 1.2 and for the loaders that Kubernetes uses.
_Loader.add_implicit_resolver(f"{_TAG}float", _EXPONENT, list("-+0123456789"))


def decode(text: str, struct: type[S], hook: Callable[[type, Any], object]) -> S:
    """Decode a document, of which an empty one is an empty mapping.

    The hook makes a value of a type that msgspec does not know; it raises ValueError with a reason.

    Raises:
        DocumentError: the text is not YAML, or not valid for the struct.
    """
    try:
        found = _Loader(text).get_single_data()
        return msgspec.convert(_without_nulls({} if found is None else found, struct), struct, dec_hook=hook)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise DocumentError(str(error.problem or error.context), where) from error
    except yaml.reader.ReaderError as error:
        character = f"U+{int(error.character):04X}"
        raise DocumentError(f"character {error.position + 1}, {character}, is not allowed in YAML") from error
    except RecursionError:
        raise DocumentError("it is nested too deeply") from None
    except msgspec.ValidationError as error:
        reason, *path = str(error).rsplit(" - at `$", 1)
        raise DocumentError(reason, "".join(path).removesuffix("`")) from error


def _without_nulls(value: Any, wanted: Any) -> Any:
    """Leave out fields that are null; an unknown key stays, to be reported. A list in a list fits nowhere: it stays."""
    struct = _struct_in(wanted)
    if isinstance(value, list):
        return [_without_nulls(item, struct) if isinstance(item, dict) else item for item in value]
    if not isinstance(value, dict) or struct is None:
        return value
    types = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    return {
        key: _without_nulls(item, types.get(key)) for key, item in value.items() if item is not None or key not in types
    }


def _struct_in(wanted: Any) -> type[msgspec.Struct] | None:
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return wanted
    return next(filter(None, map(_struct_in, get_args(wanted))), None)
