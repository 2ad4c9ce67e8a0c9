"""How the variables of the presets reach the containers, and which of them the user has set already.

`plan` calls `way_of` once for a Pod and `variables_of` for each container. A value of the user wins, in each way: `env`
of the container is known here; what `envFrom` brings the kubelet decides (`file`), or the barrier's script (`wrap`).
A value of the image does not win, as with any variable of a Pod. Source: docs/reference/injector.md, section 1.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from frameworkbarrier import values
from frameworkbarrier.presets import model as presets
from frameworkinjector import names
from frameworkinjector.review.config import EnvFiles
from frameworkinjector.review.pod import JSON, Container
from frameworkinjector.review.reasons import Reason, RefusalError, shown
from frameworkinjector.review.settings import Delivery, PodSettings, wrapped_for

# Each of them costs one reference for each variable, and the API server sends Pods before it validates them.
MAX_ENV_SOURCES: Final = 100
MAX_BYTES: Final = 64 * 1024
"""Of variables of presets in all containers, those included that `envFrom` may have. A Pod must not become much larger
than it was: a thousand Pods of 12 KB that became 245 KB kept an API server of two cores from everybody for minutes."""
ENTRY_BYTES: Final = 100
"""Of a variable, beside its name and that of the source."""
MAX_NAME: Final = 253


def way_of(settings: PodSettings, chosen: Sequence[Container], env_files: EnvFiles) -> Delivery:
    """Return how variables reach the application: as asked for, or for `auto` the first way that works here.

    Raises:
        RefusalError: The cluster, the preset or a container does not allow the way that the Pod asks for.
    """
    bare = next((one.name for one in chosen if not one.command), None)
    if name := wrapped_for(settings.barrier):
        asked = {"annotation": f"{names.PREFIX}{name}", "value": values.as_text(getattr(settings.barrier, name))}
        if settings.env is not Delivery.WRAP:
            raise RefusalError(Reason.EXIT_WITHOUT_WRAP, env=settings.env.value, **asked)
        if bare is not None:
            raise RefusalError(Reason.EXIT_WITHOUT_COMMAND, container=shown(bare), advice=_leave_out(chosen), **asked)
    match settings.env:
        case Delivery.FILE if not settings.barrier.presets:
            raise RefusalError(Reason.FILE_WITHOUT_PRESET)
        case Delivery.FILE if env_files is EnvFiles.NONE:
            raise RefusalError(Reason.FILE_UNSUPPORTED)
        case Delivery.WRAP if bare is not None:
            raise RefusalError(Reason.WRAP_WITHOUT_COMMAND, container=shown(bare), advice=_leave_out(chosen))
        case Delivery.AUTO if not settings.barrier.presets:
            # Nothing to set: the Pod asks for the gate and the files only, and must not depend on the server for that.
            return Delivery.NONE
        case Delivery.AUTO if env_files is not EnvFiles.NONE:
            return Delivery.FILE
        case Delivery.AUTO if bare is not None:
            raise RefusalError(Reason.NO_DELIVERY, container=shown(bare), advice=_leave_out(chosen))
        case Delivery.AUTO:
            return Delivery.WRAP
        case _:
            return settings.env


def _leave_out(chosen: Sequence[Container]) -> str:
    """Say how to leave out the containers without a command, with the value to write if one is left."""
    listed = ",".join(shown(one.name)[1:-1] for one in chosen if one.command)
    value = f": {listed}" if 0 < len(listed) <= 200 else ""
    return f"name the containers that need the variables in annotation {names.PREFIX}containers{value}"


def refuse_too_many(
    settings: PodSettings, chosen: Sequence[Container], way: Delivery, own_presets: presets.Presets
) -> None:
    """Bound what presets and `envFrom` add to the patch.

    Raises:
        RefusalError: There are too many sources or variables, or the name of a source is longer than Kubernetes allows.
    """
    if way is Delivery.NONE or not settings.barrier.presets:
        return
    entries = _entries(settings.barrier.presets, own_presets)
    # A marker has all names, and each entry has its name twice.
    size = len(chosen) * sum(len(name) + 1 for name in entries)
    if way is Delivery.FILE:
        _refuse_sources(chosen)
        size += len(chosen) * sum(2 * len(name) + ENTRY_BYTES for name in entries)
        sources = Counter((prefix, len(source)) for one in chosen for prefix, _, source in _sources(one))
        for (prefix, length), times in sources.items():
            size += times * sum(2 * len(name) + ENTRY_BYTES + length for name in entries if name.startswith(prefix))
    if size > MAX_BYTES:
        limit = (
            f"{MAX_BYTES} bytes of variables of its presets, in each container and once more for each envFrom: use "
            f"fewer, or name the containers that need them in annotation {names.PREFIX}containers"
        )
        raise RefusalError(Reason.POD_TOO_LARGE, limit=limit)


def _refuse_sources(chosen: Sequence[Container]) -> None:
    count = sum(1 for one in chosen for _ in _sources(one))
    if count > MAX_ENV_SOURCES:
        raise RefusalError(Reason.TOO_MANY_ENV_SOURCES, count=count, limit=MAX_ENV_SOURCES)
    for one in chosen:
        for position, (_, _, source) in enumerate(_sources(one)):
            if len(source) > MAX_NAME:
                problem = (
                    f"container {shown(one.name)}: the name in envFrom[{position}] has more than {MAX_NAME} characters"
                )
                raise RefusalError(Reason.MALFORMED_POD, problem=problem)


def variables_of(
    settings: PodSettings, one: Container, way: Delivery, own_presets: presets.Presets
) -> tuple[JSON, ...]:
    """Return what goes before a container's own variables."""
    if way is Delivery.NONE or not settings.barrier.presets:
        return ()
    own = {variable.name for variable in one.env or ()}
    of_presets = _entries(settings.barrier.presets, own_presets)
    entry_of = {name: entry for name, entry in of_presets.items() if name not in own}
    sources = [*_sources(one)]
    entries: list[JSON] = []
    if way is Delivery.FILE:
        for name, entry in entry_of.items():
            entries.append(entry)
            if sources:
                entries += _from_sources(name, sources)
    prefixes = tuple(prefix for prefix, _, _ in sources)
    certain = [name for name in entry_of if not name.startswith(prefixes)] if sources else entry_of
    markers = {names.VARIABLES: ",".join(certain)}
    if way is Delivery.WRAP and settings.env is Delivery.AUTO:
        # By `auto` a program finds the same variables in each cluster.
        markers[names.RUN] = "presets"
    entries += [{"name": name, "value": value} for name, value in markers.items() if name not in own]
    return tuple(entries)


