"""Every reason that a review can end with: its name, its HTTP status code and its sentence.

`settings`, `plan`, `review` and `server` give verdicts, or raise them; the response, the metric, the log and the status
annotation show the same name. Source: docs/reference/injector.md, section 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from frameworkinjector import names
from frameworkinjector.errors import InjectorError


class Ruling(StrEnum):
    """What the API server learns: allowed with a patch, allowed without one, denied, or not a review (HTTP 4xx)."""

    INJECTED = "injected"
    LEFT_ALONE = "left-alone"
    REFUSED = "refused"
    REJECTED = "rejected"


_RESTART_SINCE = (
    "Kubernetes 1.36, or 1.35 with the feature gates RestartAllContainersOnContainerExits, ContainerRestartRules and "
    "NodeDeclaredFeatures on the API server and the nodes"
)
_ENV_FILES_SINCE = "Kubernetes 1.34 with the feature gate EnvFiles, on by default from 1.35"


def _left_alone(sentence: str) -> tuple[Ruling, int, str]:
    return Ruling.LEFT_ALONE, 200, sentence


def _refused(sentence: str, code: int = 422) -> tuple[Ruling, int, str]:
    return Ruling.REFUSED, code, sentence


def _rejected(code: int, sentence: str) -> tuple[Ruling, int, str]:
    return Ruling.REJECTED, code, sentence


class Reason(Enum):
    """A ruling, its HTTP status code, and its sentence: `{prefix}` is that of annotations, other fields are details.

    The client of the API server sees the code of a refusal: 422 says that the same Pod will be refused again, so the
    controller does not retry it; 500 says that another attempt may succeed.
    """

    INJECTED = (Ruling.INJECTED, 200, "The barrier was added.")

    NOT_OPTED_IN = _left_alone(f"The Pod does not carry the label {names.LABEL}={names.LABEL_VALUE}.")
    ALREADY_PRESENT = _left_alone(f"The Pod already has a container named {names.CONTAINER}.")
    NOT_A_CREATE = _left_alone(
        "The request does not create a Pod, and the injector changes a Pod only when it is created."
    )
    POD_TEMPLATE = _left_alone(
        "A PodTemplate is not changed: by one, the injector learns from which addresses API servers call."
    )
    MIRROR_POD = _left_alone("The Pod is the mirror of a static Pod, which its node already runs.")

    UNKNOWN_ANNOTATION = _refused("Annotation {annotation} is not a setting of the barrier; the settings are {known}.")
    BAD_VALUE = _refused("Annotation {annotation} is {value}, but must be {expected}.")
    SELECTOR_MISSING = _refused(
        "Annotation {prefix}selector is missing: this Pod belongs neither to a Framework (it has no "
        "FC_FRAMEWORK_NAME) nor to a Job of one role, so a label selector must say which Pods are its peers."
    )
    ROLES_MISSING = _refused(
        "Annotation {prefix}roles is missing: for a Pod that belongs to no Framework, it must say how many Pods of "
        "each role to wait for, for example worker=4."
    )
    ROLE_LABEL_MISSING = _refused(
        "Annotation {prefix}role-label is missing: with several roles, it must name the label that holds the role of "
        "a Pod."
    )
    ROLE_UNKNOWN = _refused(
        "Annotation {prefix}role-label names the label {label}, which this Pod {found}: "
        "its value must be one of the roles in annotation {prefix}roles."
    )
    INDEX_MISSING = _refused(
        "The Pod has no index by which its peers can know it: none of the labels {labels}, and no number at "
        f"the end of its name: {{advice}}, or remove the label {names.LABEL}."
    )
    GANG_INCOMPLETE = _refused(
        "Annotation {prefix}gang needs {prefix}gang-index, the index of this Pod in its role, and {prefix}gang-size, "
        "the Pods of each role, for example worker=4."
    )
    GANG_UNKNOWN = _refused(
        "Annotation {prefix}gang has no effect, because foreignGangs is not enabled: use {prefix}selector."
    )
    CONTAINER_NOT_FOUND = _refused(
        "Annotation {prefix}containers names {container}, which is not an application container of the Pod ({known})."
    )
    TOO_MANY_CONTAINERS = _refused(
        "The Pod has {count} containers to change, and the injector changes at most {limit}: "
        "name those that need the barrier in annotation {prefix}containers."
    )
    TOO_MANY_ENV_SOURCES = _refused(
        "The containers that get the variables have {count} entries in envFrom, and the injector reads at most "
        "{limit}: use fewer, or name the containers that need the barrier in annotation {prefix}containers."
    )
    WRAP_WITHOUT_COMMAND = _refused(
        "Annotation {prefix}env is wrap, but container {container} has no command to wrap: add a command, or {advice}."
    )
    FILE_UNSUPPORTED = _refused(
        f"Annotation {{prefix}}env is file, but this cluster does not support fileKeyRef ({_ENV_FILES_SINCE}): "
        "use auto or wrap."
    )
    FILE_WITHOUT_PRESET = _refused(
        "Annotation {prefix}env is file, but there is no variable to set: "
        "add annotation {prefix}preset, or remove this one."
    )
    NO_DELIVERY = _refused(
        f"Annotation {{prefix}}env is auto, but this cluster does not support fileKeyRef ({_ENV_FILES_SINCE}) "
        "and container {container} has no command to wrap: add a command, {advice}, or set the annotation to none."
    )
    RESTART_UNSUPPORTED = _refused(
        "Annotation {prefix}restart is in-place, but this cluster does not support the action RestartAllContainers of "
        f"restartPolicyRules ({_RESTART_SINCE}): remove the annotation, and the retry policies restart Tasks."
    )
    RESTART_WITHOUT_FRAMEWORK = _refused(
        "Annotation {prefix}restart is in-place, but this Pod belongs to no Framework (it has no FC_FRAMEWORK_NAME, "
        "or a selector names its peers): only the controller of Frameworks restarts a gang, so remove the "
        "annotation."
    )
    RESTART_IN_INIT = _refused(
        "Annotation {prefix}restart is in-place, which needs a sidecar, but annotation {prefix}mode is init: "
        "remove the latter, or set it to sidecar."
    )
    RESTART_ALONE = _refused(
        "Annotation {prefix}restart is in-place, but container {container} has restartPolicy {policy}, by which the "
        "kubelet restarts it without its peers: set restartPolicy of the Pod or of the container to Never."
    )
    RESTART_NOT_ASKED = _refused(
        "Annotation {annotation} has no effect without annotation {prefix}restart: set that to in-place, or remove "
        "this one."
    )
    TOO_MANY_RESTART_RULES = _refused(
        "Container {container} has {limit} restartPolicyRules, as many as Kubernetes allows, and annotation "
        "{prefix}restart needs one more: remove one."
    )
    EXIT_WITHOUT_FRAMEWORK = _refused(
        "Annotation {prefix}exit is together, but this Pod belongs to no Framework (it has no FC_FRAMEWORK_NAME, or a "
        "selector names its peers): only the controller of Frameworks knows who wants to end, so remove the annotation."
    )
    EXIT_IN_INIT = _refused(
        "Annotation {prefix}exit is together, which needs a sidecar, but annotation {prefix}mode is init: "
        "remove the latter, or set it to sidecar."
    )
    EXIT_WITHOUT_WRAP = _refused(
        "Annotation {annotation} is {value}, which changes how containers start, but annotation {prefix}env is {env}: "
        "remove the latter, or set it to wrap."
    )
    EXIT_WITHOUT_COMMAND = _refused(
        "Annotation {annotation} is {value}, but container {container} has no command to wrap: add a command, or "
        "{advice}."
    )
    EXIT_NOT_ASKED = _refused(
        "Annotation {annotation} has no effect without annotation {prefix}exit: set that to together, or "
        "remove this one."
    )
    PROGRESS_WITHOUT_FRAMEWORK = _refused(
        "Annotation {prefix}progress asks for the progress of a gang, but this Pod belongs to no Framework (it has no "
        "FC_FRAMEWORK_NAME, or a selector names its peers): only the controller of Frameworks acts on it, so remove "
        "the annotation."
    )
    PROGRESS_IN_INIT = _refused(
        "Annotation {prefix}progress needs a sidecar, but annotation {prefix}mode is init: remove the latter, or set "
        "it to sidecar."
    )
    PROGRESS_NOT_ASKED = _refused(
        "Annotation {annotation} has no effect without annotation {prefix}progress: set that to torch, file, http or "
        "ras, or remove this one."
    )
    PROGRESS_WITHOUT_PORT = _refused(
        "Annotation {prefix}progress needs a port that is free on each node, because the Pod has hostNetwork: set "
        "annotation {prefix}progress-port."
    )
    VOLUME_TAKEN = _refused(
        "The Pod has its own volume named {volume}, a name that the barrier needs: rename that volume."
    )
    PATH_TAKEN = _refused(
        f"Container {{container}} has its own mount at {names.HOSTS_PATH}, where the barrier needs one: "
        "move that mount, or change annotation {prefix}hosts."
    )
    FOLDER_OVERLAPS = _refused(
        "Container {container} has its own mount at {path}, which meets the folder {folder} of the barrier: mount "
        "it elsewhere, move the barrier's files with annotation {prefix}output-dir, or exclude the container with "
        "{prefix}containers."
    )
    REQUEST_ABOVE_LIMIT = _refused(
        "Annotation {prefix}requests asks for {request} of {resource}, more than the limit of {limit} in annotation "
        "{prefix}limits: lower the request, or raise the limit."
    )
    HOST_ALIASES = _refused(
        "Annotation {prefix}hosts is mount, which would hide the hostAliases of the Pod: remove one of the two."
    )
    WINDOWS = _refused(f"The barrier runs on Linux only, but this Pod is for Windows: remove the label {names.LABEL}.")
    POD_TOO_LARGE = _refused("The Pod is too large for the injector: it has more than {limit}.")
    PATCH_TOO_LARGE = _refused(
        "The patch that adds the barrier has {size} bytes, more than {limit}: "
        "shorten the commands and annotations of the Pod, which the patch repeats."
    )
    MALFORMED_POD = _refused("The Pod is malformed: {problem}.")
    NOT_A_POD = _refused("The injector reviews only Pods, not {kind}: correct the rules of the webhook configuration.")
    INTERNAL_ERROR = _refused("The injector failed on this Pod: search its log for the uid of this request.", 500)

    NOT_HTTP = _rejected(400, "The request is not valid HTTP.")
    NOT_A_REVIEW = _rejected(400, "The body is not an AdmissionReview of admission.k8s.io/v1: {problem}.")
    BODY_TOO_LARGE = _rejected(413, "The body is larger than {limit} bytes.")
    BODY_TOO_SLOW = _rejected(408, "The body did not arrive within {seconds} seconds.")
    WRONG_MEDIA_TYPE = _rejected(415, "The body must be application/json without a Content-Encoding.")
    WRONG_METHOD = _rejected(405, "A review must be sent with the method POST.")
    WRONG_PATH = _rejected(404, "A review must be sent to {path}.")

    def __init__(self, ruling: Ruling, code: int, template: str) -> None:
        self.ruling = ruling
        self.code = code
        self.template = template

    @property
    def slug(self) -> str:
        """The name of the reason in metrics, logs and the status annotation, for example `already-present`."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reason, and a text or number for each other field of its sentence."""

    reason: Reason
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """What the user reads."""
        return self.reason.template.format(prefix=names.PREFIX, **self.details)


class RefusalError(InjectorError):
    """A Pod is refused, or a request rejected; the message is the sentence of the verdict.

    Attributes:
        verdict: What is wrong.
        where: The path of the Pod template in its object; "" if it is a Pod.
    """

    def __init__(self, reason: Reason, **details: object) -> None:
        self.verdict = Verdict(reason, details)
        self.where = ""
        super().__init__(self.verdict.sentence)


def shown(value: str, limit: int = 80) -> str:
    """Quote a user's text for a sentence: without control characters, and at most `limit` characters of it."""
    return repr(value if len(value) <= limit else value[: limit - 1] + "…")
