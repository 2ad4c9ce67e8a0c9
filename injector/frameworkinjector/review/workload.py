"""What a Pod that no Framework created says of its peers: the selector of its gang, its index, its role.

`plan` and `barrier` ask it about Pods of a Job, a StatefulSet, a Deployment, a LeaderWorkerSet and so on. What cannot
work is refused when the Pod is created, and not found in the log of a barrier that waits in vain.
Source: docs/reference/injector.md, section 1.
"""

import re
from collections import ChainMap
from collections.abc import Mapping
from typing import Final

from frameworkbarrier.values import INDEX_LABELS
from frameworkcontroller.api import foreign
from frameworkinjector.review.config import Config
from frameworkinjector.review.pod import Pod
from frameworkinjector.review.reasons import Reason, RefusalError, shown
from frameworkinjector.review.settings import PodSettings

LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
JOB_UID: Final = "batch.kubernetes.io/controller-uid"

_INDEX: Final = re.compile(r"[0-9]{1,9}")
_ORDINAL: Final = re.compile(r"-[0-9]{1,9}\Z")
_ADVICE: Final = {
    "Job": "set completionMode: Indexed in the Job",
    "ReplicaSet": "use a StatefulSet or an Indexed Job instead of a Deployment",
    "ReplicationController": "use a StatefulSet or an Indexed Job instead of a ReplicationController",
    "DaemonSet": "use a StatefulSet or an Indexed Job instead of a DaemonSet",
}
_OTHER_ADVICE: Final = "give it such a label, or a name that ends in a number"


def peers_of(pod: Pod, settings: PodSettings, config: Config) -> tuple[str, Mapping[str, str]]:
    """Return the name of the gang whose roster lists a Pod's peers, and the labels that are the same in all of them.

    The labels are by the variables that are to hold their values, and that stand for them in the name: they are read
    when the barrier starts, since a webhook that is called later may add some. The name is "" if the controller keeps
    no roster. There are no labels if the Pod itself has a selector, or if nothing of it says which its peers are.

    Without a roster the Pods of one Job are a gang, and so are those of one group of a LeaderWorkerSet. Each run of a
    CronJob is a Job.
    """
    if settings.barrier.selector or settings.barrier.role_label:
        return "", {}
    said = ChainMap(pod.labels, pod.annotations).get
    kind = foreign.kind_of(said, pod.owner_kind) if config.foreign_gangs else None
    if kind is not None and kind.parts:
        labels = {f"FB_GANG_{number}": label for number, label in enumerate((kind.name, *kind.parts))}
        return foreign.gang_name(kind, (f"$({variable})" for variable in labels)), labels
    if kind is not None:
        return foreign.gang_name(kind, (settings.gang or (pod.controller.name if pod.controller else ""),)), {}
    if LWS_NAME in pod.labels:
        return "", {"FB_LWS_NAME": LWS_NAME, "FB_LWS_GROUP": LWS_GROUP}
    return "", {"FB_JOB_UID": JOB_UID} if pod.owner_kind == "Job" else {}


def refuse_without_peers(pod: Pod, settings: PodSettings, config: Config) -> None:
    """Check that a Pod without a Framework says who its peers are, and that they can know it.

    Raises:
        RefusalError: A setting is missing, or the Pod has no index or no role.
    """
    barrier = settings.barrier
    if settings.gang and (not config.foreign_gangs or settings.gang_index is None or not settings.gang_size):
        raise RefusalError(Reason.GANG_INCOMPLETE if config.foreign_gangs else Reason.GANG_UNKNOWN)
    gang, labels = peers_of(pod, settings, config)
    if gang:
        has_index = bool(settings.gang) or LWS_NAME in pod.labels or any(one in pod.labels for one in INDEX_LABELS)
        if not has_index:
            raise _without_index(pod)
        return
    if not barrier.selector and not labels:
        raise RefusalError(Reason.SELECTOR_MISSING)
    if not barrier.roles:
        raise RefusalError(Reason.ROLES_MISSING)
    if len(barrier.roles) > 1 and not barrier.role_label:
        raise RefusalError(Reason.ROLE_LABEL_MISSING)
    role = pod.labels.get(barrier.role_label) if barrier.role_label else None
    if barrier.role_label and role not in barrier.roles:
        found = "does not have" if role is None else f"has with the value {shown(role)}"
        raise RefusalError(Reason.ROLE_UNKNOWN, label=shown(barrier.role_label), found=found)
    if not _has_index(pod):
        raise _without_index(pod)


def _without_index(pod: Pod) -> RefusalError:
    advice = _ADVICE.get(pod.owner_kind, _OTHER_ADVICE)
    return RefusalError(Reason.INDEX_MISSING, labels=", ".join(INDEX_LABELS), advice=advice)


def _has_index(pod: Pod) -> bool:
    if LWS_NAME in pod.labels:
        # A webhook of its own, which may be called later, adds the index.
        return True
    given = (source.get(label, "") for source in (pod.labels, pod.annotations) for label in INDEX_LABELS)
    return any(map(_INDEX.fullmatch, given)) or _ORDINAL.search((pod.metadata.name or "")[-10:]) is not None
