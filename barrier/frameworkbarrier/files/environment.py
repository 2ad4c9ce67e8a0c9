"""The gang's variables as files: `injector.sh` and `presets.sh` for shells, `env` for Kubernetes' `fileKeyRef`. Pure.

Two limits shape them. Linux refuses a process one of whose variables takes 128 KiB, so a value over 96 KiB is not
exported: a file holds it and `{NAME}_FILE` names that. The kubelet reads env files with at most 64 KiB a line (and
documents 64 KiB a file), so `env` stays below 60 KiB as a whole.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from frameworkbarrier.files.variables import RoleLists, Variable
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
        return self.naming(variable)

    def naming(self, variable: Variable) -> Variable:
        """Return the variable that names the file of this one."""
        return Variable(f"{variable.name}_FILE", f"{self._folder}/{variable.name}")

    def fit(self, variable: Variable, limit: int, where: str) -> Variable:
        """Return the variable, its short form, or one that names a file: the first of at most `limit` bytes."""
        if size(variable.value) <= limit:
            return variable
        if variable.short and size(variable.short) <= limit:
            self.warnings.append(f"{variable.name} ({size(variable.value)} bytes) does not fit into {where}: shortened")
            return Variable(variable.name, variable.short)
        return self.put(variable, where)


def injector_script(roles: Sequence[RoleLists], own: Sequence[Variable], overflow: OverflowFiles) -> str:
    """Return FC's `injector.sh`, which a POSIX shell sources: it sets and exports variables and runs nothing.

    A variable of a preset keeps the value that it has, unless the barrier has set it.
    """
    lines = ["# To be sourced: . injector.sh"]
    for role in roles:
        lines.append(_export(overflow.fit(role.ips, VARIABLE_LIMIT, "a variable")))
        lines += _export_addresses(role, overflow)
    lines += _export_unless_set([overflow.fit(variable, VARIABLE_LIMIT, "a variable") for variable in own])
    return "\n".join(lines) + "\n"


def presets_script(own: Sequence[Variable]) -> str:
    """Return `presets.sh`, by which a shell sets what references to `env` set: the variables as they stand there."""
    return "\n".join(["# To be sourced: . presets.sh", *_export_unless_set(own)]) + "\n"


def _export_unless_set(variables: Sequence[Variable]) -> list[str]:
    if not variables:
        return []
    calls = [f"fb_export {each.name} {shlex.quote(each.value)}" for each in variables]
    return [EXPORT_FUNCTION, *calls, "unset -f fb_export", "unset fb_value fb_is_set"]


def _export(variable: Variable) -> str:
    return f"export {variable.name}={shlex.quote(variable.value)}"


def _export_addresses(role: RoleLists, overflow: OverflowFiles) -> Iterator[str]:
    """Yield the lines that export addresses with the caller's port (`${FB_WORKER_PORT}`), else the known one."""
    port = f"{role.prefix}_PORT"
    if role.port is not None:
        yield f"export {port}=${{{port}:-{role.port}}}"
    addresses = role.addresses(f"${{{port}-}}")  # the dash lets it work under `set -u` too
    if size(role.addresses("65535").value) < VARIABLE_LIMIT:
        yield f'export {addresses.name}="{addresses.value}"'
    elif role.port is not None:
        yield _export(overflow.put(role.addresses(role.port), "a variable"))
    else:
        overflow.warnings.append(
            f"{addresses.name} is too long for a variable; name the role's port in FB_PORTS for a file"
        )


class Budget:
    """The bytes of `env`, which variables take one after the other; for each that follows, its least is kept."""

    def __init__(self, wanted: Iterable[Variable], overflow: OverflowFiles, syntax: str) -> None:
        """Begin with the whole file; `wanted` are all variables that will be taken, `syntax` is `quoted` or `plain`."""
        self._overflow, self._syntax = overflow, syntax
        self._spare = ENV_FILE_LIMIT - sum(map(self._least, wanted))

    def take(self, variable: Variable) -> Variable:
        """Return the variable as it stands in `env`: itself, its short form, or one that names a file.

        A value goes to a file if it does not fit any more, or has a character that the syntax cannot express.
        """
        least = self._least(variable)
        room = max(self._spare, 0) + least - _line_size(Variable(variable.name, ""))
        limit = PLAIN_LIMIT if self._syntax == "plain" else ENV_FILE_LIMIT
        fitting = self._overflow.fit(variable, min(room, limit), "env")
        if _QUOTERS[self._syntax](fitting.value) is None:
            fitting = self._overflow.put(variable, "env")
        self._spare -= max(size(_env_line(fitting, self._syntax)) - least, 0)
        return fitting

    def _least(self, variable: Variable) -> int:
        """Return the bytes of its own line, or of a shorter one that names a file."""
        return min(_line_size(variable), _line_size(self._overflow.naming(variable)))


def env_file(variables: Sequence[Variable], syntax: str) -> str:
    """Return `env`, variables in the syntax of Kubernetes' env files; each as `Budget.take` returned it."""
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
