"""Every outcome of a review and its one sentence: the same in the response, the metric, the log and the annotation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from frameworkinjector import names

if TYPE_CHECKING:
    from collections.abc import Mapping


class Outcome(StrEnum):
    """What the API server is told: go on with a patch, go on without one, no, or that it asked nonsense (HTTP 4xx)."""

    INJECTED = "injected"
    LEFT_ALONE = "left-alone"
    REFUSED = "refused"
    REJECTED = "rejected"


_ENV_FILES_SINCE = "Kubernetes 1.34 with the feature gate EnvFiles, on by default from 1.35"


class Reason(Enum):
    """An outcome, its HTTP status code, and its sentence; the fields in braces are the verdict's details.

    The code of a refusal is what the client of the API server sees: 422 says that the same Pod will be refused again,
    so a FrameworkController does not retry it; 500 says that it may.
    """

    INJECTED = (Outcome.INJECTED, 200, "The barrier was added.")

    NOT_OPTED_IN = (
        Outcome.LEFT_ALONE,
        200,
        f"The Pod does not carry the label {names.LABEL}={names.LABEL_VALUE}.",
    )
    ALREADY_PRESENT = (Outcome.LEFT_ALONE, 200, f"The Pod already has a container named {names.CONTAINER}.")
    NOT_A_CREATE = (Outcome.LEFT_ALONE, 200, "Only a Pod that is being created is changed.")
    MIRROR_POD = (Outcome.LEFT_ALONE, 200, "A mirror Pod only reports what its node already runs.")

    UNKNOWN_ANNOTATION = (
        Outcome.REFUSED,
        422,
        "Annotation {annotation} is not a setting of the barrier; the settings are {known}.",
    )
    BAD_VALUE = (Outcome.REFUSED, 422, "Annotation {annotation} is {value}, but must be {expected}.")
    SELECTOR_MISSING = (
        Outcome.REFUSED,
        422,
        (
            "Annotation {annotation} is missing: no Framework made this Pod (it has no FC_FRAMEWORK_NAME), "
            "so only a selector can say which Pods are its peers."
        ),
    )
    ROLES_MISSING = (
        Outcome.REFUSED,
        422,
        "Annotation {annotation} is missing: with a selector, it says how many Pods of each role to wait for.",
    )
    ROLE_LABEL_MISSING = (
        Outcome.REFUSED,
        422,
        "Annotation {annotation} is missing: with more than one role, it says which label holds the role of a Pod.",
    )
    CONTAINER_NOT_FOUND = (
        Outcome.REFUSED,
        422,
        "Annotation {annotation} names {container}, which is not an application container of the Pod ({known}).",
    )
    WRAP_WITHOUT_COMMAND = (
        Outcome.REFUSED,
        422,
        (
            "Annotation {annotation} is wrap, but container {container} has no command to wrap: "
            f"give it one, or leave the container out by {names.PREFIX}containers."
        ),
    )
    FILE_UNSUPPORTED = (
        Outcome.REFUSED,
        422,
        f"Annotation {{annotation}} is file, but this cluster does not support fileKeyRef ({_ENV_FILES_SINCE}).",
    )
    FILE_WITHOUT_PRESET = (
        Outcome.REFUSED,
        422,
        f"Annotation {{annotation}} is file, but without {names.PREFIX}preset there is no variable to set.",
    )
    NO_DELIVERY = (
        Outcome.REFUSED,
        422,
        (
            f"Annotation {{annotation}} is auto, but this cluster does not support fileKeyRef ({_ENV_FILES_SINCE}) "
            "and container {container} has no command to wrap: give it one, or set the annotation to none."
        ),
    )
    VOLUME_TAKEN = (
        Outcome.REFUSED,
        422,
        "The Pod has a volume of its own named {volume}, which the barrier needs: rename it.",
    )
    PATH_TAKEN = (
        Outcome.REFUSED,
        422,
        (
            "Container {container} has a mount of its own at {path}, which annotation {annotation} needs: "
            "move it, or change the annotation."
        ),
    )
    HOST_ALIASES = (
        Outcome.REFUSED,
        422,
        "Annotation {annotation} is mount, but the Pod has hostAliases, which would be lost: remove one of the two.",
    )
    WINDOWS = (
        Outcome.REFUSED,
        422,
        f"The barrier runs on Linux only, and this Pod is for Windows: remove the label {names.LABEL}.",
    )
    MALFORMED_POD = (Outcome.REFUSED, 422, "The Pod cannot be understood: {problem}.")
    NOT_A_POD = (
        Outcome.REFUSED,
        422,
        "Only Pods can be injected, not {kind}: the webhook configuration asks for too much.",
    )
    INTERNAL_ERROR = (
        Outcome.REFUSED,
        500,
        "The injector failed on this Pod; its log has the details under this request's uid.",
    )

    NOT_HTTP = (Outcome.REJECTED, 400, "The request is no HTTP.")
    NOT_A_REVIEW = (Outcome.REJECTED, 400, "The body is not an AdmissionReview of admission.k8s.io/v1: {problem}.")
    BODY_TOO_LARGE = (Outcome.REJECTED, 413, "The body is larger than {limit} bytes.")
    BODY_TOO_SLOW = (Outcome.REJECTED, 408, "The body did not arrive within {seconds} seconds.")
    WRONG_MEDIA_TYPE = (Outcome.REJECTED, 415, "The body must be plain application/json.")
    WRONG_METHOD = (Outcome.REJECTED, 405, "Reviews are posted.")
    WRONG_PATH = (Outcome.REJECTED, 404, "Reviews are posted to {path}.")

    def __init__(self, outcome: Outcome, code: int, template: str) -> None:
        self.outcome = outcome
        self.code = code
        self.template = template

    @property
    def slug(self) -> str:
        """The name of the reason in metrics, logs and the status annotation, as ``already-present``."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reason and what it speaks of."""

    reason: Reason
    details: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def sentence(self) -> str:
        """The sentence for a person, details filled in."""
        return self.reason.template.format_map(self.details)


def verdict(reason: Reason, **details: str) -> Verdict:
    """A verdict whose details are given by name."""
    return Verdict(reason, details)


def shown(value: str, limit: int = 80) -> str:
    """A user's text, fit for a sentence: quoted, without control characters, at most ``limit`` characters of it."""
    return repr(value if len(value) <= limit else value[: limit - 1] + "…")
