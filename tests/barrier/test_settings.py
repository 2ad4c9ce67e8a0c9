"""What the barrier reads of its environment and its flags, and what it refuses."""

import re
from pathlib import Path

import pytest

from frameworkbarrier import settings
from frameworkbarrier.errors import SettingsError
from frameworkbarrier.settings import OwnTask
from tests.barrier.gangs import environment, uid


def test_what_the_controller_injects_is_enough() -> None:
    read = settings.parse(environment("worker", 3))
    assert (read.namespace, read.framework, read.configmap) == ("lab", "mnist", "mnist-attempt")
    assert read.own_task == OwnTask("worker", 3, uid("worker", 3))
    assert (read.interval_sec, read.timeout_sec, read.output_dir) == (10, 600, "/mnt/frameworkbarrier")
    assert (read.mode, read.wait_for, read.presets) == ("init", "ip", ())


def test_what_an_older_pod_of_microsofts_barrier_has_is_enough() -> None:
    environ = {"FC_FRAMEWORK_NAMESPACE": "lab", "FC_FRAMEWORK_NAME": "mnist", "BARRIER_CHECK_TIMEOUT_SEC": "1200"}
    read = settings.parse(environ)
    assert (read.configmap, read.timeout_sec, read.own_task) == ("mnist-attempt", 1200, OwnTask(None, None, None))


def test_a_flag_wins_over_its_variable() -> None:
    environ = environment(FB_WAIT_FOR="arrived", FB_PORTS="ps=1")
    read = settings.parse(environ, ["--wait-for", "ip", "--ports=ps=2222,worker=2223"])
    assert (read.wait_for, read.ports) == ("ip", {"ps": 2222, "worker": 2223})


def test_every_variable_has_the_flag_of_its_name() -> None:
    flags = {setting.env: setting.flag for setting in settings.SETTINGS.values()}
    assert flags["FB_WAIT_FOR"] == "--wait-for"
    assert flags["FC_TASK_INDEX"] == "--task-index"
    assert flags["BARRIER_CHECK_TIMEOUT_SEC"] == "--check-timeout-sec"
    assert flags["KUBECONFIG"] == "--kubeconfig"
    assert len(set(flags.values())) == len(flags)


# Of settings without an annotation: those of all others are in tests/injector/review/test_agreement.py.
BAD = {
    "FC_TASK_INDEX": ["-1", "1e3"],
    "FC_TASKROLE_NAME": ["a/b"],
    "BARRIER_CHECK_INTERVAL_SEC": ["soon"],
    "KUBE_APISERVER_ADDRESS": ["localhost:8080", "https://user:pw@host"],
    "FB_FRAMEWORK_JSON": ["maybe"],
    "FB_ENV_SYNTAX": ["dotenv"],
    "FB_ROSTER": ["a..b-attempt"],
}


@pytest.mark.parametrize(("env", "value"), [(env, value) for env, values in BAD.items() for value in values])
def test_a_bad_value_is_refused_with_its_name_and_text(env: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings.parse(environment() | {env: value})
    assert f"{env}='{value}': " in str(caught.value)


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(SettingsError, match=r"FB_MODE.*FB_SLOTS"):
        settings.parse(environment(FB_MODE="x", FB_SLOTS="y"))


FRAMEWORK = {"FC_FRAMEWORK_NAMESPACE": "lab", "FC_FRAMEWORK_NAME": "mnist"}
SELECTED = {"FB_SELECTOR": "app=x", "FB_ROLES": "worker=2", "FC_TASKROLE_NAME": "worker", "FC_POD_UID": "abc"}
FOREIGN = {"FC_FRAMEWORK_NAMESPACE": "lab", "FB_ROSTER": "mnist-attempt", "FC_POD_UID": "abc"}
IN_PLACE = {"FB_MODE": "sidecar", "FB_RESTART": "in-place"}


@pytest.mark.parametrize(
    ("works", "changes", "says"),
    [
        *((environment(), {name: " "}, rf"{name}: is needed") for name in FRAMEWORK),
        *((environment(), {name: ""}, rf"{name}: needed too") for name in ("FC_POD_UID", "FC_TASK_INDEX")),
        (FRAMEWORK, {"FB_PRESET": "tensorflow"}, "FB_PRESET: needs FC_TASKROLE_NAME, FC_TASK_INDEX and FC_POD_UID"),
        # Without its UID a Pod could be any of its role.
        (SELECTED, {"FC_POD_UID": ""}, "FC_POD_UID: needed too"),
        (SELECTED, {"FB_ROLES": ""}, "FB_ROLES: is needed"),
        (SELECTED, {"FB_ROLES": "ps=1,worker=2"}, "FB_ROLE_LABEL: is needed"),
        (FOREIGN, {"FC_FRAMEWORK_NAMESPACE": ""}, "FC_FRAMEWORK_NAMESPACE: is needed"),
        (FOREIGN, {"FC_POD_UID": "", "FC_TASK_INDEX": "1"}, "FC_POD_UID: needed too"),
        (FOREIGN, IN_PLACE, "FB_RESTART: needs a Framework"),
        (environment(**IN_PLACE), {"FB_MODE": "init"}, "FB_RESTART: needs FB_MODE=sidecar"),
        (FRAMEWORK | IN_PLACE, {"FC_TASK_INDEX": "1"}, "FB_RESTART: needs a Framework"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_cannot_work_together_are_named(
    works: dict[str, str], changes: dict[str, str], says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        settings.parse(works | changes)


def test_a_gang_has_a_name_for_a_person() -> None:
    names = [settings.parse(environ).gang_name for environ in (FRAMEWORK, SELECTED, FOREIGN)]
    assert names == ["lab/mnist", "Pods 'app=x'", "gang lab/mnist"]


def test_slots_are_one_number_or_one_per_role() -> None:
    assert settings.parse(environment(FB_SLOTS="8")).slots == {"": 8}
    assert settings.parse(environment(FB_SLOTS="launcher=0,worker=4")).slots == {"launcher": 0, "worker": 4}


def test_help_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        settings.parse({}, ["--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert all(setting.env in out for setting in settings.SETTINGS.values())


def test_the_page_has_each_setting_once() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "barrier.md").read_text()
    section = page.partition("\n## 4. Environment\n")[2].partition("**Faults**")[0]
    cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("|")]
    named = re.findall(r"`(\w+)`", " ".join(cells))
    assert sorted(named) == sorted(setting.env for setting in settings.SETTINGS.values())
