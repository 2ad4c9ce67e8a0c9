"""The gang's variables as files: `injector.sh` and `presets.sh` for shells, `env` for Kubernetes' `fileKeyRef`. Pure.

Two limits shape them. Linux refuses a process one of whose variables takes 128 KiB, so a value over 96 KiB is not
exported: a file holds it and `{NAME}_FILE` names that. The kubelet reads env files with at most 64 KiB a line (and
documents 64 KiB a file), so `env` stays below 60 KiB as a whole.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence

from frameworkbarrier.files.variables import Addresses, Variable
from frameworkbarrier.text import size

VARIABLE_LIMIT = 96 * 1024
"""Bytes of a value that is still exported."""
ENV_FILE_LIMIT = 60 * 1024
"""Bytes of the file `env`."""
PLAIN_LIMIT = 32 * 1024
"""Bytes of a value in the plain syntax (source: Kubernetes 1.34, the parser of its kubelet)."""

FB_VARIABLES = "FB_VARIABLES"
"""The names of the variables that are the barrier's to set; the injector and `injector.sh` itself set it."""

# The kubelet sets `{NAME}_PORT=tcp://10.0.0.1:80` for each Service, and a Service may be named `master`.
EXPORT_FUNCTION = f"""\
# A variable that is set already keeps its value, unless {FB_VARIABLES} says that it is the barrier's.
fb_export() {{
    case ",${{{FB_VARIABLES}-}}," in
    *",$1,"*) export "$1=$2"; return 0 ;;
    esac
    eval "fb_value=\\${{$1-}}; fb_is_set=\\${{$1+yes}}"
    case "$1,$fb_is_set,$fb_value" in
    *_PORT,yes,tcp://* | *_PORT,yes,udp://* | *_PORT,yes,sctp://*) ;;
    *,yes,*) export "$1"; return 0 ;;
    esac
    export "$1=$2" "{FB_VARIABLES}=${{{FB_VARIABLES}:+${FB_VARIABLES},}}$1"
}}"""


class OverflowFiles:
    """Files for the values that outgrew a variable, by name, and one warning for each of them."""

    def __init__(self, folder: str) -> None:
        self.files: dict[str, str] = {}
        self.warnings: list[str] = []
        self._folder = folder

    def put(self, variable: Variable, where: str) -> Variable:
        """Keep a value in a file; returns the variable that names the file."""
        if variable.name not in self.files:
            self.files[variable.name] = variable.value
            self.warnings.append(
                f"{variable.name} ({size(variable.value)} bytes) does not fit into {where}: "
                f"{variable.name}_FILE names the file that holds it"
            )
        return self._named(variable)

    def line_size(self, variable: Variable) -> int:
        """Return the bytes of the line that would name the file."""
        return _line_size(self._named(variable))

    def _named(self, variable: Variable) -> Variable:
        return Variable(f"{variable.name}_FILE", f"{self._folder}/{variable.name}")

    def fit(self, variable: Variable, limit: int, where: str) -> Variable:
        """Return the variable, its short form, or one that names a file: the first of at most `limit` bytes."""
        if size(variable.value) <= limit:
            return variable
        if variable.short and size(variable.short) <= limit:
            self.warnings.append(f"{variable.name} ({size(variable.value)} bytes) does not fit into {where}: shortened")
            return Variable(variable.name, variable.short)
        return self.put(variable, where)


def injector_script(
    ips: Sequence[Variable], addresses: Sequence[Addresses], own: Sequence[Variable], overflow: OverflowFiles
) -> str:
    """Return FC's `injector.sh`, which a POSIX shell sources: it sets and exports variables and runs nothing.

    A variable of a preset keeps the value that it has, unless the barrier has set it.
    """
    lines = ["# To be sourced: . injector.sh"]
    for ip_list, address_list in zip(ips, addresses, strict=True):
        lines.append(_export(overflow.fit(ip_list, VARIABLE_LIMIT, "a variable")))
        lines.append(_export_addresses(address_list, overflow))
    lines += _export_unless_set([overflow.fit(variable, VARIABLE_LIMIT, "a variable") for variable in own])
    return "\n".join(lines) + "\n"