def _entries(chosen: tuple[str, ...], own_presets: presets.Presets) -> Mapping[str, JSON]:
    """Return the variables of presets by name, each as the entry of `env` that reads it from the barrier's file."""
    if own_presets.keys().isdisjoint(chosen):
        return _entries_of_version(chosen)
    return _made(presets.variables(chosen, own_presets))


@lru_cache(maxsize=16)
def _entries_of_version(chosen: tuple[str, ...]) -> Mapping[str, JSON]:
    """Make the entries of presets of this version once: most Pods choose the same few."""
    return _made(presets.variables(chosen))


def _made(variables: Mapping[str, bool]) -> Mapping[str, JSON]:
    entries: dict[str, JSON] = {}
    for name, optional in variables.items():
        reference: JSON = {"volumeName": names.VOLUME, "path": "env", "key": name}
        if optional:
            reference["optional"] = True
        entries[name] = {"name": name, "valueFrom": {"fileKeyRef": reference}}
    return entries


def _from_sources(name: str, sources: Sequence[tuple[str, str, str]]) -> Iterator[JSON]:
    """Yield a variable once more for each source of `envFrom` that may have it.

    A later entry of `env` replaces an earlier one, and the kubelet skips an optional reference to what is not there. So
    the value of the user wins if there is one.
    """
    for prefix, kind, source in sources:
        if name.startswith(prefix) and name != prefix:
            reference = {"name": source, "key": name.removeprefix(prefix), "optional": True}
            yield {"name": name, "valueFrom": {kind: reference}}


def _sources(one: Container) -> Iterator[tuple[str, str, str]]:
    """Yield the prefix, the kind of the reference and the name of each source in `envFrom`."""
    for source in one.env_from or ():
        for kind, named in (("configMapKeyRef", source.config_map_ref), ("secretKeyRef", source.secret_ref)):
            if named is not None:
                yield source.prefix or "", kind, named.name
