"""What keeps a Pod from getting its barrier by the policy, each as a condition in CEL with the sentence for the user.

`policy` makes one variable of them, which is empty for a Pod that can be served. A sentence is that of the webhook
where both refuse the same. The expressions use nothing that is newer than Kubernetes 1.30, so that the policy that
refuses works where the one that adds the barrier does not exist yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from frameworkbarrier import presets, values
from frameworkbarrier.settings import DEFAULT_OUTPUT_DIR
from frameworkcontroller.api import names as fc
from frameworkinjector import names, platform, settings, workload
from frameworkinjector.cel import Cel, sentence, shown, written
from frameworkinjector.reasons import Reason

_ROLE: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9._]{0,61}[A-Za-z0-9])?"
_PORT: Final = r"(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_COUNT: Final = r"[1-9][0-9]{0,5}"
_FEW: Final = r"(?:0|[1-9][0-9]{0,3})"
# In the forms in which the barrier writes them, so that text is handed on as it is.
PATTERNS: Final = {
    "mode": "init|sidecar",
    "wait-for": "ip|arrived",
    "timeout": _COUNT,
    "env": "auto|file|none",
    "hosts": "mount|none",
    "ports": f"{_ROLE}={_PORT}(?:,{_ROLE}={_PORT})*",
    "roles": f"{_ROLE}={_FEW}",
    "slots": rf"{_COUNT}|{_ROLE}={_FEW}(?:,{_ROLE}={_FEW})*",
    "run-launcher-as-worker": "false|true",
    "nproc-per-node": f"{_COUNT}|auto|cpu|gpu",
    "max-restarts": f"0|{_COUNT}",
    "rank-roles": f"{_ROLE}(?:,{_ROLE})*",
    "head-role": _ROLE,
    "addresses": "ip|name",
    "image": settings.IMAGE,
    "log-format": "text|json",
}
# Some expressions take time that grows with the square of it. Of the image, the webhook allows as much.
MAX_TEXT: Final = 1024
# Where the policy accepts less than the webhook.
_EXPECTED: Final = {
    "timeout": "a whole number from 1 to 999999",
    "env": "one of auto, file, none (wrap needs the webhook)",
    "roles": "the number of Pods of one role, as worker=4 (several roles need the webhook)",
}
_LISTS: Final = ("preset", "ports", "slots", "rank-roles")
SUPPORTED: Final = tuple(name for name in settings.KNOWN if name == "preset" or name in PATTERNS)
NEEDS_WEBHOOK: Final = tuple(name for name in settings.KNOWN if name not in SUPPORTED)


@dataclass(frozen=True, slots=True)
class Fault:
    """A condition, and the sentence for a Pod on which it holds."""

    when: str
    sentence: Cel


def variables(own_presets: presets.Presets) -> dict[str, Cel]:
    """Write the variables that the policies share; `faults` is the list of sentences for a Pod."""
    ours = f"variables.annotations.filter(key, key.startsWith({written(names.PREFIX)}))"
    known = written([names.STATUS.removeprefix(names.PREFIX), *settings.KNOWN])
    texts = {name: _text(name) for name in SUPPORTED}
    faults = [f"({fault.when} ?\n  [{fault.sentence}] : [])" for fault in _faults(own_presets)]
    # Above, at or below the folder; a path with an element . or .. is not resolved.
    first, second = DEFAULT_OUTPUT_DIR.strip("/").split("/")
    meets = written(rf"^/*(?:{first}/*|{first}/+{second}(?:/.*)?)?$|(?:^|/)\.{{1,2}}(?:/|$)")
    return {
        "given": Cel(f"{ours}.map(key, key.substring({len(names.PREFIX)}))"),
        "unknown": Cel(f"variables.given.filter(name, !(name in {known}))"),
        "notServed": Cel(f"{written(list(NEEDS_WEBHOOK))}.filter(name, name in variables.given)"),
        "settings": written(texts),
        "takenVolumes": Cel(
            "object.spec.?volumes.orValue([]).map(one, one.name)"
            f".filter(name, name in {written([names.VOLUME, names.TOKEN_VOLUME])})"
        ),
        "takenPaths": Cel(
            "variables.containers.filter(one, one.name in variables.chosen)\n"
            ".map(one, one.?volumeMounts.orValue([]).map(mount, mount.mountPath)"
            f".filter(path, path.matches({meets})))\n"
            ".filter(paths, paths.size() > 0)"
        ),
        "faults": Cel(" +\n".join(faults)),
    }


def _text(name: str) -> Cel:
    annotation = f'variables.annotations[?{written(names.PREFIX + name)}].orValue("")'
    # No expression looks at a longer text; the empty one that stands for it is no value of any setting.
    text = f'({annotation}.size() > {MAX_TEXT} ? "" : {annotation}.trim())'
    # White space around the items of a list does not count.
    return Cel(f'{text}.split(",").map(item, item.trim()).join(",")' if name in _LISTS else text)


def setting(name: str) -> Cel:
    """Write the text of a setting, empty where the Pod does not set it."""
    return Cel(f"variables.settings[{written(name)}]")


def _faults(own_presets: presets.Presets) -> list[Fault]:
    return [*_unserved(), *_bad_values(own_presets), *_without_peers(), *_windows(), *_taken(), *_hosts()]


def _of(reason: Reason, when: str, **details: Any) -> Fault:
    return Fault(when, sentence(reason.template, **details))


def _unserved() -> list[Fault]:
    prefix = written(names.PREFIX)
    needs = "Annotation {annotation} needs the webhook of the injector, which can do more than a policy."
    return [
        _of(
            Reason.UNKNOWN_ANNOTATION,
            "variables.unknown.size() > 0",
            annotation=shown(Cel(f"({prefix} + variables.unknown[0])"), 120),
            known=", ".join(settings.KNOWN),
        ),
        Fault("variables.notServed.size() > 0", sentence(needs, annotation=Cel(f"{prefix} + variables.notServed[0]"))),
    ]


def _bad_values(own_presets: presets.Presets) -> list[Fault]:
    preset = "|".join(presets.names(own_presets))
    patterns = {"preset": f"(?:{preset})(?:,(?:{preset}))*", **PATTERNS}
    found = []
    for name in SUPPORTED:
        text, annotation = setting(name), names.PREFIX + name
        details = {"annotation": annotation, "value": shown(Cel(f"variables.annotations[{written(annotation)}]"))}
        expected = _expected(name, own_presets)
        wrong = f"{written(name)} in variables.given && !{text}.matches({written(f'^(?:{patterns[name]})$')})"
        found.append(_of(Reason.BAD_VALUE, wrong, **details, expected=expected))
        if name in _LISTS:
            keys = f'{text}.split(",").map(item, item.split("=")[0])'
            twice = f"{keys}.exists(one, {keys}.filter(other, other == one).size() > 1)"
            found.append(_of(Reason.BAD_VALUE, twice, **details, expected=f"{expected}, each once"))
    env, without = setting("env"), f'{setting("preset")} == ""'
    found.append(_of(Reason.FILE_WITHOUT_PRESET, f'{env} == "file" && {without}', annotation=f"{names.PREFIX}env"))
    return found


def _expected(name: str, own_presets: presets.Presets) -> str:
    """Return what a value must be, in the words of the validator."""
    if name == "preset":
        return f"one or more of {', '.join(presets.in_order(own_presets))}, separated by commas"
    if name in _EXPECTED:
        return _EXPECTED[name]
    try:
        settings.validator(name)("\0")
    except values.BadValueError as fault:
        return str(fault)
    raise AssertionError(f"{name} accepts anything")


def _without_peers() -> list[Fault]:
    alone = 'variables.framework == ""'
    lost = (
        f"The Pod belongs neither to a Framework (it has no {fc.FRAMEWORK_NAME}) nor to a Job: the policy does not "
        f"know its peers, and annotation {names.PREFIX}selector, which names them, needs the webhook of the injector."
    )
    indexes = written(list(values.INDEX_LABELS))
    unnumbered = f"{indexes}.all(key, !(key in variables.labels) && !(key in variables.annotations))"
    return [
        Fault(f"{alone} && !variables.ofJob", written(lost)),
        _of(
            Reason.ROLES_MISSING,
            f'{alone} && variables.ofJob && {setting("roles")} == ""',
            annotation=f"{names.PREFIX}roles",
        ),
        _of(
            Reason.INDEX_MISSING,
            f"{alone} && variables.ofJob && {unnumbered}",
            labels=", ".join(values.INDEX_LABELS),
            advice=workload.ADVICE["Job"],
        ),
    ]


def _windows() -> list[Fault]:
    windows, build, labels = written(platform.WINDOWS), written(platform.BUILD_LABEL), written(list(platform.OS_LABELS))
    selected = "object.spec.?nodeSelector.orValue({})"
    terms = (
        "object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution.?nodeSelectorTerms"
        ".orValue([]).filter(term, "
        "term.?matchExpressions.orValue([]).size() + term.?matchFields.orValue([]).size() > 0)"
    )
    needs = (
        f'one.key == {build} && one.operator in ["In", "Exists", "Gt", "Lt"] || one.key in {labels} && ('
        f'one.operator == "In" && one.values.all(value, value == {windows}) || '
        'one.operator == "NotIn" && "linux" in one.values)'
    )
    return [
        _of(Reason.WINDOWS, when)
        for when in (
            f'object.spec.?os.?name.orValue("") == {windows}',
            f'{build} in {selected} || {labels}.exists(key, {selected}[?key].orValue("") == {windows})',
            f"{terms}.size() > 0 &&\n  {terms}.all(term, term.?matchExpressions.orValue([]).exists(one, {needs}))",
        )
    ]


def _taken() -> list[Fault]:
    overlaps = (
        "A container has its own mount at {path}, which meets the folder {folder} of the barrier: move that mount."
    )
    path = shown(Cel("variables.takenPaths[0][0]"))
    return [
        _of(Reason.VOLUME_TAKEN, "variables.takenVolumes.size() > 0", volume=Cel("variables.takenVolumes[0]")),
        Fault("variables.takenPaths.size() > 0", sentence(overlaps, path=path, folder=DEFAULT_OUTPUT_DIR)),
    ]


def _hosts() -> list[Fault]:
    annotation, asked = f"{names.PREFIX}hosts", f'{setting("hosts")} == "mount"'
    own = "variables.chosen.filter(name, name in variables.ownHosts)"
    taken = {"container": shown(Cel(f"{own}[0]")), "path": names.HOSTS_PATH, "annotation": annotation}
    return [
        _of(Reason.PATH_TAKEN, f"{asked} && {own}.size() > 0", **taken),
        _of(
            Reason.HOST_ALIASES,
            f"{asked} && object.spec.?hostAliases.orValue([]).size() > 0",
            annotation=annotation,
        ),
    ]