def presets_script(own: Sequence[Variable]) -> str:
    """Return `presets.sh`, by which a shell sets the same variables as references to `env` do.

    Args:
        own: the variables of the presets as they stand in `env`.
    """
    return "\n".join(["# To be sourced: . presets.sh", *_export_unless_set(own)]) + "\n"


def _export_unless_set(variables: Sequence[Variable]) -> list[str]:
    if not variables:
        return []
    calls = [f"fb_export {each.name} {shlex.quote(each.value)}" for each in variables]
    return [EXPORT_FUNCTION, *calls, "unset -f fb_export", "unset fb_value fb_is_set"]


def _export(variable: Variable) -> str:
    return f"export {variable.name}={shlex.quote(variable.value)}"


def _export_addresses(addresses: Addresses, overflow: OverflowFiles) -> str:
    """Return the lines that export addresses with the caller's port (`${FB_WORKER_PORT}`), else the known one."""
    port = addresses.port_variable
    reference = f"${{{port}-}}"  # the dash lets it work under `set -u` too
    value = ",".join(f"{host}:{reference}" for host in addresses.hosts)
    lines = []
    if addresses.port is not None:
        lines.append(f"export {port}=${{{port}:-{addresses.port}}}")
    if len(addresses.hosts) * len(":65535,") + sum(map(len, addresses.hosts)) <= VARIABLE_LIMIT:
        lines.append(f'export {addresses.name}="{value}"')
    elif addresses.value is not None:
        lines.append(_export(overflow.put(Variable(addresses.name, addresses.value), "a variable")))
    else:
        overflow.warnings.append(
            f"{addresses.name} is too long for a variable; name the role's port in FB_PORTS for a file"
        )
    return "\n".join(lines)


def fit_env_file(
    ips: Sequence[Variable],
    addresses: Sequence[Addresses],
    own: Sequence[Variable],
    overflow: OverflowFiles,
    syntax: str,
) -> tuple[list[Variable], list[Variable]]:
    """Return the variables of the presets and all others as they fit into `env`, the presets' first.

    A value that no longer fits, or has a character that the syntax cannot express, goes to a file.
    """
    quote = _QUOTERS[syntax]
    wanted = list(own)
    for ip_list, address_list in zip(ips, addresses, strict=True):
        wanted.append(ip_list)
        if address_list.value is not None:
            wanted += [
                Variable(address_list.port_variable, str(address_list.port)),
                Variable(address_list.name, address_list.value),
            ]
    limit = PLAIN_LIMIT if syntax == "plain" else ENV_FILE_LIMIT
    found: list[Variable] = []
    # The bytes left after the least that each variable needs: its own line, or a shorter one that names a file.
    needs = [min(_line_size(each), overflow.line_size(each)) for each in wanted]
    spare = ENV_FILE_LIMIT - sum(needs)
    for variable, least in zip(wanted, needs, strict=True):
        room = max(spare, 0) + least - _line_size(Variable(variable.name, ""))
        fitting = overflow.fit(variable, min(room, limit), "env")
        if quote(fitting.value) is None:
            fitting = overflow.put(variable, "env")
        found.append(fitting)
        spare -= max(size(_env_line(fitting, syntax)) - least, 0)
    return found[: len(own)], found[len(own) :]


def env_file(variables: Sequence[Variable], syntax: str) -> str:
    """Return `env`, variables in the syntax of Kubernetes' env files; each must fit (`fit_env_file`)."""
    return "".join(_env_line(each, syntax) for each in variables)


def _env_line(variable: Variable, syntax: str) -> str:
    return f"{variable.name}={_QUOTERS[syntax](variable.value) or ''}\n"


def _line_size(variable: Variable) -> int:
    return size(f"{variable.name}='{variable.value}'\n")


def _quoted(value: str) -> str | None:
    """Quote a value (Kubernetes 1.35 and later); None if it has a single quote, or a CR, which is lost before LF."""
    return None if "'" in value or "\r" in value else f"'{value}'"


def _plain(value: str) -> str | None:
    """Return the bare value (Kubernetes 1.34); None if one line without blanks around it cannot express it."""
    cannot = "\n" in value or "\r" in value or value != value.strip() or value.endswith("\\")
    return None if cannot else value


_QUOTERS: Mapping[str, Callable[[str], str | None]] = {"quoted": _quoted, "plain": _plain}
