"""Reads a Pod's annotations into frozen settings: each has a validator, and an unknown one is refused.

The table of the barrier's settings says which of them have an annotation and what their values may be, so that a typing
error is refused when the Pod is created and not found in the log of a Pod that waits. Only the annotations that the
barrier does not know (`env`, `hosts`, `containers`, `template`, `code`, `image` and others) are described here.
Source: docs/reference/injector.md, section 1.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from frameworkbarrier import values
from frameworkbarrier.presets import model as presets
from frameworkbarrier.settings import SETTINGS, Settings
from frameworkcontroller.api import rank_topology
from frameworkinjector import names
from frameworkinjector.review.reasons import Reason, RefusalError, shown
from frameworkinjector.review.resources import Amounts, read_limits, read_requests

# Host and path as the registry API defines them, then a tag and a digest; its business is typing errors, not policy.
_IMAGE: Final = (
    r"[A-Za-z0-9](?:[-A-Za-z0-9._]*[A-Za-z0-9])?(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?(?:@[a-z0-9]+:[a-f0-9]{32,128})?"
)


image_name: Final = values.matching(_IMAGE, "the name of an image", 1024)


class Delivery(StrEnum):
    """How the variables reach the application."""

    AUTO = "auto"
    FILE = "file"
    WRAP = "wrap"
    NONE = "none"


class Hosts(StrEnum):
    """Whether the application's /etc/hosts is the barrier's."""

    MOUNT = "mount"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """What a Pod asks for."""

    barrier: Settings = field(default_factory=Settings)
    """The barrier's settings, as far as they have annotations; the others have their defaults."""
    given: frozenset[str] = frozenset()
    """The annotations that the Pod has, without their prefix."""
    env: Delivery = Delivery.AUTO
    hosts: Hosts | None = None
    """None if the Pod did not say."""
    containers: tuple[str, ...] = ()
    """The application containers that get something; all if it is empty."""
    template: str = ""
    """The name of a ConfigMap; "" if there is none, as of `code`."""
    code: str = ""
    gang: str = ""
    """What Pods without a Framework call their gang; read by the controller as the others are."""
    gang_role: str = ""
    gang_index: int | None = None
    gang_size: str = ""
    image: str = ""
    """That of the barrier; "" for the injector's default."""
    requests: Amounts = field(default_factory=dict)
    """Those of the barrier; as of `limits`, the injector decides on resources that are not there."""
    limits: Amounts = field(default_factory=dict)
    restart_limit: int | None = None
    """Read by the controller only, as `hang_limit`."""
    restart_exit_codes: tuple[int, ...] = ()
    """Exits of the application that restart the gang; empty for the default."""
    hang_limit: int | None = None
    rank_topology: tuple[str, ...] = ()
    """The labels of nodes by which the controller orders ranks; the only annotation here without the prefix."""


MAX_INDEX: Final = 9_999
_SIZE: Final = r"[0-9]{1,5}|[-A-Za-z0-9_.]+=[0-9]{1,5}(?:,[-A-Za-z0-9_.]+=[0-9]{1,5})*"
MAX_RESTARTS: Final = 2**31 - 1
MAX_EXIT_CODE: Final = 255


def _exit_codes(text: str) -> tuple[int, ...]:
    expected = f"exit codes from 1 to {MAX_EXIT_CODE}, separated by commas"
    found = [values.whole(1, MAX_EXIT_CODE)(item) for item in values.items(text, expected)]
    return tuple(dict.fromkeys(found))


# The names of the barrier's settings by their annotations.
_BARRIER: Final = {setting.annotation: name for name, setting in SETTINGS.items() if setting.annotation}


def _of_barrier(*annotations: str) -> dict[str, Callable[[str], Any]]:
    return {annotation: SETTINGS[_BARRIER[annotation]].read for annotation in annotations}


