"""`podFailureSpec`: what failures of Pods mean in this cluster (docs/reference/framework-api.md, section 6)."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from frameworkcontroller.api.codes import Attribute, TypeName, is_reserved
from frameworkcontroller.api.status import CompletionType
from frameworkcontroller.core.policies.classification import CodeInfo, Int32, PodPattern, Regex
from frameworkcontroller.engine.config.document import Group


def parse_regex(_wanted: type, value: Any) -> Regex:
    """Compile a regular expression: the hook of `document.decode`.

    Raises:
        TypeError: it is no text; in msgspec's words, since msgspec adds the path.
        ValueError: it is not in RE2 syntax.
    """
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    return Regex(value)


class TypeSpec(Group, frozen=True):
    """The kind of failure, by which `fancyRetryPolicy` decides."""

    name: Literal["Failed"] = "Failed"
    attributes: tuple[Attribute, ...] = ()


class CodeSpec(Group, frozen=True):
    """One entry: the code of a Pod that any of the patterns matches."""

    code: Int32
    pod_patterns: Annotated[
        tuple[PodPattern, ...],
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
            self.pod_patterns,
        )


def check_codes(specs: tuple[CodeSpec, ...]) -> None:
    """Check the codes against the predefined ones and against one another.

    Raises:
        ValueError: a code is reserved or given twice; the message begins with its path.
    """
    places: dict[int, int] = {}
    for place, spec in enumerate(specs):
        where, first = f"podFailureSpec[{place}].code", places.setdefault(spec.code, place)
        if is_reserved(spec.code):
            raise ValueError(f"{where}: {spec.code} is reserved, as all of 200 to 219 and of -999 to 0 are")
        if first != place:
            raise ValueError(f"{where}: {spec.code} is the code of podFailureSpec[{first}] already")
