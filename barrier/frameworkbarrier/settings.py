"""The settings of the barrier, as one table: `Settings`. Its entries are the only place that knows a setting.

An entry names the environment variable (which is also a flag), the annotation by which a user sets it through the
injector, what a value may be, the default, and the help text. Two programs read the table: the barrier its environment
and flags at start (`parse`), the injector the annotations of a Pod. So this module is pure, and imports only the
standard library and the validators.

A Pod made for Microsoft's barrier works unchanged, so the names `FC_...`, `BARRIER_...`, `KUBE...` are theirs.
Source: docs/reference/barrier.md, section 4.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from frameworkbarrier import values
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.text import shorten

DEFAULT_OUTPUT_DIR = "/mnt/frameworkbarrier"
DEFAULT_CODE_DIR = "/mnt/frameworkcode"
DEFAULT_TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 -- the folder, not a secret
DEFAULT_TERMINATION_LOG = "/dev/termination-log"
EXIT_SOCKET, EXIT_HELD = "exit.sock", "held"
"""In the folder: where processes that want to end wait, and what is there while all of them do."""
DEFAULT_PROGRESS_DIR = "/mnt/frameworkprogress"
DEFAULT_PROGRESS_PORT = 24817
MAX_SECONDS = 30 * 24 * 3600
MAX_GRACE_SEC = 24 * 3600
MAX_INDEX = 999_999_999
MAX_PORT = 65_535
MAX_COUNT = 10_000
"""Tasks of a role, as many as the Framework API allows."""
FRAMEWORK_JSON_TASKS = 500
"""Up to this many Tasks the whole Framework is written too (FC's contract); for more only if the settings ask."""


@dataclass(slots=True, eq=False, repr=False)  # each generated method costs a tenth of a millisecond at start
class Setting:
    """One entry of the table."""

    env: str
    read: Callable[[str], Any]
    """Turns text into the value, or raises a `values.BadValueError`."""
    default: Any
    """The value if the variable is unset or empty."""
    help: str
    annotation: str
    """The annotation of the injector that sets the variable, without its prefix; "" if there is none."""
    capped_at: int | None
    """A greater whole number in the environment counts as this one; None: a greater one is an error."""

    @property
    def flag(self) -> str:
        """The flag of the same name: `FB_WAIT_FOR` is `--wait-for`, `FC_TASK_INDEX` is `--task-index`."""
        return "--" + re.sub(r"^(FB|FC|BARRIER)_", "", self.env).lower().replace("_", "-")

    def of_environment(self, text: str) -> Any:
        """Return the value of the variable's or flag's text.

        Raises:
            values.BadValueError: the text is not a value of this setting.
        """
        text = text.strip()
        if not text:
            return self.default
        if self.capped_at is not None and re.fullmatch(r"[0-9]+", text):
            text = str(self.capped_at) if len(text) > 18 else str(min(int(text), self.capped_at))
        return self.read(text)


def _setting(
    env: str,
    read: Callable[[str], Any],
    default: Any,
    help_text: str,
    *,
    annotation: str = "",
    capped_at: int | None = None,
) -> Any:
    entry = Setting(env, read, default, help_text, annotation, capped_at)
    metadata = {"setting": entry}
    if isinstance(default, dict):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)  # a factory each takes a millisecond of the start


def _annotated(env: str, read: Callable[[str], Any], default: Any, help_text: str) -> Any:
    """Make the entry of a setting whose annotation has its name: `FB_EXIT_TIMEOUT_SEC` is `exit-timeout`."""
    annotation = env.removeprefix("FB_").removesuffix("_SEC").lower().replace("_", "-")
    return _setting(env, read, default, help_text, annotation=annotation)


