"""The injector and the barrier share the table of settings, and so accept the same values; presets are shared too."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkbarrier import errors, values
from frameworkbarrier import settings as barrier_settings
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.presets import model as presets
from frameworkbarrier.settings import SETTINGS
from frameworkinjector import names
from frameworkinjector.review import sidecar
from frameworkinjector.review.config import Config, EnvFiles
from frameworkinjector.review.plan import Plan, decide
from frameworkinjector.review.pod import Container, Metadata, Pod, Spec
from frameworkinjector.review.reasons import Reason, RefusalError
from frameworkinjector.review.settings import KNOWN, parse
from tests.support.rows import each

CONFIG = Config(version="1.2.3", in_place_restart=True, foreign_gangs=True)
SUPPLIED = presets.names()


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The variables as the kubelet would set them."""
    found: dict[str, str] = {}
    for one in container["env"]:
        if "value" in one:
            escaped = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], one["value"].replace("$$", "\0"))
            found[one["name"]] = escaped.replace("\0", "$")
        else:
            in_namespace = one["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
            found[one["name"]] = "demo" if in_namespace else "uid-or-name"
    return found


def pod(annotations: dict[str, str], *, framework: bool) -> Pod:
    own = {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1", "FC_TASK_ATTEMPT_ID": "2"} if framework else {}
    labels = {names.LABEL: "enabled", **({"FC_FRAMEWORK_NAME": "mnist"} if framework else {})}
    if role_label := annotations.get(names.PREFIX + "role-label"):
        # A Pod without a role of its gang is refused.
        labels[role_label] = annotations.get(names.PREFIX + "roles", "").partition("=")[0]
    return Pod(
        Metadata(labels, {**own, **annotations}, "train-1"), Spec([Container("app", ["run"])], restart_policy="Never")
    )


# For each setting that the barrier reads, too: texts that are values, and texts that are not.
SHARED: dict[str, tuple[list[str], list[str]]] = {
    "mode": (["init", " sidecar "], ["daemon", "Init", "init,sidecar"]),
    "preset": (
        ["tensorflow", " pytorch , mpi ", "jax\n,mpi", *SUPPLIED],
        ["caffe", "TENSORFLOW", "jax,jax", "jax,", ",jax", "jax,,mpi", ","],
    ),
    "wait-for": (["ip", "arrived"], ["luck", "ip arrived"]),
    "ports": (
        ["ps=2222", " ps=1 , worker=65535 ", "a-b=1", "My.Role_1=2", "ps=0022"],
        [
            *("2222", "ps", "ps=", "=1", "ps=0", "ps=65536", "ps=-1", "ps=1,ps=2", "ps=1,ps=1", "ps=1,", ","),
            *("ps=1,,b=2", "-ps=1", "ps =1", "ps= 1", "ps=1;rm", "ps=0000001", "ps=٣", "x" * 64 + "=1", "ps=1=2"),
        ],
    ),
    "selector": (
        ["app=x", "app==x,!b", "a in ( x , y ),!d, e", "example.org/a!=b", "a,\n b", "a="],
        [
            *('a="b"', "a=b c=d", "$(X)=a", "a in (b,c", "a in (b c)", "a=b\x00", "app in a", ",", "a,", "a=b,", "!"),
            *("!a=b", "a!", "a=b/c", "x" * 64, "a=" + "b" * 64, "a," * 2048 + "a", "a= ," * 22 + "!!"),
        ],
    ),
    "roles": (
        ["worker=0", "ps=2,worker=10000"],
        ["4", "worker=10001", "worker=1,", "worker=1,worker=2", "a=1\nb=2", "worker=1e3", "worker=+1"],
    ),
    "role-label": (
        ["role", "jobset.sigs.k8s.io/replicatedjob-name", "A_b.c-d"],
        ["a/b/c", "a b", "-a", "/a", "a/", "x" * 64, "Example.org/a"],
    ),
    "slots": (
        ["1", " 8 ", "999999", "launcher=0, worker=8"],
        ["0", "1000000", "many", "1 0", "-1", "8,", "worker=1000000", "worker=8,", "worker=8,worker=8", "launcher=0,8"],
    ),
    "tf-roles": (
        ["trainer=worker", " a=chief , b=evaluator ", "worker=ps,ps=worker"],
        ["worker", "a=b", "a=worker,b=worker", "a=worker,a=ps", "a=worker,", "=ps", "a =ps", "a=Worker"],
    ),
    "rank-roles": (["learner", " learner , actor ", "A.b_c-d"], ["a,a", "a,", ",", "a b", "-a", "a=1", "x" * 64]),
    "head-role": (["head", " A.b_c-d "], ["a,b", "-a", "a b", "x" * 64, "a="]),
    "nnodes": (
        ["1:4", " 2:2 ", "01:999999"],
        ["4", "0:4", "4:2", "1:", ":4", "1:1000000", "1:4:8", "1-4", "a:b", "1 :4"],
    ),
    "max-restarts": (["0", " 3 ", "999999"], ["-1", "1000000", "1.5", "many", "+1"]),
    "addresses": (["ip", " name "], ["dns", "IP", "ip,name"]),
    "run-launcher-as-worker": (["true", " false "], ["yes", "True", "1"]),
    "nproc-per-node": (["1", "999999", "auto", "cpu", "gpu"], ["0", "01", "1000000", "tpu", "-1", "1.5", "1e3"]),
    "log-format": (["text", "json"], ["xml", "JSON"]),
    "restart": (["in-place", " in-place "], ["always", "In-Place", "in-place,in-place"]),
    "restart-grace": (["0", "86400"], ["-1", "86401", "5s", "1.5"]),
    "exit": (["together", " together "], ["alone", "Together", "together,together"]),
    "exit-timeout": (["1", "2592000"], ["0", "-1", "5s", "1.5"]),
    "progress": (
        ["torch", " file , http ", "torch,file,http,ras"],
        ["steps", "Torch", "torch,torch", "torch,", ",", "torch file"],
    ),
    "progress-port": (["1024", " 65535 "], ["1023", "65536", "0", "-1", "http"]),
    "hang": (["observe", " restart ", "off"], ["on", "Restart", "observe,restart"]),
    "hang-floor": (["1", "2592000"], ["0", "2592001", "5s", "1.5"]),
    "hang-factor": (["2", "10000"], ["1", "10001", "1.5", "many"]),
    "hang-first": (["1", "2592000"], ["0", "2592001", "30m", "1.5"]),
    "output-dir": (
        ["/srv/gang", " /mnt ", "/srv/gang/", "/a.b/c_d-e"],
        ["/", "gang", "/a//b", "/a/../b", "/.", "/a/./b", "/a b", "/a:b", "/$(X)", "/a\nb", "/" + "a" * 600],
    ),
    "timeout": (["1", "0600", " 2592000 "], ["0", "-1", "+1", "1.5", "1e3", "10m", "nan", "inf", "٣", "1 0", "0x10"]),
}


# The same of the annotations that the injector alone reads.
OWN: dict[str, tuple[list[str], list[str]]] = {
    "env": (["auto", "file", " wrap ", "none"], ["Auto", "file,wrap"]),
    "hosts": (["mount", " none "], ["both"]),
    "containers": (["app"], ["a,a", "a," + "b" * 64, "A", ","]),
    "gang": (["mine"], ["Mine", "a.b", "x" * 64]),
    "gang-role": (["worker"], ["a,b", "-a"]),
    "gang-index": (["0", "9999"], ["-1", "10000"]),
    "gang-size": (["3", "ps=1,worker=3"], ["many", "ps=1,3", "123456", "ps="]),
    "template": (["templates"], ["../x"]),
    "code": (["code-0123456789"], ["../x"]),
    "image": (["barrier", "barrier:2"], ["$(IMAGE)", "a b", "a:b:c", "-a"]),
    "requests": (
        ["cpu=10m", "memory=64Mi,cpu=1"],
        ["cpu", "cpu=-1", "cpu=0", "cpu=1,cpu=2", "cpu=1u", "nvidia.com/gpu=1", "memory=100m", "memory=1e99Mi"],
    ),
    "limits": (["cpu=1", "memory=64Mi,ephemeral-storage=1Mi"], ["memory=31Mi", "memory=64MB"]),
    "restart-limit": (["0", "2147483647"], ["-1", "2147483648", "many"]),
    "hang-limit": (["0", "2147483647"], ["-1", "2147483648", "many"]),
    "restart-exit-codes": (["1", "1, 255"], ["0", "256", "1,1", ","]),
}
TEXTS = SHARED | OWN
GOOD = [(name, text) for name, (good, _) in TEXTS.items() for text in good]
BAD = [(name, text) for name, (_, bad) in TEXTS.items() for text in bad]
NAMES = {setting.annotation: name for name, setting in SETTINGS.items() if setting.annotation}


def test_each_setting_has_good_and_bad_texts() -> None:
    assert SHARED.keys() == NAMES.keys()
    assert TEXTS.keys() == set(KNOWN)
    assert all(good and bad for good, bad in TEXTS.values())


def by_barrier(annotation: str, text: str, *, flag: bool = False) -> object:
    """The value that the barrier reads, "refused" if it does not."""
    setting = SETTINGS[NAMES[annotation]]
    environ = {"FB_SELECTOR": "app=x", "FB_ROLES": "worker=2", "FB_ROLE_LABEL": "role", "FC_POD_UID": "uid"}
    if annotation in {"restart", "exit", "progress"}:
        environ = {"FB_MODE": "sidecar", "FC_FRAMEWORK_NAMESPACE": "lab", "FC_FRAMEWORK_NAME": "mnist"}
        environ |= {"FC_TASKROLE_NAME": "worker", "FC_TASK_INDEX": "1", "FC_POD_UID": "uid"}
    argv = [f"{setting.flag}={text}"] if flag else []
    try:
        read = barrier_settings.parse(environ if flag else environ | {setting.env: text}, argv)
    except SettingsError as fault:
        return "refused" if f"{setting.env}=" in str(fault) else fault
    return getattr(read, NAMES[annotation])


def by_injector(annotation: str, text: str) -> object:
    """The value that the injector reads, "refused" if it does not."""
    try:
        read = parse({names.PREFIX + annotation: text})
    except RefusalError as fault:
        return "refused" if is_about(fault, annotation) else fault
    owner, name = (read.barrier, NAMES[annotation]) if annotation in NAMES else (read, annotation.replace("-", "_"))
    return getattr(owner, name)


def is_about(fault: RefusalError, annotation: str) -> bool:
    """Whether the text of the annotation itself is refused, in a sentence that is short and printable."""
    if f"Annotation {names.PREFIX}{annotation} is " not in str(fault):
        return False
    return fault.verdict.reason is Reason.BAD_VALUE and len(str(fault)) < 600 and str(fault).isprintable()


# Good texts, chosen so that most Pods with a few of them are injected.
VALUES = {name: st.sampled_from(good) for name, (good, _) in TEXTS.items()} | {
    "preset": st.lists(st.sampled_from(SUPPLIED), min_size=1, max_size=3, unique=True).map(",".join),
    "timeout": st.integers(1, 2_592_000).map(str),
}


@given(
    chosen=st.fixed_dictionaries({}, optional=VALUES),
    framework=st.booleans(),
    env_files=st.sampled_from(EnvFiles),
)
@settings(max_examples=400)
def test_the_barrier_takes_what_the_injector_accepts(
    chosen: dict[str, str], framework: bool, env_files: EnvFiles
) -> None:
    has_roster = not framework and "gang" in chosen and not {"selector", "role-label"} & set(chosen)
    annotations = {names.PREFIX + name: value for name, value in chosen.items()}
    try:
        plan = decide(pod(annotations, framework=framework), CONFIG, env_files)
    except RefusalError:
        return
    assert isinstance(plan, Plan)
    environ = environment(plan.barrier)
    understood, read = barrier_settings.parse(environ), parse(annotations).barrier
    for setting in (NAMES[name] for name in chosen if name in NAMES):
        assert getattr(understood, setting) == getattr(read, setting)
    implied = "sidecar" if {"restart", "exit", "progress"} & chosen.keys() else "init"
    assert understood.mode == chosen.get("mode", implied).strip()
    assert understood.timeout_sec == float(chosen.get("timeout", "600"))
    assert understood.output_dir == chosen.get("output-dir", "/mnt/frameworkbarrier").strip().rstrip("/")
    assert {one["mountPath"] for one in plan.barrier["volumeMounts"]} >= {understood.output_dir}
    assert understood.token_dir == names.TOKEN_DIR
    assert set(understood.presets) == set(filter(None, chosen.get("preset", "").split(",")))
    assert (understood.selector == "") is ("selector" not in chosen)
    assert understood.namespace == "demo"
    assert understood.own_task.uid == "uid-or-name"
    assert understood.configmap == ("gang-pod.mine-attempt" if has_roster else understood.configmap)
    if framework:
        assert (understood.framework, understood.configmap) == ("mnist", "mnist-attempt")
        assert (understood.own_task.role, understood.own_task.index) == ("worker", 1)
    # Every variable that we set is one that the barrier reads, or one of the controller's for a user's template.
    known = {one.env for one in barrier_settings.SETTINGS.values()}
    assert all(name in known or name.startswith("FC_") for name in environ)


@each("annotation, text", GOOD)
def test_a_good_text_is_read_and_by_both_programs_as_the_same(annotation: str, text: str) -> None:
    value = by_injector(annotation, text)
    assert value != "refused"
    # The text itself, and what the injector hands on.
    for handed_on in (text, values.as_text(value)) if annotation in SHARED else ():
        assert by_barrier(annotation, handed_on) == by_barrier(annotation, handed_on, flag=True) == value


@each("annotation, text", BAD)
def test_a_bad_text_is_refused_by_both_programs(annotation: str, text: str) -> None:
    assert by_injector(annotation, text) == "refused"
    if annotation in SHARED:
        assert by_barrier(annotation, text) == by_barrier(annotation, text, flag=True) == "refused"


TEXT_LIKE_SETTINGS = st.text(alphabet="abz019-_./=,: ()!in\t", max_size=12)


@given(annotation=st.sampled_from(sorted(SHARED)), text=st.text() | TEXT_LIKE_SETTINGS)
@settings(max_examples=500)
def test_both_programs_have_the_same_verdict_on_any_text(annotation: str, text: str) -> None:
    capped = SETTINGS[NAMES[annotation]].capped_at is not None and text.strip().isdecimal()
    if text.strip() and not capped:
        assert by_injector(annotation, text) == by_barrier(annotation, text)


@each("annotation", SHARED)
def test_an_empty_variable_is_unset_but_an_empty_annotation_is_an_error(annotation: str) -> None:
    setting = SETTINGS[NAMES[annotation]]
    assert by_injector(annotation, " ") == "refused"
    assert setting.of_environment(" ") == setting.default


@each("text", ["2592001", "31536000", "9223372036854775807", "9" * 5000])
def test_a_longer_timeout_is_cut_in_a_pod_made_for_fc_and_refused_in_an_annotation(text: str) -> None:
    assert by_injector("timeout", text) == "refused"
    assert by_barrier("timeout", text) == barrier_settings.MAX_SECONDS


def planned(preset: str, config: Config = CONFIG) -> Plan:
    """Return what a Pod of a Framework gets that chooses these presets."""
    plan = decide(pod({names.PREFIX + "preset": preset}, framework=True), config, EnvFiles.QUOTED)
    assert isinstance(plan, Plan)
    return plan


def env_of(plan: Plan) -> list[str]:
    (container,) = plan.containers
    assert container.env[-1] == {"name": names.VARIABLES, "value": ",".join(one["name"] for one in container.env[:-1])}
    return [one["name"] for one in container.env[:-1]]


@each("preset", SUPPLIED)
def test_the_injector_refers_to_each_variable_of_any_preset_of_the_barrier(preset: str) -> None:
    assert env_of(planned(preset)) == [*presets.variables([preset])]


DEFINITION = {
    "port": 9000,
    "variables": {"MY_PEERS": "{{ roles[0].addresses | json }} $(X) 'a'", "MY_RANK": ""},
    "optional": ["MY_RANK"],
    "files": {"my.conf": "me={{ me.index }}\n"},
}


@each("name", ["mine", "jax"], ids=["a new name", "a name of this version"])
def test_the_barrier_gets_the_definition_of_an_operators_preset_by_which_the_injector_refers_to_variables(
    name: str,
) -> None:
    own = {one: presets.decode(one, DEFINITION) for one in (name, "other")}
    config = Config(version="1.2.3", presets=own)
    plan = planned(f"{name},mpi", config)
    understood = barrier_settings.parse(environment(plan.barrier))
    assert (understood.presets, understood.preset_definitions) == ((name, "mpi"), {name: own[name]})
    variables = presets.variables(understood.presets, understood.preset_definitions)
    assert env_of(plan) == [*variables]
    assert variables.items() >= {"MY_PEERS": False, "MY_RANK": True}.items()


MINE = Config(version="1.2.3", presets={"mine": presets.decode("mine", DEFINITION)})


def test_a_pod_that_chooses_no_preset_of_the_operator_gets_no_definition() -> None:
    assert "FB_PRESET_DEFINITIONS" not in environment(planned("mpi", MINE).barrier)


def test_a_preset_that_no_operator_has_defined_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(RefusalError, match=f"{presets.in_order()[-1]}, mine, separated by commas"):
        planned("theirs", MINE)


def test_a_barrier_that_has_not_opened_starts_again_alone_and_any_other_restarts_its_pod() -> None:
    (rule,) = sidecar.BARRIER_RULES
    kinds: list[type[errors.BarrierError]] = [errors.BarrierError, *errors.BarrierError.__subclasses__()]
    codes = {one.exit_code for one in kinds}
    assert rule["exitCodes"] == {"operator": "NotIn", "values": sorted(codes - {errors.EpochEndedError.exit_code})}