# What reads each annotation, in the order in which the manual explains them.
_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    **_of_barrier("preset", "mode", "wait-for", "timeout"),
    "env": lambda text: Delivery(values.one_of(*Delivery)(text)),
    "hosts": lambda text: Hosts(values.one_of(*Hosts)(text)),
    **_of_barrier("ports"),
    "containers": values.list_of(
        lambda name: re.fullmatch(values.DNS_LABEL, name), "names of containers, separated by commas"
    ),
    **_of_barrier("selector", "roles", "role-label", "slots", "run-launcher-as-worker", "nproc-per-node", "nnodes"),
    **_of_barrier("max-restarts", "tf-roles", "rank-roles", "head-role", "addresses"),
    "gang": values.matching(values.DNS_LABEL, "a name of lower-case letters, digits and '-'", 63),
    "gang-role": values.role,
    "gang-index": values.whole(0, MAX_INDEX),
    "gang-size": values.matching(_SIZE, "the number of Pods: 4, or ps=1,worker=3", 1024),
    "template": values.matching(values.DNS_SUBDOMAIN, "the name of a ConfigMap", 253),
    "code": values.matching(values.DNS_SUBDOMAIN, "the name of a ConfigMap", 253),
    **_of_barrier("output-dir"),
    "image": image_name,
    "requests": read_requests,
    "limits": read_limits,
    **_of_barrier("restart"),
    "restart-limit": values.whole(0, MAX_RESTARTS),
    "restart-exit-codes": _exit_codes,
    **_of_barrier("restart-grace", "exit", "exit-timeout"),
    **_of_barrier("progress", "progress-port", "hang", "hang-floor", "hang-factor", "hang-first"),
    "hang-limit": values.whole(0, MAX_RESTARTS),
    # Those that are not named above come last.
    **_of_barrier(*_BARRIER),
}
KNOWN: Final = tuple(_READERS)
# A Framework has no more roles.
MAX_ITEMS: Final = 1_000
# Reads the files of all presets now, so that no review reads a file.
presets.in_order()


def parse(annotations: Mapping[str, str], own_presets: presets.Presets = presets.NONE) -> PodSettings:
    """Read all annotations of a Pod, those under other prefixes left aside; it may choose presets of the operator, too.

    Raises:
        RefusalError: An unknown annotation under the prefix, or a value that its validator does not accept.
    """
    own: dict[str, Any] = {}
    of_barrier: dict[str, Any] = {}
    given: set[str] = set()
    for key in sorted(annotations):
        # A Pod template that was copied from a running Pod carries an old status, which is replaced. Of a barrier of
        # another image, the user may say what it reads.
        if key != names.RANK_TOPOLOGY and (not key.startswith(names.PREFIX) or key in {names.STATUS, names.READS}):
            continue
        annotation, text = key.removeprefix(names.PREFIX), annotations[key].strip()
        try:
            if text.count(",") >= MAX_ITEMS:
                raise values.BadValueError(f"a list of at most {MAX_ITEMS} items")
            if key == names.RANK_TOPOLOGY:
                own["rank_topology"] = rank_topology.keys_of(text)
                continue
            if annotation not in _READERS:
                raise RefusalError(Reason.UNKNOWN_ANNOTATION, annotation=shown(key, 120), known=", ".join(KNOWN))
            given.add(annotation)
            value = _READERS[annotation](text)
            if annotation in _BARRIER:
                of_barrier[_BARRIER[annotation]] = value
            else:
                own[annotation.replace("-", "_")] = value
            if annotation == "preset":
                values.check_presets(value, own_presets)
        except ValueError as fault:  # a BadValueError, or that of `keys_of`
            raise RefusalError(
                Reason.BAD_VALUE, annotation=shown(key, 120)[1:-1], value=shown(annotations[key]), expected=str(fault)
            ) from None
    if given & {"restart", "exit", "progress"}:
        # Only a sidecar learns that the gang starts again, or may end, and sees how far the application is.
        of_barrier.setdefault("mode", "sidecar")
    barrier = Settings(**of_barrier)
    if wrapped_for(barrier):
        own.setdefault("env", Delivery.WRAP)
    return PodSettings(barrier=barrier, given=frozenset(given), **own)


def wrapped_for(barrier: Settings) -> str:
    """Return the name of the setting that puts something in front of a program as it starts; "" if there is none."""
    if barrier.exit:
        return "exit"
    return "progress" if "torch" in barrier.progress else ""