@dataclass(frozen=True, slots=True)
class OwnTask:
    """Who this Pod is, as far as its environment says; an unknown part is None."""

    role: str | None
    index: int | None
    uid: str | None
    pod: str | None = None
    """The name of the Pod."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, valid together. `SETTINGS` has the entries by the names of these fields."""

    # For Pods without a Framework an empty namespace stands for that of the service account.
    namespace: str = _setting("FC_FRAMEWORK_NAMESPACE", values.dns_name, "", "namespace of the Framework")
    framework: str = _setting("FC_FRAMEWORK_NAME", values.dns_name, "", "name of the Framework")
    configmap: str = _setting(
        "FC_CONFIGMAP_NAME", values.dns_name, "", "ConfigMap with the roster (default: {framework}-attempt)"
    )
    configmap_uid: str = _setting(
        "FC_CONFIGMAP_UID", values.uid, "", "UID of that ConfigMap: another one is another attempt"
    )
    roster: str = _setting(
        "FB_ROSTER", values.dns_name, "", "ConfigMap with the roster of a gang without a Framework; it is to come"
    )
    framework_uid: str = _setting("FC_FRAMEWORK_UID", values.uid, "", "UID of the Framework")
    attempt_id: int | None = _setting(
        "FC_FRAMEWORK_ATTEMPT_ID", values.whole(0, MAX_INDEX), None, "Framework attempt that this Pod belongs to"
    )
    role: str | None = _setting("FC_TASKROLE_NAME", values.role, None, "role of this Pod")
    index: int | None = _setting("FC_TASK_INDEX", values.whole(0, MAX_INDEX), None, "index of this Pod in its role")
    uid: str | None = _setting("FC_POD_UID", values.uid, None, "UID of this Pod")
    pod: str | None = _setting("FC_POD_NAME", values.dns_name, None, "name of this Pod")
    apiserver: str = _setting(
        "KUBE_APISERVER_ADDRESS", values.address, "", "address of the API server (default: the cluster's own)"
    )
    kubeconfig: str = _setting("KUBECONFIG", str, "", "kubeconfig file, used outside of a cluster if no address is set")
    token_dir: str = _setting("FB_TOKEN_DIR", str, DEFAULT_TOKEN_DIR, "folder with token, ca.crt and namespace")
    interval_sec: int = _setting(
        "BARRIER_CHECK_INTERVAL_SEC",
        values.whole(1, MAX_SECONDS),
        10,
        "seconds between two requests where watching is forbidden",
        capped_at=MAX_SECONDS,
    )
    mode: str = _annotated("FB_MODE", values.one_of("init", "sidecar"), "init", "init or sidecar")
    presets: tuple[str, ...] = _annotated("FB_PRESET", values.presets, (), "presets, comma separated")
    preset_definitions: Mapping[str, Any] = _setting(
        "FB_PRESET_DEFINITIONS", values.definitions, {}, "the operator's own presets, as JSON by the injector"
    )
    wait_for: str = _annotated(
        "FB_WAIT_FOR", values.one_of("ip", "arrived"), "ip", "what makes a Task ready: ip or arrived"
    )
    ports: Mapping[str, int] = _annotated(
        "FB_PORTS", values.numbers_by_role("ps=2222,worker=2223", 1, MAX_PORT), {}, "ports by role: ps=2222,worker=2223"
    )
    selector: str = _annotated(
        "FB_SELECTOR", values.selector, "", "label selector of the gang's Pods, where there is no Framework"
    )
    roles: Mapping[str, int] = _annotated(
        "FB_ROLES", values.numbers_by_role("ps=2,worker=4", 0, MAX_COUNT), {}, "Tasks by role: ps=2,worker=4"
    )
    role_label: str = _annotated("FB_ROLE_LABEL", values.label_key, "", "label that holds a Pod's role")
    tf_roles: Mapping[str, str] = _annotated(
        "FB_TF_ROLES", values.jobs_by_role, {}, "what roles are to TensorFlow: trainer=worker,server=ps"
    )
    # Slots by role; the key "" stands for all roles. Empty: 1, or what a preset finds.
    slots: Mapping[str, int] = _annotated("FB_SLOTS", values.slots, {}, "slots of each Task: 8, or launcher=0,worker=8")
    run_launcher_as_worker: str = _annotated(
        "FB_RUN_LAUNCHER_AS_WORKER",
        values.one_of("false", "true"),
        "false",
        "whether a role launcher has MPI slots that FB_SLOTS does not give to it by name: false or true",
    )
    # Empty: a launcher that starts a process for each device counts the GPUs of the Pod, everything else 1.
    nproc_per_node: str = _annotated(
        "FB_NPROC_PER_NODE", values.processes, "", "processes per Pod for torchrun (default: its GPUs, or 1)"
    )
    rank_roles: tuple[str, ...] = _annotated(
        "FB_RANK_ROLES", values.roles, (), "roles with ranks, the first one first: learner,actor"
    )
    head_role: str = _annotated(
        "FB_HEAD_ROLE",
        values.role,
        "",
        "role whose Task 0 is the head, scheduler, master or tracker that the others connect to",
    )
    nnodes: str = _annotated(
        "FB_NNODES", values.bounds, "", "Pods with which torchrun trains, at least and at most: 2:4"
    )
    max_restarts: int | None = _annotated(
        "FB_MAX_RESTARTS", values.whole(0, values.MAX_SLOTS), None, "restarts by torchrun or Paddle before they give up"
    )
    addresses: str = _annotated(
        "FB_ADDRESSES",
        values.one_of("ip", "name"),
        "ip",
        "by what presets name a Task that others connect to: ip, or name (of its Pod, as in the file hosts)",
    )
    output_dir: str = _annotated(
        "FB_OUTPUT_DIR",
        values.folder,
        DEFAULT_OUTPUT_DIR,
        "folder to write to, and in which the application finds the files",
    )
    code_archive: str = _setting(
        "FB_CODE_ARCHIVE", str, "", "archive (tar.gz) of the files to put where the application runs"
    )
    code_dir: str = _setting("FB_CODE_DIR", values.folder, DEFAULT_CODE_DIR, "where that is")
    template_dir: str = _setting("FB_TEMPLATE_DIR", str, "", "folder with *.j2 to render")
    framework_json: str = _setting(
        "FB_FRAMEWORK_JSON", values.one_of("auto", "always", "never"), "auto", "auto, always or never"
    )
    env_syntax: str = _setting(
        "FB_ENV_SYNTAX", values.one_of("quoted", "plain"), "quoted", "quoted (Kubernetes 1.35+) or plain"
    )
    restart: str = _annotated(
        "FB_RESTART", values.one_of("in-place"), "", "in-place: start again in this Pod whenever the gang does"
    )
    restart_grace_sec: int = _annotated(
        "FB_RESTART_GRACE_SEC",
        values.whole(0, MAX_GRACE_SEC),
        0,
        "seconds between the notice to the application and such a restart",
    )
    exit: str = _annotated(
        "FB_EXIT", values.one_of("together"), "", "together: the application ends when its peers want to end, too"
    )
    exit_timeout_sec: int = _annotated(
        "FB_EXIT_TIMEOUT_SEC", values.whole(1, MAX_SECONDS), 600, "seconds that it waits for them at most"
    )
    progress: tuple[str, ...] = _setting(
        "FB_PROGRESS_SOURCES",
        values.some_of("torch", "file", "http", "ras"),
        (),
        "where progress comes from, comma separated: torch, file, http, ras",
        annotation="progress",
    )
    progress_dir: str = _setting("FB_PROGRESS_DIR", values.folder, DEFAULT_PROGRESS_DIR, "folder of its files")
    progress_port: int = _annotated(
        "FB_PROGRESS_PORT", values.whole(1024, MAX_PORT), DEFAULT_PROGRESS_PORT, "port at which progress is told"
    )
    hang: str = _annotated(
        "FB_HANG", values.one_of("observe", "restart", "off"), "observe", "what a gang that hangs causes"
    )
    hang_floor_sec: int = _annotated(
        "FB_HANG_FLOOR_SEC", values.whole(1, MAX_SECONDS), 120, "seconds without progress that are never a hang"
    )
    hang_factor: int = _annotated(
        "FB_HANG_FACTOR", values.whole(2, MAX_COUNT), 8, "a hang takes so many times as long as a long step"
    )
    hang_first_sec: int = _annotated(
        "FB_HANG_FIRST_SEC", values.whole(1, MAX_SECONDS), 1800, "the same seconds until ten steps are known"
    )
    log_format: str = _annotated("FB_LOG_FORMAT", values.one_of("text", "json"), "text", "text or json")
    # FC accepts any whole number of seconds.
    timeout_sec: int = _setting(
        "BARRIER_CHECK_TIMEOUT_SEC",
        values.whole(1, MAX_SECONDS),
        600,
        "seconds to wait at most",
        annotation="timeout",
        capped_at=MAX_SECONDS,
    )
    termination_log: str = _setting("FB_TERMINATION_LOG", str, DEFAULT_TERMINATION_LOG, "file for the last line")

    @property
    def own_task(self) -> OwnTask:
        """Who this Pod is."""
        return OwnTask(self.role, self.index, self.uid, self.pod)

    @property
    def gang_name(self) -> str:
        """What the barrier waits for, for a person."""
        if self.roster:
            return f"gang {self.namespace}/{self.roster.removesuffix('-attempt')}"
        return f"{self.namespace}/{self.framework}" if self.framework else f"Pods {self.selector!r}"

    def wants_framework(self, tasks: int) -> bool:
        """Report whether `framework.json` is to be written of a gang of so many, if the Framework may be read."""
        if self.framework_json == "auto":
            return tasks <= FRAMEWORK_JSON_TASKS
        return self.framework_json == "always"


