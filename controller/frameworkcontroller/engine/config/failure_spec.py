"""`podFailureSpec`: what failures of Pods mean in this cluster (docs/reference/framework-api.md, section 6)."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from frameworkcontroller.api.codes import Attribute, TypeName, is_reserved
from frameworkcontroller.api.status import CompletionType
from frameworkcontroller.core.policies.classification import CodeInfo, ContainerPattern, PodPattern, Range, Regex

Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


class RegexSpec:
    """A regular expression in the file (a class that msgspec does not know, so that `parse_regex` makes it)."""

    def __init__(self, regex: Regex) -> None:
        self.regex = regex


def parse_regex(_wanted: type, value: Any) -> RegexSpec:
    """Compile a regular expression: the hook of `document.decode`.

    Raises:
        TypeError: it is no text; in msgspec's words, since msgspec adds the path.
        ValueError: it is not in RE2 syntax.
    """
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return RegexSpec(Regex.parse(value))


class _Spec(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Base of the values in the file."""


class RangeSpec(_Spec, frozen=True):
    """Integers, ends included; without an end the range is open there."""

    min: Int32 | None = None
    max: Int32 | None = None

    def __post_init__(self) -> None:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is greater than max {self.max}")

    def range(self) -> Range:
        """Return what the core matches with."""
        return Range(self.min, self.max)


class ContainerPatternSpec(_Spec, frozen=True):
    """What one container of the Pod must look like."""

    name_regex: RegexSpec | None = None
    reason_regex: RegexSpec | None = None
    message_regex: RegexSpec | None = None
    signal_range: RangeSpec | None = None
    code_range: RangeSpec | None = None

    def pattern(self) -> ContainerPattern:
        """Return what the core matches with."""
        return ContainerPattern(
            name=_compiled(self.name_regex),
            reason=_compiled(self.reason_regex),
            message=_compiled(self.message_regex),
            signal=None if self.signal_range is None else self.signal_range.range(),
            code=None if self.code_range is None else self.code_range.range(),
        )


class PodPatternSpec(_Spec, frozen=True):
    """What the Pod must look like."""

    name_regex: RegexSpec | None = None
    reason_regex: RegexSpec | None = None
    message_regex: RegexSpec | None = None
    containers: tuple[ContainerPatternSpec, ...] = ()

    def pattern(self) -> PodPattern:
        """Return what the core matches with."""
        return PodPattern(
            name=_compiled(self.name_regex),
            reason=_compiled(self.reason_regex),
            message=_compiled(self.message_regex),
            containers=tuple(container.pattern() for container in self.containers),
        )


class TypeSpec(_Spec, frozen=True):
    """The kind of failure, by which `fancyRetryPolicy` decides."""

    name: Literal["Failed"] = "Failed"
    attributes: tuple[Attribute, ...] = ()


class CodeSpec(_Spec, frozen=True):
    """One entry: the code of a Pod that any of the patterns matches."""

    code: Int32
    pod_patterns: Annotated[
        tuple[PodPatternSpec, ...],
        Meta(min_length=1, description="a list that is not empty (the pattern {} matches every failed Pod)"),
    ]
    phrase: str = ""
    type: TypeSpec = TypeSpec()

    def info(self) -> CodeInfo:
        """Return what the core classifies with."""
        return CodeInfo(
            self.code,
            self.phrase,
            CompletionType(name=TypeName.FAILED, attributes=self.type.attributes),
            tuple(pattern.pattern() for pattern in self.pod_patterns),
        )


def check_codes(path: str, specs: tuple[CodeSpec, ...]) -> None:
    """Check the codes of the list at this path against the predefined ones and against one another.

    Raises:
        ValueError: a code is reserved or given twice; the message begins with its path.
    """
    places: dict[int, int] = {}
    for place, spec in enumerate(specs):
        where, first = f"{path}[{place}].code", places.setdefault(spec.code, place)
        if is_reserved(spec.code):
            raise ValueError(f"{where}: {spec.code} is reserved, as all of 200 to 219 and of -999 to 0 are")
        if first != place:
            raise ValueError(f"{where}: {spec.code} is the code of {path}[{first}] already")


def _compiled(spec: RegexSpec | None) -> Regex | None:
    return None if spec is None else spec.regex
