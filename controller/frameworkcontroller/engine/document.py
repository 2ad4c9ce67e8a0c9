"""A YAML document read strictly: whatever is wrong with a value is said together with its key's path.

YAML 1.1 turns an unquoted ``on`` into true, ``0140`` into 96 and ``1:30`` into 90. So a value is read as what its key
wants, from what stands in the file, and a surprise is an error that says what was found. Null is the same as absent.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_TAG: Final = "tag:yaml.org,2002:"
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_NUMBER: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_WORDS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# What PyYAML raises about a value whose tag is a lie, such as `!!int x`.
_UNREADABLE: Final = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, OverflowError)
_MAX_EXCERPT: Final = 60
_MAX_DIGITS: Final = 40
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class DocumentError(ValueError):
    """One line: the key's path, and what is wrong with it."""


@dataclass(frozen=True)
class Value:
    """A value and where it stands, such as ``podFailureSpec[3].code``; the document itself stands at ``""``."""

    node: yaml.Node
    path: str = ""

    def error(self, reason: str) -> DocumentError:
        """What to raise about this value."""
        return DocumentError(f"{self.path}: {reason}" if self.path else reason)

    def entries(self, known: Collection[str], required: Collection[str] = ()) -> dict[str, Value]:
        """The values of a mapping; those that are null are left out.

        Raises:
            DocumentError: it is none, or a key is unknown, repeated or missing.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self._unexpected("a mapping")
        found: dict[str, Value] = {}
        for key, value in self._pairs(self.node):
            if key in found:
                raise found[key].error("the key is given twice")
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                raise self._at(key, value).error("unknown key" + (f"; did you mean {near[0]}?" if near else ""))
            found[key] = self._at(key, value)
        for key in required:
            if key not in found or found[key].is_null:
                raise self._at(key, self.node).error("is required")
        return {key: value for key, value in found.items() if not value.is_null}

    def items(self) -> list[Value]:
        """The values of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            raise self._unexpected("a list")
        return [Value(node, f"{self.path}[{place}]") for place, node in enumerate(self.node.value)]

    def text(self) -> str:
        """A string; an unquoted word that YAML takes for something else is an error."""
        if not self._is("str"):
            raise self._unexpected(
                "text", "; quote it" if isinstance(self.node, yaml.ScalarNode) and not self.is_null else ""
            )
        return str(self.node.value)

    def boolean(self) -> bool:
        """True or false, in the spellings of YAML 1.1 (``yes``, ``on``)."""
        word = str(self.node.value).lower() if self._is("bool") else ""
        if word not in _WORDS:
            raise self._unexpected("true or false")
        return _WORDS[word]

    def integer(self, low: int, high: int = INT64_MAX) -> int:
        """A decimal integer in this range."""
        if not self._is("int") or not _DECIMAL.fullmatch(self.node.value):
            raise self._unexpected("an integer")
        number = int(self.node.value[:_MAX_DIGITS])  # more digits are out of any range
        if not low <= number <= high:
            raise self.error(f"must be {_range(low, high)}, found {number}")
        return number

    def number(self, above: float, high: float) -> float:
        """A number that is greater than `above` and at most `high`."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.style or not _NUMBER.fullmatch(self.node.value):
            raise self._unexpected("a number")
        number = float(self.node.value)
        if not (math.isfinite(number) and above < number <= high):
            raise self.error(f"must be greater than {above:g} and at most {high:g}, found {self.node.value}")
        return number

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return self._is("null")

    def _is(self, tag: str) -> bool:
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == _TAG + tag

    def _at(self, key: str, node: yaml.Node) -> Value:
        shown = key if key.isprintable() and len(key) <= _MAX_EXCERPT else repr(key[:_MAX_EXCERPT])
        return Value(node, f"{self.path}.{shown}" if self.path else shown)

    def _pairs(self, mapping: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
        for key, value in mapping.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.error("a key must be text, found a list or a mapping")
            if key.tag == _TAG + "merge":
                raise self._at(key.value, value).error("merge keys are not supported; write the keys out")
            yield key.value, value

    def _unexpected(self, wanted: str, advice: str = "") -> DocumentError:
        return self.error(f"must be {wanted}, found {self._found()}{advice}")

    def _found(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        if self.is_null:
            return "nothing"
        raw = _short(self.node.value)
        if self._is("str"):
            return f"the text {raw!r}"
        try:
            meaning = yaml.SafeLoader("").construct_object(self.node)
            word = str(meaning).lower() if isinstance(meaning, bool) else str(meaning)
        except _UNREADABLE:
            return f"{raw!r}, tagged {self.node.tag}"
        return raw if raw == word else f"{raw}, which YAML reads as {_short(word)}"


def parse(text: str) -> Value | None:
    """The document; None if it is empty.

    Raises:
        DocumentError: it is not YAML, or more than one document.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise DocumentError(f"{where}{error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        character = f"U+{int(error.character):04X}"
        raise DocumentError(f"character {error.position + 1}, {character}, is not allowed in YAML") from error
    except RecursionError:
        raise DocumentError("it is nested too deeply") from None
    return None if node is None or Value(node).is_null else Value(node)


def _range(low: int, high: int) -> str:
    return f"at least {low}" if high == INT64_MAX else f"from {low} to {high}"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_EXCERPT else text[:_MAX_EXCERPT] + "..."
