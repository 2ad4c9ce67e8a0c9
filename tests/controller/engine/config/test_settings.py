"""The configuration file: every key, those of Microsoft's controller included, and the error about every wrong one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from frameworkcontroller.api.codes import FAILED, PERMANENT, TRANSIENT, TRANSIENT_CONFLICT
from frameworkcontroller.api.pod_group import GangScheduling
from frameworkcontroller.core.pods.snapshots import HistoryCause
from frameworkcontroller.core.policies.classification import (
    CONTAINER_CONTRACT,
    CodeInfo,
    ContainerPattern,
    PodPattern,
    Range,
    Regex,
)
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.config.document import DocumentError
from frameworkcontroller.engine.config.settings import Settings, SettingsError, load_settings, read_settings
from testkit.waiting import patience
from tests.controller import reference
from tests.support.rows import each

MICROSOFT = (Path(__file__).parent / "microsoft.yaml").read_text()
OURS = """
namespaces: [team-a, team-b]
grantRosterAccess: no
crashLoopPause: no
concurrentRequests: 32
kueue: {enabled: yes, manageFrameworksWithoutQueueName: yes}
foreignGangs: {enabled: yes}
rankTopology: {enabled: yes}
progress: {askPods: no}
history: {url: "http://archive:8081"}
gangScheduling:
  schedulers: [volcano]
  default:
    {scheduler: volcano, groupPer: TaskRole, topologyKey: "", priorityClassName: p, disruptionMode: Single, queue: q}
