"""From the open gang to the files that the application reads. Pure: no clock, no network, only the package's data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from . import presets, variables
from .environment import ENV_FILE_LIMIT, Spill, env_file, injector_script, size
from .gang import Open
from .output import SCRIPT, File
from .presets import Preset
from .settings import Settings
from .variables import Variable

LOCALHOST = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"

RUN_SCRIPT = """\
#!/bin/sh
# Starts a command with the gang's variables: run COMMAND [ARGUMENT...]
. "${0%/*}/injector.sh"
exec "$@"
"""

_load = cache(presets.load)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the files need to know of this container: its own /etc/hosts, as the kubelet made it, and its host name."""

    hosts: str = LOCALHOST
    hostname: str = ""


@dataclass(frozen=True, slots=True)
class Rendered:
    """All files in the order to write them (`generation` last: whoever sees it sees all of them), and warnings."""

    files: tuple[File, ...]
    warnings: tuple[str, ...]


def warm_up(settings: Settings) -> None:
    """Import what rendering will need; to be called while there is time."""
    if settings.presets or settings.template_dir:
        from . import templates  # noqa: F401


def render(opened: Open, settings: Settings, roster_text: str, around: Surroundings) -> Rendered:
    """Make all files of an open gang.

    Raises:
        SettingsError: a preset or template cannot be rendered, or FB_PORTS does not fit the gang.
    """
    gang = opened.gang
    chosen = [_load(name) for name in settings.presets]
    ports = variables.ports_of(gang, settings.ports, chosen)
    own = [each for preset in chosen for each in preset_variables(opened, preset, ports, settings)]
    ips = [variables.list_ips(role) for role in gang.roles]
    addresses = [variables.list_addresses(role, ports.get(role.name)) for role in gang.roles]
    spill = Spill(settings.output_dir)
    files = [
        File("injector.sh", injector_script(ips, addresses, own, spill).encode(), SCRIPT),
        File("env", env_file(ips, addresses, own, spill, settings.env_syntax).encode()),
        File("run", RUN_SCRIPT.encode(), SCRIPT),
        File("hosts", hosts_file(opened, around).encode(), in_place=True),
        File("roster.json", roster_text.encode()),
    ]
    files += [File(name, text.encode()) for name, text in spill.files.items()]
    files.append(File("generation", f"{gang.generation}\n".encode()))
    return Rendered(tuple(files), tuple(spill.warnings))


def preset_variables(opened: Open, preset: Preset, ports: Mapping[str, int], settings: Settings) -> Iterable[Variable]:
    """Render the variables of one preset; an empty result sets nothing."""
    from .templates import render as render_template

    context = variables.context(
        opened, preset, ports=ports, slots=settings.slots, nproc=settings.nproc_per_node, folder=settings.output_dir
    )
    for name, source in preset.variables.items():
        value = render_template(name, source, context).strip()
        if not value:
            continue
        short = preset.short_variables.get(name) if size(value) > ENV_FILE_LIMIT // 4 else None
        yield Variable(name, value, render_template(f"{name} (short)", short, context).strip() if short else "")


def hosts_file(opened: Open, around: Surroundings) -> str:
    """An /etc/hosts for the application: this container's own first (localhost, hostAliases), then every Task.

    Each Task answers to its Pod's name, `{role}-{index}` and `{pod}.{namespace}`, this one to its host name too.
    """
    base = around.hosts if "localhost" in around.hosts else LOCALHOST + around.hosts
    lines = [base if base.endswith("\n") else base + "\n", "# Tasks of the gang, by the barrier.\n"]
    for role in opened.gang.roles:
        for task in role.tasks:
            names = [task.pod, f"{role.name}-{task.index}", f"{task.pod}.{opened.gang.namespace}"]
            if around.hostname and task is opened.task and around.hostname not in names:
                names.append(around.hostname)
            lines.append(f"{task.ip}\t{' '.join(names)}\n")
    return "".join(lines)
