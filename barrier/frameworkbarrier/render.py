"""From the open gang to the files that the application reads. Pure: no clock, no network, only the package's data."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import lists, presets, variables
from .environment import ENV_FILE_LIMIT, Spill, env_file, injector_script, size
from .errors import SettingsError
from .gang import Open
from .output import PLAIN, SCRIPT, File
from .presets import Preset
from .settings import Settings
from .surroundings import Surroundings
from .variables import Variable

FRAMEWORK_JSON = "framework.json"
GENERATION = "generation"
FRAMEWORK_JSON_TASKS = 500
"""Up to this many Tasks the whole Framework is written too (FC's contract); above only if asked for."""

RUN_SCRIPT = """\
#!/bin/sh
# Starts a command with the gang's variables: run COMMAND [ARGUMENT...]
. "${0%/*}/injector.sh"
exec "$@"
"""

_load = cache(presets.load)


@dataclass(frozen=True, slots=True)
class Rendered:
    """All files in the order to write them (`generation` last: whoever sees it sees all of them), and warnings."""

    files: tuple[File, ...]
    warnings: tuple[str, ...]


def warm_up(settings: Settings, around: Surroundings) -> None:
    """Import and compile what rendering will need; to be called while there is time.

    Raises:
        SettingsError: a template has a wrong syntax.
    """
    if settings.presets or around.templates:
        from .templates import compile_template

        for name in settings.presets:
            preset = _load(name)
            for variable, source in preset.variables.items():
                compile_template(variable, source)
            for variable, source in preset.short_variables.items():
                compile_template(f"{variable} (short)", source)
        for name, source in around.templates.items():
            compile_template(name, source)


def wants_framework(opened: Open, settings: Settings) -> bool:
    """Whether `framework.json` is to be written, if the Framework may be read."""
    if settings.framework_json == "auto":
        return opened.gang.total <= FRAMEWORK_JSON_TASKS
    return settings.framework_json == "always"


def render(
    opened: Open,
    settings: Settings,
    roster_text: str,
    around: Surroundings,
    framework: Mapping[str, Any] | None = None,
) -> Rendered:
    """Make all files of an open gang.

    Args:
        opened: the decision.
        settings: the barrier's settings.
        roster_text: the roster as it was read.
        around: what this container is like.
        framework: the Framework object, decompressed; None: not wanted or not readable.

    Raises:
        SettingsError: a preset or template cannot be rendered, or FB_PORTS or FB_SLOTS does not fit the gang.
    """
    gang = opened.gang
    chosen = [_load(name) for name in settings.presets]
    ports = variables.ports_of(gang, settings.ports, chosen)
    _check_roles("FB_SLOTS", settings.slots.keys() - {""}, opened)
    own = [each for preset in chosen for each in _preset_variables(opened, preset, settings)]
    ips = [variables.list_ips(role) for role in gang.roles]
    addresses = [variables.list_addresses(role, ports.get(role.name)) for role in gang.roles]
    spill = Spill(settings.output_dir)
    files = [
        File("injector.sh", injector_script(ips, addresses, own, spill).encode(), SCRIPT),
        File("env", env_file(ips, addresses, own, spill, settings.env_syntax).encode()),
        File("run", RUN_SCRIPT.encode(), SCRIPT),
        File("hosts", lists.hosts_file(opened, around.hosts, around.hostname).encode(), in_place=True),
        File("hostfile", lists.hostfile(gang, settings.slots).encode()),
        File("hostfile.mpich", lists.hostfile_mpich(gang, settings.slots).encode()),
        *(File(f"{role.name}.hosts", lists.role_hosts(role).encode()) for role in gang.roles),
        File("roster.json", roster_text.encode()),
    ]
    if framework is not None:
        files.append(File(FRAMEWORK_JSON, json.dumps(framework, separators=(",", ":")).encode()))
    files += [File(name, text.encode()) for name, text in spill.files.items()]
    taken = {file.name for file in files} | {GENERATION, FRAMEWORK_JSON}
    files += _user_files(opened, chosen, settings, around, taken)
    files.append(File(GENERATION, f"{gang.generation}\n".encode()))
    return Rendered(tuple(files), tuple(spill.warnings))


def _preset_variables(opened: Open, preset: Preset, settings: Settings) -> Iterator[Variable]:
    """Render the variables of one preset; an empty result sets nothing."""
    from .templates import render as render_template

    context = _context(opened, preset, settings)
    for name, source in preset.variables.items():
        value = render_template(name, source, context).strip()
        if not value:
            continue
        short = preset.short_variables.get(name) if size(value) > ENV_FILE_LIMIT // 4 else None
        yield Variable(name, value, render_template(f"{name} (short)", short, context).strip() if short else "")


def _user_files(
    opened: Open,
    chosen: list[Preset],
    settings: Settings,
    around: Surroundings,
    taken: set[str],
) -> Iterator[File]:
    """Render the user's templates; what begins as a script becomes executable."""
    if not around.templates:
        return
    from .templates import render as render_template

    # Ranks as the first preset that has some counts them.
    ranking = next((preset for preset in chosen if preset.rank_roles), Preset("", {}))
    context = _context(opened, ranking, settings)
    for name, source in around.templates.items():
        if name in taken or not name:
            raise SettingsError(f"template {name}.j2: {name or 'nothing'!r} is the name of a file of the barrier")
        text = render_template(name, source, context)
        yield File(name, text.encode(), SCRIPT if text.startswith("#!") else PLAIN)


def _context(opened: Open, preset: Preset, settings: Settings) -> dict[str, Any]:
    return variables.context(
        opened,
        preset,
        ports=settings.ports,
        slots=settings.slots,
        nproc=settings.nproc_per_node,
        folder=settings.output_dir,
    )


def _check_roles(setting: str, named: set[str], opened: Open) -> None:
    names = [role.name for role in opened.gang.roles]
    for name in sorted(named - set(names)):
        raise SettingsError(f"{setting}: there is no role {name!r}; there are {', '.join(names)}")
