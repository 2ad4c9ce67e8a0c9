"""What this program reads of any Kubernetes object: its metadata, and its conditions.

`Wire` is the base of all wire values. Fields that are not named here are skipped when an object is decoded.
"""

from datetime import datetime
from typing import Final, Self

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from frameworkcontroller.api import names

MAX_VALUE: Final = 256
"""Characters of an annotation that is kept; the controller writes none that is longer."""


class Wire(Struct, frozen=True, rename="camel", gc=False):
    """The base of all wire values: frozen, in camelCase, and without cycles for the garbage collector."""


def order_of(version: str, other: str) -> int | None:
    """Return a number below, at or above 0: the first resourceVersion is older, the same or newer; None if unknown.

    They are comparable as decimal numbers (source: Kubernetes, KEP-5504).
    """
    return int(version) - int(other) if version.isdecimal() and other.isdecimal() else None


class OwnerReference(Wire, frozen=True):
    """An owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Labels(Wire, frozen=True, omit_defaults=True):
    """The labels that decisions use, None without one. Others, 140,000 in an object of a mebibyte, are not read."""

    framework: str | None = field(default=None, name=names.FRAMEWORK_NAME)
    role: str | None = field(default=None, name=names.TASKROLE_NAME)
    index: str | None = field(default=None, name=names.TASK_INDEX)
    barrier: str | None = field(default=None, name=names.BARRIER_LABEL)
    retained: str | None = field(default=None, name=names.RETAINED_LABEL)
    gang: str | None = field(default=None, name=names.GANG_LABEL)


class Identity(Wire, frozen=True):
    """The fields of `metadata` that decisions on a Framework use: they are few, whatever a user writes beside them."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None

    def is_older_than(self, other: "Identity") -> bool:
        """Report whether this is an earlier state than `other`, which has the same name."""
        if order := order_of(self.resource_version, other.resource_version):
            return order < 0
        return self.uid == other.uid and self.generation < other.generation


class Meta(Identity, frozen=True):
    """The fields of `metadata` that decisions use."""

    deletion_grace_period_seconds: int | None = None
    labels: Labels = Labels()
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls this object."""
        return next((owner for owner in self.owner_references if owner.controller), None)

    def slim(self, annotations: frozenset[str]) -> Self:
        """Return it as it is kept: with these annotations and the owner that controls, their texts cut.

        Anybody may write some MiB there. What is longer than any value of the controller, or no ASCII, matches nothing.
        """
        owner, kept = self.controller, {key: _short(one) for key, one in self.annotations.items() if key in annotations}
        if owner is not None:
            owner = replace(owner, kind=_short(owner.kind), name=_short(owner.name), uid=_short(owner.uid))
        return replace(self, annotations=kept, owner_references=() if owner is None else (owner,))


def _short(value: str) -> str:
    return value[:MAX_VALUE] if value.isascii() else ""


class Condition(Wire, frozen=True):
    """What others say of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Conditions(Wire, frozen=True):
    """A status of which nothing but the conditions is known."""

    conditions: tuple[Condition, ...] = ()


class Companion(Wire, frozen=True):
    """An object beside the ConfigMap: the Workload of a queue, or a group of a scheduler."""

    metadata: Meta
    status: Conditions = Conditions()

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of this type."""
        return next((one for one in self.status.conditions if one.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Report whether the condition of this type is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"


class Partial(Wire, frozen=True):
    """An object of which only the metadata matters (PartialObjectMetadata of Kubernetes)."""

    metadata: Meta


IDENTITY_DECODER: Final = msgspec.json.Decoder(Identity)
PARTIAL_DECODER: Final = msgspec.json.Decoder(Partial)