SETTINGS: Mapping[str, Setting] = {each.name: each.metadata["setting"] for each in fields(Settings)}


def parse(environ: Mapping[str, str], argv: Sequence[str] = ()) -> Settings:
    """Read and check all settings; flags win over the environment, empty counts as unset.

    Raises:
        SettingsError: with every fault found, each naming its variable.
    """
    texts = {name: environ.get(setting.env, "") for name, setting in SETTINGS.items()}
    if argv:
        from frameworkbarrier import flags

        table = ((name, setting.flag, setting.env, setting.help) for name, setting in SETTINGS.items())
        texts |= flags.read(argv, table)
    found: dict[str, Any] = {}
    faults: list[str] = []
    for name, setting in SETTINGS.items():
        try:
            found[name] = setting.of_environment(texts[name])
        except values.BadValueError as fault:
            faults.append(f"{setting.env}={shorten(repr(texts[name].strip()), 80)}: must be {fault}")
    if not faults:
        found["configmap"] = found["roster"] or found["configmap"] or f"{found['framework']}-attempt"
        settings = Settings(**found)
        faults = _contradictions(settings)
    if faults:
        raise SettingsError("bad settings: " + "; ".join(faults))
    return settings


def _contradictions(settings: Settings) -> list[str]:
    """Return what is wrong with values that are right one by one."""
    faults: list[str] = []
    try:
        values.check_presets(settings.presets, settings.preset_definitions)
    except values.BadValueError as fault:
        faults.append(f"FB_PRESET={shorten(repr(values.as_text(settings.presets)), 80)}: must be {fault}")
    if settings.selector:
        if not settings.roles:
            faults.append("FB_ROLES: is needed with FB_SELECTOR, like ps=2,worker=4")
        if len(settings.roles) > 1 and not settings.role_label:
            faults.append("FB_ROLE_LABEL: is needed where FB_ROLES names more than one role")
    else:
        required = ("namespace",) if settings.roster else ("namespace", "framework")
        needed = [SETTINGS[name].env for name in required if not getattr(settings, name)]
        faults += [f"{env}: is needed (or FB_SELECTOR and FB_ROLES)" for env in needed]
    without_framework = bool(settings.selector or settings.roster)
    known = {name: getattr(settings, name) for name in ("role", "index", "uid")}
    absent = [SETTINGS[name].env for name, value in known.items() if value is None]
    if not without_framework and 0 < len(absent) < 3:
        faults.append(f"{', '.join(absent)}: needed too, to know which Task this Pod is")
    if without_framework and 0 < len(absent) < 3 and settings.uid is None:
        faults.append("FC_POD_UID: needed too, to know which of the Pods this one is (fieldRef metadata.uid)")
    for env in [SETTINGS[name].env for name in ("restart", "exit", "progress") if getattr(settings, name)]:
        if settings.mode != "sidecar":
            faults.append(f"{env}: needs FB_MODE=sidecar")
        if without_framework or absent:
            faults.append(f"{env}: needs a Framework, and FC_TASKROLE_NAME, FC_TASK_INDEX and FC_POD_UID")
    if settings.presets and len(absent) == 3:
        faults.append("FB_PRESET: needs FC_TASKROLE_NAME, FC_TASK_INDEX and FC_POD_UID")
    return faults
