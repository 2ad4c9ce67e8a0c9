"""YAML in and out: manifests as kubectl reads them, with every fault named by file and line."""

import json
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

import yaml

from frameworkclient.errors import ManifestError

_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE: Final = "tag:yaml.org,2002:merge"


class _Loader(_BASE):  # type: ignore[misc]  # the C loader has no types
    """Refuses keys that are given twice: one of the two values would be lost. Times stay text, as JSON has them."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 -- PyYAML's signature
        seen = set[str]()
        for key, _ in node.value:
            if key.tag == _MERGE or not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is given twice", key.start_mark
                )
            seen.add(key.value)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return found


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _BASE.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML's signature
        """Write every value out."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text and not any(line != line.rstrip() for line in text.split("\n")) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def documents(text: str, source: str) -> Iterator[Any]:
    """Yield the documents of a text, YAML or one JSON object; empty ones are left out.

    Raises:
        ManifestError: It is not valid YAML; the message names the source and the line.
    """
    if (found := _json_object(text)) is not None:
        yield found
        return
    try:
        for document in yaml.load_all(text, Loader=_Loader):
            if document is not None:
                yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise ManifestError(f"{source}{line}: {error.problem or error.context or 'not valid YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(f"{source}: not valid YAML: {error}") from error


def _json_object(text: str) -> dict[str, Any] | None:
    """Return the object of a JSON text, which YAML reads otherwise in places: `1e3`, and escaped surrogates.

    None if it is something else, or JSON with a fault that the reader of YAML names by its line.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        found: dict[str, Any] = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
        # A lone surrogate is no text, and could not be sent.
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError
    return found


def _no_number(text: str) -> Any:
    raise ValueError(text)


def dump(value: Mapping[str, Any]) -> str:
    """Write an object as YAML, its keys in their order."""
    return yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
