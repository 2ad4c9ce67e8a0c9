"""The gang's variables as files: `injector.sh` for shells, `env` for Kubernetes' `fileKeyRef`. Pure.

Two limits shape them. Linux refuses a process one of whose variables takes 128 KiB, so a value over 96 KiB is not
exported: a file holds it and `{NAME}_FILE` names that. The kubelet reads env files with at most 64 KiB a line (and
documents 64 KiB a file), so `env` stays below 60 KiB as a whole.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence

from .variables import Addresses, Variable

VARIABLE_LIMIT = 96 * 1024
"""Bytes of a value that is still exported."""
ENV_FILE_LIMIT = 60 * 1024
"""Bytes of the file `env`."""
PLAIN_LIMIT = 32 * 1024
"""Bytes of a value in the plain syntax (source: Kubernetes 1.34, the parser of its kubelet)."""


class Spill:
    """Files for the values that outgrew a variable, by name, and one warning for each."""

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
        """Bytes of the line that names the file which would hold the value."""
        return _line_size(self._named(variable))

    def _named(self, variable: Variable) -> Variable:
        return Variable(f"{variable.name}_FILE", f"{self._folder}/{variable.name}")

    def fit(self, variable: Variable, limit: int, where: str) -> Variable:
        """The variable itself, its short form, or one that names a file: the first that takes at most `limit` bytes."""
        if size(variable.value) <= limit:
            return variable
        if variable.short and size(variable.short) <= limit:
            self.warnings.append(f"{variable.name} ({size(variable.value)} bytes) does not fit into {where}: shortened")
            return Variable(variable.name, variable.short)
        return self.put(variable, where)


def size(text: str) -> int:
    """Bytes of a text."""
    return len(text.encode())


def injector_script(
    ips: Sequence[Variable], addresses: Sequence[Addresses], own: Sequence[Variable], spill: Spill
) -> str:
    """FC's contract: to be sourced by a POSIX shell; sets and exports, runs nothing."""
    lines = ["# To be sourced: . injector.sh"]
    for ip_list, address_list in zip(ips, addresses, strict=True):
        lines.append(_export(spill.fit(ip_list, VARIABLE_LIMIT, "a variable")))
        lines.append(_export_addresses(address_list, spill))
    lines += [_export(spill.fit(variable, VARIABLE_LIMIT, "a variable")) for variable in own]
    return "\n".join(lines) + "\n"


def _export(variable: Variable) -> str:
    return f"export {variable.name}={shlex.quote(variable.value)}"


def _export_addresses(addresses: Addresses, spill: Spill) -> str:
    """The port is the caller's (`${FB_WORKER_PORT}`, FC's contract), else the one that is known here."""
    port = addresses.port_variable
    reference = f"${{{port}-}}"  # with the dash it holds under `set -u` too
    value = ",".join(f"{host}:{reference}" for host in addresses.hosts)
    lines = []
    if addresses.port is not None:
        lines.append(f"export {port}=${{{port}:-{addresses.port}}}")
    if len(addresses.hosts) * len(":65535,") + sum(map(len, addresses.hosts)) <= VARIABLE_LIMIT:
        lines.append(f'export {addresses.name}="{value}"')
    elif addresses.value is not None:
        lines.append(_export(spill.put(Variable(addresses.name, addresses.value), "a variable")))
    else:
        spill.warnings.append(
            f"{addresses.name} is too long for a variable; name the role's port in FB_PORTS for a file"
        )
    return "\n".join(lines)


def env_file(
    ips: Sequence[Variable], addresses: Sequence[Addresses], own: Sequence[Variable], spill: Spill, syntax: str
) -> str:
    """The same variables in the syntax of Kubernetes' env files, the presets' first.

    What does not fit any more, or holds a character that the syntax cannot express, goes to a file.
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
    lines: list[str] = []
    # What is left once each variable has what it needs at least: its own line, or a shorter one that names a file.
    needs = [min(_line_size(each), spill.line_size(each)) for each in wanted]
    spare = ENV_FILE_LIMIT - sum(needs)
    for variable, least in zip(wanted, needs, strict=True):
        room = max(spare, 0) + least - _line_size(Variable(variable.name, ""))
        fitting = spill.fit(variable, min(room, limit), "env")
        text = quote(fitting.value)
        if text is None:
            fitting = spill.put(variable, "env")
            text = quote(fitting.value) or ""
        lines.append(f"{fitting.name}={text}\n")
        spare -= max(size(lines[-1]) - least, 0)
    return "".join(lines)


def _line_size(variable: Variable) -> int:
    return size(f"{variable.name}='{variable.value}'\n")


def _quoted(value: str) -> str | None:
    """`'value'`, literal (Kubernetes 1.35 and later): it cannot hold a single quote, and CR LF loses the CR."""
    return None if "'" in value or "\r" in value else f"'{value}'"


def _plain(value: str) -> str | None:
    """The bare value (Kubernetes 1.34): taken as it stands in one line, without the blanks around it."""
    cannot = "\n" in value or "\r" in value or value != value.strip() or value.endswith("\\")
    return None if cannot else value


_QUOTERS: Mapping[str, Callable[[str], str | None]] = {"quoted": _quoted, "plain": _plain}