leaderElection: {enabled: false, namespace: a, name: b, leaseDurationSec: 6, renewDeadlineSec: 4.5, retryPeriodSec: 1}
"""


def leaves(group: dict[str, Any], path: str = "") -> set[str]:
    """The paths of all keys that hold no mapping."""
    found: set[str] = set()
    for key, value in group.items():
        found |= leaves(value, f"{path}{key}.") if isinstance(value, dict) else {path + key}
    return found


def test_the_file_of_microsofts_controller_has_every_key_of_the_reference() -> None:
    section = reference.REFERENCE.read_text().partition("## 11. Configuration")[2].partition("**Added.**")[0]
    cells = [line.split("|")[1].replace("`", "") for line in section.splitlines() if line.startswith("| `")]
    names = [name.strip() for cell in cells for name in cell.split(",")]
    assert leaves(yaml.safe_load(MICROSOFT)) == {
        f"logObjectSnapshot{name}" if name.startswith(".") else name for name in names
    }


def test_every_key_is_read() -> None:
    text = MICROSOFT + OURS
    read, defaults = read_settings(text), json.loads(msgspec.json.encode(Settings()))
    written = json.loads(msgspec.json.encode(replace(read, pod_failure_spec=())))
    assert written == yaml.safe_load(text) | {"podFailureSpec": []}
    assert [key for key in written if written[key] == defaults[key]] == ["kubeConfigFilePath", "podFailureSpec"]
    assert read.log_object_snapshot.triggers == {HistoryCause.FRAMEWORK_DELETION, HistoryCause.TASK_DELETION}
    flags = {"grant_roster_access": False, "crash_loop_pause": False, "kueue": True, "kueue_manages_all": True}
    groups = GangScheduling("volcano", "TaskRole", "", "p", "Single", "q")
    more = {"gang_scheduling": groups, "group_schedulers": ("volcano",), "rank_topology": True, "ask_progress": False}
    more["history"] = True
    assert read.core == CoreConfig(60, 0, 1, 2, **flags, **more, codes=read.core.codes)


def test_configured_codes_come_after_the_container_contract_with_defaults_for_what_is_left_out() -> None:
    regex = Regex
    container = ContainerPattern(regex("^main$"), regex("^Error$"), regex("licen[cs]e"), Range(0, 64), Range(1, 255))
    words = (regex("worker-[0-9]+$"), regex("^NodeShutdown$"), regex("(?i)maintenance window"))
    ranges = (ContainerPattern(code=Range(None, 0)), ContainerPattern(code=Range()), ContainerPattern())
    assert read_settings(MICROSOFT).core.codes == (
        *CONTAINER_CONTRACT,
        CodeInfo(221, "Everything", TRANSIENT_CONFLICT, (PodPattern(*words, (container,)),)),
        CodeInfo(-1000, "OnlyAttributes", TRANSIENT, (PodPattern(reason=regex("^Evicted$")),)),
        CodeInfo(-1001, "OnlyName", FAILED, (PodPattern(message=regex("lost")),)),
        CodeInfo(-1002, "", PERMANENT, (PodPattern(containers=(ContainerPattern(signal=Range(9)),)),)),
        CodeInfo(220, "NoType", FAILED, (PodPattern(containers=ranges),)),
        CodeInfo(-(2**31), "", FAILED, (PodPattern(),)),
        CodeInfo(2**31 - 1, "", FAILED, (PodPattern(), PodPattern(containers=(ContainerPattern(),)))),
        CodeInfo(-1003, "", FAILED, (PodPattern(),)),
        CodeInfo(-1004, "", FAILED, (PodPattern(reason=regex(""), containers=(ContainerPattern(code=Range()),)),)),
        CodeInfo(-1005, "", FAILED, (PodPattern(reason=regex("x")),)),
    )


@each("text", ["", "# nothing\n", "---\n", "~", "podFailureSpec:\nlogObjectSnapshot:\n  pod:\n"])
def test_without_a_file_or_a_key_or_with_null_there_is_the_default(text: str) -> None:
    """What the defaults are, the comments of the shipped file say."""
    assert read_settings(text) == load_settings(None) == Settings()


@each(
    "text, name, value",
    [
        # A number may be written in any decimal form.
        ("kubeClientQps: 80", "kube_client_qps", 80),
        ("kubeClientQps: 2.5", "kube_client_qps", 2.5),
        ("kubeClientQps: 1e3", "kube_client_qps", 1000),
        ("kubeClientQps: 1_000", "kube_client_qps", 1000),
        # The smaller of two limits bounds requests.
        ("workerNumber: 200\nconcurrentRequests: 64", "slots", 64),
        ("workerNumber: 10\nconcurrentRequests: 64", "slots", 10),
        ("kubeClientQps: 80", "slots", 20),
        ("kubeClientQps: 0.5", "slots", 8),
        ("kubeClientQps: 1000", "slots", 64),
        ("kubeClientQps: 80\nconcurrentRequests: 2", "slots", 2),
        # The longest time fits into the calendar.
        (f"frameworkCompletedRetainSec: {2**63 - 1}", "framework_completed_retain_sec", 100 * 365 * 86400),
        # The tag of a mapping is ignored.
        ("!mine {workerNumber: 3}", "worker_number", 3),
    ],
)
def test_a_value_is_read_as_people_read_it(text: str, name: str, value: float) -> None:
    assert getattr(read_settings(text), name) == value


def test_anchors_are_followed() -> None:
    first, second = "type: &t {attributes: [Permanent]}, podPatterns: [{}]", "type: *t, podPatterns: [{}]"
    read = read_settings(f"podFailureSpec: [{{code: 1, {first}}}, {{code: 2, {second}}}]")
    assert read.core.codes[-1].type == PERMANENT


# --- what is wrong ---------------------------------------------------------------------------------------------------


def code(**changes: str) -> str:
    """A podFailureSpec whose second entry has these values."""
    entry = {"code": "1000", "phrase": "P", "type": "{name: Failed, attributes: []}", "podPatterns": "[{}]"} | changes
    written = ", ".join(f"{key}: {value}" for key, value in entry.items() if value)
    return f"podFailureSpec: [{{code: 999, podPatterns: [{{}}]}}, {{{written}}}]"


def value(key: str, written: str, reason: str) -> tuple[str, str]:
    """A key with a wrong value, and its error."""
    return f"{key}: {written}", f"{key}: {reason}"


def entry(path: str, reason: str, **changes: str) -> tuple[str, str]:
    """A podFailureSpec whose second entry is changed, and the error about a path within it."""
    return code(**changes), f"podFailureSpec[1]{path}: {reason}"


def pattern(path: str, reason: str, written: str) -> tuple[str, str]:
    return entry(f".podPatterns[0]{path}", reason, podPatterns=f"[{written}]")


LITERAL = "is not supported; write a decimal number, or quote text"
KEY = "a key must be text, and merge keys are not supported"
NAME = r"Expected `str` matching regex '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\\Z'"
RE2 = "is not a regular expression in RE2 syntax"
PERL = "invalid perl operator: (?!"
TIMES = "the lease duration, 12 s, must be greater than the renew deadline, 12 s"
MIN_DELAY = "frameworkMinRetryDelaySecForTransientConflictFailed"
MAX_DELAY = "frameworkMaxRetryDelaySecForTransientConflictFailed"
ALIASES = "\n".join(f"- &a{number + 1} [*a{number}, *a{number}]" for number in range(40))
WRONG = [
    # The document.
    ("workerNumber: [", "line 1, column 16: expected the node content, but found '<stream end>'"),
    ("pod:\n\tx: 1", "line 2, column 1: found character '\\t' that cannot start any token"),
    ("a: 1\n---\nb: 1", "line 2, column 1: but found another document"),
    ("a: \x07", "character 4, U+0007, is not allowed in YAML"),
    ("- 1", "Expected `object`, got `array`"),
    ("[" * 5000, "it is nested too deeply"),
    ("kubeClientQPS: 1", "Object contains unknown field `kubeClientQPS`"),
    ("x: ~", "Object contains unknown field `x`"),
    ("workerNumber: 1\nworkerNumber: 2", "workerNumber: the key is given twice"),
    ("podFailureSpec: [{type: {name: a, name: a}}]", "podFailureSpec[0].type.name: the key is given twice"),
    ("<<: {workerNumber: 1}", f"<<: {KEY}"),
    ("yes: 1", f"yes: {KEY}"),
    ("logObjectSnapshot: {12: 1}", f"logObjectSnapshot.12: {KEY}"),
    ('"a\\e": 1', "Object contains unknown field `a\\x1b`"),
    ("[a]: 1", "a key must be text, found a list or a mapping"),
    # Types, and words that YAML reads as something else.
    value("workerNumber", "'20'", "Expected `int`, got `str`"),
    value("workerNumber", "yes", "Expected `int`, got `bool`"),
    value("workerNumber", "20.0", "Expected `int`, got `float`"),
    value("workerNumber", "0140", f"int '0140' {LITERAL}"),
    value("workerNumber", "1:30", f"int '1:30' {LITERAL}"),
    value("workerNumber", "0x10", f"int '0x10' {LITERAL}"),
    value("workerNumber", "9" * 41, f"int '{'9' * 41}' {LITERAL}"),
    value("largeFrameworkCompression", "1", "Expected `bool`, got `int`"),
    value("grantRosterAccess", "!!bool maybe", f"bool 'maybe' {LITERAL}"),
    value("kubeConfigFilePath", "0140", f"int '0140' {LITERAL}"),
    value("kubeConfigFilePath", "no", "Expected `str`, got `bool`"),
    value("kubeConfigFilePath", "2026-01-01", f"timestamp '2026-01-01' {LITERAL}"),
    value("kubeConfigFilePath", "!secret x", f"!secret 'x' {LITERAL}"),
    value("kubeConfigFilePath", "!!map x", f"map 'x' {LITERAL}"),
    value("kubeConfigFilePath", '"\\ud800"', f"str '\\ud800' {LITERAL}"),
    ("logObjectSnapshot: !!map [pod]", "line 1, column 20: expected a mapping node, but found sequence"),
    value("kubeClientQps", ".nan", f"float '.nan' {LITERAL}"),
    value("kubeClientQps", ".inf", f"float '.inf' {LITERAL}"),
    value("kubeClientQps", "1e400", f"float '1e400' {LITERAL}"),
    # Ranges.
    value("kubeClientQps", "0", "Expected `float` > 0.0"),
    value("kubeClientQps", "10000.5", "Expected `float` <= 10000.0"),
    value("kubeClientBurst", "-1", "Expected `int` >= 0"),
    value("kubeClientBurst", "10001", "Expected `int` <= 10000"),
    value("workerNumber", "0", "Expected `int` >= 1"),
    value("crdEstablishedCheckIntervalSec", "0", "Expected `int` >= 1"),
    value("crdEstablishedCheckTimeoutSec", "9", "Expected `int` >= 10"),
    value("objectLocalCacheCreationTimeoutSec", "59", "Expected `int` >= 60"),
    value("frameworkCompletedRetainSec", "-1", "Expected `int` >= 0"),
    value("concurrentRequests", "1001", "Expected `int` <= 1000"),
    value(MIN_DELAY, "901", f"must not be greater than {MAX_DELAY}, which is 900; found 901"),
    (f"{MAX_DELAY}: 59", f"{MIN_DELAY}: must not be greater than {MAX_DELAY}, which is 59; found 60"),
    # Names and addresses.
    value("kubeApiServerAddress", "10.1.1.1:80", "must be http[s]://host:port, found the text '10.1.1.1:80'"),
    ("history: {url: 'tcp://a:1'}", "history: url: must be http[s]://host:port, found the text 'tcp://a:1'"),
    ("namespaces: [a, Team_A]", f"namespaces[1]: {NAME}"),
    ("leaderElection: {name: ''}", f"leaderElection.name: {NAME}"),
    # Groups.
    value("leaderElection", "{renewDeadlineSec: 12}", TIMES),
    value("logObjectSnapshot", "{pods: {}}", "Object contains unknown field `pods`"),
    ("logObjectSnapshot: {pod: {x: true}}", "logObjectSnapshot.pod: Object contains unknown field `x`"),
    # podFailureSpec.
    (
        "gangScheduling: {default: {scheduler: volcano}}",
        "gangScheduling: default.scheduler: must be among gangScheduling.schedulers, found 'volcano'",
    ),
    (
        "gangScheduling: {schedulers: [volcano], default: {scheduler: volcano, topologyKey: z}}",
        "gangScheduling: default.topologyKey: groups of volcano have none",
    ),
    value("podFailureSpec", "{}", "Expected `array`, got `object`"),
    ("podFailureSpec: &a [*a]", "podFailureSpec[0]: Expected `object`, got `array`"),
    (f"podFailureSpec:\n- &a0 [x]\n{ALIASES}", "podFailureSpec[0]: Expected `object`, got `array`"),
    ("podFailureSpec: [~]", "podFailureSpec[0]: Expected `object`, got `null`"),
    entry("", "Object missing required field `code`", code=""),
    entry("", "Object missing required field `code`", code="~"),
    entry(".code", f"int '0137' {LITERAL}", code="0137"),
    entry(".code", "Expected `int` <= 2147483647", code="2147483648"),
    entry(".code", "219 is reserved, as all of 200 to 219 and of -999 to 0 are", code="219"),
    entry(".code", "999 is the code of podFailureSpec[0] already", code="999"),
    entry(".phrase", "Expected `str`, got `bool`", phrase="on"),
    entry(".type.name", "Invalid enum value ''", type="{name: ''}"),
    entry(".type.name", "Invalid enum value 'Succeeded'", type="{name: Succeeded}"),
    entry(".type.attributes[0]", "Invalid enum value 'x'", type="{attributes: [x, Permanent]}"),
    entry("", "Object missing required field `podPatterns`", podPatterns=""),
    entry(".podPatterns", "Expected `array` of length >= 1", podPatterns="[]"),
    entry(".podPatterns[1]", "Object contains unknown field `codeRange`", podPatterns="[{}, {codeRange: {min: 1}}]"),
    pattern(".messageRegex", f"'(' {RE2}: missing ): (", "{messageRegex: '('}"),
    pattern(".containers[1].reasonRegex", f"'(?!b)' {RE2}: {PERL}", "{containers: [{}, {reasonRegex: '(?!b)'}]}"),
    pattern(".messageRegex", "Expected `str`, got `int`", "{messageRegex: 137}"),
    pattern(".containers[0].codeRange", "Expected `object | null`, got `int`", "{containers: [{codeRange: 1}]}"),
    pattern(
        ".containers[0].signalRange", "min 9 is greater than max 1", "{containers: [{signalRange: {min: 9, max: 1}}]}"
    ),
]


@each("text, words", WRONG)
def test_an_error_names_the_path_of_the_key_and_the_reason(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_settings(text)
    assert str(caught.value) == words


def test_the_command_line_takes_the_place_of_the_namespace_in_the_file() -> None:
    read = read_settings(OURS)
    assert read.in_namespaces(["team-c", "team-d"]).namespaces == ("team-c", "team-d")
    with pytest.raises(SettingsError, match=r"^--namespace: must be 1 to 63 lower-case .*; found 'Team'$"):
        read.in_namespaces(["team", "Team"])


# --- the file --------------------------------------------------------------------------------------------------------


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("\ufeffworkerNumber: 3\r\n")
    assert load_settings(file).worker_number == 3


def test_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("workerNumber: x")
    (tmp_path / "bytes").write_bytes(b"a: \xff")
    for name, reason in {
        "wrong": "workerNumber: Expected `int`, got `str`",
        "bytes": "byte 4 is not UTF-8",
        "none": "No such file or directory",
        "": "Is a directory",
    }.items():
        with pytest.raises(SettingsError) as caught:
            load_settings(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {reason}"


def test_a_bad_file_in_the_working_folder_stops_the_start_with_one_line(tmp_path: Path) -> None:
    """RE2 would print a line of its own."""
    (tmp_path / "frameworkcontroller.yaml").write_text(code(podPatterns="[{messageRegex: '('}]"))
    command = [sys.executable, "-m", "frameworkcontroller"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=patience(30), check=False)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    where = "podFailureSpec[1].podPatterns[0].messageRegex"
    assert line.startswith(f"frameworkcontroller: frameworkcontroller.yaml: {where}: ")


# --- anything --------------------------------------------------------------------------------------------------------

PIECES = """
code type podPatterns containers codeRange min leaderElection pod workerNumber { } [ ] *a | > ' " # --- ? << 0140 1:30
yes ~ .inf 1e400 -1 2026-13-45 = %
"""
TAGS = [f"!!{kind} " for kind in ("int", "bool", "null", "timestamp", "map", "set")]
ODD = ["- ", ": ", "\n", "  ", "&a ", "!x ", '"\\ud800"', "\x00", "\ufeff", "9" * 5000]
WORDS = st.sampled_from([*PIECES.split(), *TAGS, *ODD])


def one_line_or_settings(text: str) -> None:
    try:
        read_settings(text)
    except DocumentError as caught:
        error = str(caught)
    else:
        error = "none"
    assert len(error.splitlines()) == 1


@given(st.lists(WORDS, max_size=30).map("".join))
@settings(max_examples=500)
def test_any_text_is_settings_or_one_line_of_error(text: str) -> None:
    one_line_or_settings(text)


@given(st.data())
@settings(max_examples=100)
def test_any_damage_of_a_file_is_settings_or_one_line_of_error(data: st.DataObject) -> None:
    lines = (MICROSOFT + OURS).splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = lines[place][: data.draw(st.integers(0, 40))] + data.draw(WORDS)
    one_line_or_settings("\n".join(lines))
