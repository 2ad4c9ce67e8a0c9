"""``podFailureSpec``: what failures of Pods mean in this cluster (source: the Framework API, section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkcontroller.api.codes import Attribute, TypeName, is_reserved
from frameworkcontroller.api.types import CompletionType
from frameworkcontroller.core.classify import CodeInfo, ContainerPattern, PodPattern, Range, Regex

from .document import INT32_MAX

if TYPE_CHECKING:
    from .document import Value

_KEYS: Final = ("code", "phrase", "type", "podPatterns")
_INT32_MIN: Final = -INT32_MAX - 1


def read_codes(value: Value) -> tuple[CodeInfo, ...]:
    """The entries in their order; the first that matches a Pod is its code.

    Raises:
        DocumentError: an entry is not valid; the message names the key.
    """
    infos: dict[int, CodeInfo] = {}
    for item in value.items():
        info = _code(item)
        if info.code in infos:
            first = list(infos).index(info.code)
            raise item.entries(_KEYS)["code"].error(f"{info.code} is the code of {value.path}[{first}] already")
        infos[info.code] = info
    return tuple(infos.values())


def _code(item: Value) -> CodeInfo:
    keys = item.entries(_KEYS, required=_KEYS)
    code = keys["code"].integer(_INT32_MIN, INT32_MAX)
    if is_reserved(code):
        raise keys["code"].error(f"{code} is reserved, as all of 200 to 219 and of -999 to 0 are")
    phrase = keys["phrase"].text()
    if not phrase:
        raise keys["phrase"].error("must not be empty")
    patterns = tuple(_pod_pattern(pattern) for pattern in keys["podPatterns"].items())
    if not patterns:
        raise keys["podPatterns"].error("must not be empty; the pattern {} matches every failed Pod")
    return CodeInfo(code, phrase, _type(keys["type"]), patterns)


def _type(value: Value) -> CompletionType:
    keys = value.entries(("name", "attributes"), required=("name",))
    name = keys["name"].text()
    if name != TypeName.FAILED:
        raise keys["name"].error(f"must be {TypeName.FAILED}, found the text {name!r}")
    attributes = [_attribute(item) for item in keys["attributes"].items()] if "attributes" in keys else []
    return CompletionType(name=TypeName.FAILED, attributes=tuple(attributes))


def _attribute(value: Value) -> Attribute:
    text = value.text()
    try:
        return Attribute(text)
    except ValueError:
        raise value.error(f"must be one of {', '.join(Attribute)}, found the text {text!r}") from None


def _pod_pattern(value: Value) -> PodPattern:
    keys = value.entries(("nameRegex", "reasonRegex", "messageRegex", "containers"))
    containers = keys["containers"].items() if "containers" in keys else ()
    return PodPattern(
        name=_regex(keys.get("nameRegex")),
        reason=_regex(keys.get("reasonRegex")),
        message=_regex(keys.get("messageRegex")),
        containers=tuple(_container_pattern(item) for item in containers),
    )


def _container_pattern(value: Value) -> ContainerPattern:
    keys = value.entries(("nameRegex", "reasonRegex", "messageRegex", "signalRange", "codeRange"))
    return ContainerPattern(
        name=_regex(keys.get("nameRegex")),
        reason=_regex(keys.get("reasonRegex")),
        message=_regex(keys.get("messageRegex")),
        signal=_range(keys.get("signalRange")),
        code=_range(keys.get("codeRange")),
    )


def _regex(value: Value | None) -> Regex | None:
    if value is None:
        return None
    source = value.text()
    try:
        return Regex.parse(source)
    except ValueError as error:
        raise value.error(str(error)) from error


def _range(value: Value | None) -> Range | None:
    if value is None:
        return None
    keys = value.entries(("min", "max"))
    ends = {key: end.integer(_INT32_MIN, INT32_MAX) for key, end in keys.items()}
    found = Range(ends.get("min"), ends.get("max"))
    if found.min is not None and found.max is not None and found.min > found.max:
        raise value.error(f"min {found.min} is greater than max {found.max}")
    return found
