"""The barrier's settings: environment variables, each also a flag, checked before anything is waited for.

A Pod made for Microsoft's barrier works unchanged, so the `FC_`, `BARRIER_` and `KUBE` names are theirs.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import __version__
from .errors import SettingsError
from .gang import Me
from .roster import is_role_name

DEFAULT_OUTPUT_DIR = "/mnt/frameworkbarrier"
DEFAULT_TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # the folder, not a secret
DEFAULT_TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that the environment and the flags say, valid together."""

    namespace: str
    """Empty only for the Pods source: then the service account's namespace counts."""
    framework: str
    configmap: str
    configmap_uid: str
    framework_uid: str
    attempt_id: int | None
    me: Me
    apiserver: str
    kubeconfig: str
    token_dir: str
    interval_sec: float
    timeout_sec: float
    mode: str
    wait_for: str
    presets: tuple[str, ...]
    ports: Mapping[str, int]
    slots: Mapping[str, int]
    """Slots per role; the key `""` stands for all roles."""
    nproc_per_node: str
    output_dir: str
    template_dir: str
    framework_json: str
    selector: str
    roles: Mapping[str, int]
    role_label: str
    env_syntax: str
    log_format: str
    termination_log: str

    @property
    def gang_name(self) -> str:
        """What is waited for, for a person."""
        return f"{self.namespace}/{self.framework}" if self.framework else f"Pods {self.selector!r}"


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable: its name, how its text becomes a value, what counts if it is unset or empty, what it is."""

    env: str
    parse: Callable[[str], Any]
    default: Any
    help: str

    @property
    def flag(self) -> str:
        """The flag of the same name: `FB_WAIT_FOR` is `--wait-for`, `FC_TASK_INDEX` is `--task-index`."""
        return "--" + re.sub(r"^(FB|FC|BARRIER)_", "", self.env).lower().replace("_", "-")


def _text(value: str) -> str:
    return value


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return value

    return parse


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 365 * 86400:
        raise ValueError("must be a number of seconds above 0")
    return seconds


def _index(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise ValueError("must be a whole number of 0 or more")
    return int(value)


def _role(value: str) -> str:
    if not is_role_name(value):
        raise ValueError("must be a role name: letters, digits, '-', '_' and '.', at most 63")
    return value


def _numbers_by_role(low: int, high: int) -> Callable[[str], Mapping[str, int]]:
    def parse(value: str) -> Mapping[str, int]:
        numbers: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in value.split(","))):
            role, _, number = part.partition("=")
            if not is_role_name(role) or not re.fullmatch(r"[0-9]{1,9}", number) or not low <= int(number) <= high:
                raise ValueError(f"must be like ps=2,worker=4 with numbers from {low} to {high}, not {part!r}")
            if role in numbers:
                raise ValueError(f"names the role {role} twice")
            numbers[role] = int(number)
        return numbers

    return parse


def _slots(value: str) -> Mapping[str, int]:
    if re.fullmatch(r"[0-9]{1,6}", value):
        return {"": int(value)}
    return _numbers_by_role(0, 999_999)(value)


def _nproc(value: str) -> str:
    if value not in {"auto", "cpu", "gpu"} and not re.fullmatch(r"[1-9][0-9]{0,5}", value):
        raise ValueError("must be a whole number above 0, or auto, cpu or gpu")
    return value


def _presets(value: str) -> tuple[str, ...]:
    from . import presets

    chosen = tuple(dict.fromkeys(filter(None, (part.strip() for part in value.split(",")))))
    known = presets.names()
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise ValueError(f"has no preset {unknown[0]!r}; there are {', '.join(known)}")
    return chosen


def _address(value: str) -> str:
    if not re.fullmatch(r"https?://[^/?#@\s]+/?", value):
        raise ValueError("must be like https://host:port")
    return value.rstrip("/")


SETTINGS: dict[str, Setting] = {
    "namespace": Setting("FC_FRAMEWORK_NAMESPACE", _text, "", "namespace of the Framework"),
    "framework": Setting("FC_FRAMEWORK_NAME", _text, "", "name of the Framework"),
    "configmap": Setting("FC_CONFIGMAP_NAME", _text, "", "ConfigMap with the roster (default: {framework}-attempt)"),
    "configmap_uid": Setting("FC_CONFIGMAP_UID", _text, "", "UID of that ConfigMap: another one is another attempt"),
    "framework_uid": Setting("FC_FRAMEWORK_UID", _text, "", "UID of the Framework"),
    "attempt_id": Setting("FC_FRAMEWORK_ATTEMPT_ID", _index, None, "Framework attempt that this Pod belongs to"),
    "role": Setting("FC_TASKROLE_NAME", _role, None, "role of this Pod"),
    "index": Setting("FC_TASK_INDEX", _index, None, "index of this Pod in its role"),
    "uid": Setting("FC_POD_UID", _text, None, "UID of this Pod"),
    "apiserver": Setting("KUBE_APISERVER_ADDRESS", _address, "", "API server (default: the cluster's own)"),
    "kubeconfig": Setting("KUBECONFIG", _text, "", "kubeconfig, where there is neither of the above"),
    "token_dir": Setting("FB_TOKEN_DIR", _text, DEFAULT_TOKEN_DIR, "folder with token, ca.crt and namespace"),
    "interval_sec": Setting(
        "BARRIER_CHECK_INTERVAL_SEC", _seconds, 10.0, "seconds between looks, where it may not watch"
    ),
    "timeout_sec": Setting("BARRIER_CHECK_TIMEOUT_SEC", _seconds, 600.0, "seconds to wait at most"),
    "mode": Setting("FB_MODE", _one_of("init", "sidecar"), "init", "init or sidecar"),
    "wait_for": Setting("FB_WAIT_FOR", _one_of("ip", "arrived"), "ip", "what makes a Task ready: ip or arrived"),
    "presets": Setting("FB_PRESET", _presets, (), "presets, comma separated"),
    "ports": Setting("FB_PORTS", _numbers_by_role(1, 65535), {}, "ports by role: ps=2222,worker=2223"),
    "slots": Setting("FB_SLOTS", _slots, {"": 1}, "MPI slots: 8, or by role: launcher=0,worker=8"),
    "nproc_per_node": Setting("FB_NPROC_PER_NODE", _nproc, "1", "processes per Pod for torchrun"),
    "output_dir": Setting("FB_OUTPUT_DIR", _text, DEFAULT_OUTPUT_DIR, "folder to write to"),
    "template_dir": Setting("FB_TEMPLATE_DIR", _text, "", "folder with *.j2 to render"),
    "framework_json": Setting("FB_FRAMEWORK_JSON", _one_of("auto", "always", "never"), "auto", "auto, always or never"),
    "selector": Setting("FB_SELECTOR", _text, "", "label selector of the gang's Pods, where there is no Framework"),
    "roles": Setting("FB_ROLES", _numbers_by_role(0, 10_000), {}, "Tasks by role: ps=2,worker=4"),
    "role_label": Setting("FB_ROLE_LABEL", _text, "", "label that holds a Pod's role"),
    "env_syntax": Setting("FB_ENV_SYNTAX", _one_of("quoted", "plain"), "quoted", "quoted (Kubernetes 1.35+) or plain"),
    "log_format": Setting("FB_LOG_FORMAT", _one_of("text", "json"), "text", "text or json"),
    "termination_log": Setting("FB_TERMINATION_LOG", _text, DEFAULT_TERMINATION_LOG, "file for the last line"),
}


def parse(environ: Mapping[str, str], argv: Sequence[str] = ()) -> Settings:
    """Read and check all settings; flags win over the environment, empty counts as unset.

    Raises:
        SettingsError: with every fault found, each naming its variable.
    """
    texts = {name: environ.get(setting.env, "") for name, setting in SETTINGS.items()}
    if argv:
        texts |= _flags(argv)
    values: dict[str, Any] = {}
    faults: list[str] = []
    for name, setting in SETTINGS.items():
        text = texts[name].strip()
        try:
            values[name] = setting.parse(text) if text else setting.default
        except ValueError as fault:
            faults.append(f"{setting.env}={_shown(text)}: {fault}")
    if not faults:
        faults += _together(values)
    if faults:
        raise SettingsError("bad settings: " + "; ".join(faults))
    values["me"] = Me(values.pop("role"), values.pop("index"), values.pop("uid"))
    values["configmap"] = values["configmap"] or f"{values['framework']}-attempt"
    return Settings(**values)


def _together(values: Mapping[str, Any]) -> list[str]:
    """What is wrong with values that are right one by one."""
    faults: list[str] = []
    if values["selector"]:
        if not values["roles"]:
            faults.append("FB_ROLES: is needed with FB_SELECTOR, like ps=2,worker=4")
        if len(values["roles"]) > 1 and not values["role_label"]:
            faults.append("FB_ROLE_LABEL: is needed where FB_ROLES names more than one role")
    else:
        needed = [SETTINGS[name].env for name in ("namespace", "framework") if not values[name]]
        faults += [f"{env}: is needed (or FB_SELECTOR and FB_ROLES)" for env in needed]
    identity = [name for name in ("role", "index", "uid") if values[name] is not None]
    if not values["selector"] and 0 < len(identity) < 3:
        absent = [SETTINGS[name].env for name in ("role", "index", "uid") if values[name] is None]
        faults.append(f"{', '.join(absent)}: needed too, to know which Task this Pod is")
    if values["selector"] and identity and values["uid"] is None:
        faults.append("FC_POD_UID: needed too, to know which of the Pods this one is (fieldRef metadata.uid)")
    if values["presets"] and not identity:
        faults.append("FB_PRESET: needs FC_TASKROLE_NAME, FC_TASK_INDEX and FC_POD_UID")
    return faults


def _flags(argv: Sequence[str]) -> dict[str, str]:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise SettingsError(f"bad settings: {message}")

    parser = Parser(
        prog="frameworkbarrier",
        description="Wait until every Task of the gang is there, then write who and where the peers are.",
        epilog="Exit codes: 0 open, 201 not open in time, 210 can never open, 143 SIGTERM, 1 anything else.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=__version__)
    for name, setting in SETTINGS.items():
        parser.add_argument(setting.flag, dest=name, metavar=setting.env, help=setting.help)
    return {name: text for name, text in vars(parser.parse_args(list(argv))).items() if text is not None}


def _shown(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else shown[:79] + "…"
