"""The configuration file: every key, those of Microsoft's controller included, and the error about every wrong one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkcontroller.api.codes import FAILED, PERMANENT, TRANSIENT, TRANSIENT_CONFLICT
from frameworkcontroller.core.pods.snapshots import HistoryCause
from frameworkcontroller.core.policies.classification import (
    CONTAINER_CONTRACT,
    ContainerPattern,
    PodPattern,
    Range,
    Regex,
)
from frameworkcontroller.core.reconcile.config import CoreConfig
from frameworkcontroller.engine.config.document import DocumentError
from frameworkcontroller.engine.config.settings import (
    LeaderElectionSettings,
    Settings,
    SettingsError,
    load_settings,
    read_settings,
)
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
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    wanted: set[str] = set()
    for row in rows:
        for key in row.replace("`", "").split(","):
            name = key.strip()
            wanted.add(f"logObjectSnapshot{name}" if name.startswith(".") else name)
    assert leaves(yaml.safe_load(MICROSOFT)) == wanted


def test_every_key_is_read() -> None:
    read = read_settings(MICROSOFT + OURS)
    assert read.kube_api_server_address == "http://10.0.0.1:8080"
    assert read.kube_config_file_path == Settings().kube_config_file_path
    assert (read.kube_client_qps, read.kube_client_burst, read.worker_number) == (200, 300, 500)
    assert read.large_framework_compression is False
    assert (read.crd_established_check_interval_sec, read.crd_established_check_timeout_sec) == (2, 10)
    assert read.log_object_snapshot.triggers == {HistoryCause.FRAMEWORK_DELETION, HistoryCause.TASK_DELETION}
    assert (read.namespaces, read.concurrent_requests) == (("team-a", "team-b"), 32)
    assert read.leader_election == LeaderElectionSettings(False, "a", "b", 6, 4.5, 1)
    assert read.core == CoreConfig(
        60,
        0,
        1,
        2,
        grant_roster_access=False,
        crash_loop_pause=False,
        kueue=True,
        kueue_manages_all=True,
        codes=read.core.codes,
    )


def test_configured_codes_come_after_the_container_contract_with_defaults_for_what_is_left_out() -> None:
    codes = read_settings(MICROSOFT).core.codes
    assert codes[: len(CONTAINER_CONTRACT)] == CONTAINER_CONTRACT
    configured = codes[len(CONTAINER_CONTRACT) :]
    assert [(info.code, info.phrase, info.type) for info in configured] == [
        (221, "Everything", TRANSIENT_CONFLICT),
        (-1000, "OnlyAttributes", TRANSIENT),
        (-1001, "OnlyName", FAILED),
        (-1002, "", PERMANENT),
        (220, "NoType", FAILED),
        (-(2**31), "", FAILED),
        (2**31 - 1, "", FAILED),
        (-1003, "", FAILED),
        (-1004, "", FAILED),
        (-1005, "", FAILED),
    ]
    patterns = {info.code: info.patterns for info in configured}
    parse = Regex.parse
    container = ContainerPattern(parse("^main$"), parse("^Error$"), parse("licen[cs]e"), Range(0, 64), Range(1, 255))
    assert patterns[221] == (
        PodPattern(parse("worker-[0-9]+$"), parse("^NodeShutdown$"), parse("(?i)maintenance window"), (container,)),
    )
    assert patterns[-(2**31)] == patterns[-1003] == (PodPattern(),)
    assert patterns[2**31 - 1] == (PodPattern(), PodPattern(containers=(ContainerPattern(),)))
    (pattern,) = patterns[220]
    assert [container.code for container in pattern.containers] == [Range(None, 0), Range(), None]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~", "podFailureSpec:\nlogObjectSnapshot:\n  pod:\n"])
def test_a_key_that_is_absent_or_null_has_its_default(text: str) -> None:
    assert read_settings(text) == Settings()


def test_defaults_are_those_of_the_frameworks_api() -> None:
    read = load_settings(None)
    assert read.core == CoreConfig(
        300,
        2_592_000,
        60,
        900,
        grant_roster_access=True,
        crash_loop_pause=True,
        kueue=False,
        kueue_manages_all=False,
        codes=CONTAINER_CONTRACT,
    )
    assert (read.kube_client_qps, read.kube_client_burst, read.worker_number) == (None, 120, 200)
    assert (read.crd_established_check_interval_sec, read.crd_established_check_timeout_sec) == (1, 60)
    assert read.large_framework_compression is True
    assert read.log_object_snapshot.triggers == set(HistoryCause)


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
        ("workerNumber: 200\nconcurrentRequests: 300", "slots", 200),
        # The longest time fits into the calendar.
        (f"frameworkCompletedRetainSec: {2**63 - 1}", "framework_completed_retain_sec", 100 * 365 * 86400),
        # The tag of a mapping is ignored.
        ("!mine {workerNumber: 3}", "worker_number", 3),
    ],
)
def test_a_value_is_read_as_people_read_it(text: str, name: str, value: float) -> None:
    assert getattr(read_settings(text), name) == value


def code(**changes: str) -> str:
    """A podFailureSpec whose second entry has these values."""
    entry = {"code": "1000", "phrase": "P", "type": "{name: Failed, attributes: []}", "podPatterns": "[{}]"} | changes
    lines = [f"  {key}: {value}" for key, value in entry.items() if value]
    first = "- {code: 999, phrase: P, type: {name: Failed}, podPatterns: [{}]}"
    return "\n".join(["podFailureSpec:", first, "-", *lines])


def value(key: str, written: str, reason: str) -> tuple[str, str]:
    """A key with a wrong value, and its error."""
    return f"{key}: {written}", f"{key}: {reason}"


def entry(path: str, reason: str, **changes: str) -> tuple[str, str]:
    """A podFailureSpec whose second entry is changed, and the error about a path within it."""
    return code(**changes), f"podFailureSpec[1]{path}: {reason}"


LITERAL = "is not supported; write a decimal number, or quote text"
MIN_DELAY = "frameworkMinRetryDelaySecForTransientConflictFailed"
MAX_DELAY = "frameworkMaxRetryDelaySecForTransientConflictFailed"
WRONG = {
    # The document.
    "syntax": ("workerNumber: [", "line 1, column 16: expected the node content, but found '<stream end>'"),
    "tab": ("pod:\n\tx: 1", "line 2, column 1: found character '\\t' that cannot start any token"),
    "two-documents": ("a: 1\n---\nb: 1", "line 2, column 1: but found another document"),
    "control-character": ("a: \x07", "character 4, U+0007, is not allowed in YAML"),
    "list": ("- 1", "Expected `object`, got `array`"),
    "text": ("hello", "Expected `object`, got `str`"),
    "deep": ("[" * 5000, "it is nested too deeply"),
    "unknown": ("kubeClientQPS: 1", "Object contains unknown field `kubeClientQPS`"),
    "unknown-null": ("x: ~", "Object contains unknown field `x`"),
    "twice": ("workerNumber: 1\nworkerNumber: 2", "workerNumber: the key is given twice"),
    "twice-within": (
        "podFailureSpec: [{code: 1, type: {name: Failed, name: Failed}}]",
        "podFailureSpec[0].type.name: the key is given twice",
    ),
    "merge": ("<<: {workerNumber: 1}", "<<: a key must be text, and merge keys are not supported"),
    "key-flag": ("yes: 1", "yes: a key must be text, and merge keys are not supported"),
    "key-unprintable": ('"a\\e": 1', "Object contains unknown field `a\\x1b`"),
    "key-list": ("[a]: 1", "a key must be text, found a list or a mapping"),
    # Types, and words that YAML reads as something else.
    "quoted-number": value("workerNumber", "'20'", "Expected `int`, got `str`"),
    "yes-for-number": value("workerNumber", "yes", "Expected `int`, got `bool`"),
    "octal": value("workerNumber", "0140", f"int '0140' {LITERAL}"),
    "base-60": value("workerNumber", "1:30", f"int '1:30' {LITERAL}"),
    "hexadecimal": value("workerNumber", "0x10", f"int '0x10' {LITERAL}"),
    "octal-for-text": value("kubeConfigFilePath", "0140", f"int '0140' {LITERAL}"),
    "digits": value("workerNumber", "9" * 41, f"int '{'9' * 41}' {LITERAL}"),
    "fraction": value("workerNumber", "20.0", "Expected `int`, got `float`"),
    "number-for-flag": value("largeFrameworkCompression", "1", "Expected `bool`, got `int`"),
    "text-for-flag": value("largeFrameworkCompression", "'true'", "Expected `bool`, got `str`"),
    "number-for-text": value("kubeConfigFilePath", "12", "Expected `str`, got `int`"),
    "no-for-text": value("kubeConfigFilePath", "no", "Expected `str`, got `bool`"),
    "date-for-text": value("kubeConfigFilePath", "2026-01-01", f"timestamp '2026-01-01' {LITERAL}"),
    "list-for-text": value("kubeConfigFilePath", "[a]", "Expected `str`, got `array`"),
    "tagged": value("kubeConfigFilePath", "!secret x", f"!secret 'x' {LITERAL}"),
    "lying-flag": value("grantRosterAccess", "!!bool maybe", f"bool 'maybe' {LITERAL}"),
    "lying-mapping": value("kubeConfigFilePath", "!!map x", f"map 'x' {LITERAL}"),
    "lying-list": ("logObjectSnapshot: !!map [pod]", "line 1, column 20: expected a mapping node, but found sequence"),
    "half-character": value("kubeConfigFilePath", '"\\ud800"', f"str '\\ud800' {LITERAL}"),
    "not-a-number": value("kubeClientQps", ".nan", f"float '.nan' {LITERAL}"),
    "infinite": value("kubeClientQps", ".inf", f"float '.inf' {LITERAL}"),
    "exponent": value("kubeClientQps", "1e400", f"float '1e400' {LITERAL}"),
    # Ranges.
    "qps-0": value("kubeClientQps", "0", "Expected `float` > 0.0"),
    "qps-high": value("kubeClientQps", "10000.5", "Expected `float` <= 10000.0"),
    "burst-low": value("kubeClientBurst", "-1", "Expected `int` >= 0"),
    "burst-high": value("kubeClientBurst", "10001", "Expected `int` <= 10000"),
    "workers-0": value("workerNumber", "0", "Expected `int` >= 1"),
    "interval": value("crdEstablishedCheckIntervalSec", "0", "Expected `int` >= 1"),
    "timeout": value("crdEstablishedCheckTimeoutSec", "9", "Expected `int` >= 10"),
    "cache": value("objectLocalCacheCreationTimeoutSec", "59", "Expected `int` >= 60"),
    "retain": value("frameworkCompletedRetainSec", "-1", "Expected `int` >= 0"),
    "requests": value("concurrentRequests", "1001", "Expected `int` <= 1000"),
    "min-delay": value(MIN_DELAY, "901", f"must not be greater than {MAX_DELAY}, which is 900; found 901"),
    "max-delay": (
        f"{MAX_DELAY}: 59",
        f"{MIN_DELAY}: must not be greater than {MAX_DELAY}, which is 59; found 60",
    ),
    # Names and addresses.
    "address": value(
        "kubeApiServerAddress", "10.1.1.1:80", "must be http[s]://host:port, found the text '10.1.1.1:80'"
    ),
    "namespace": (
        "namespaces: [a, Team_A]",
        "namespaces[1]: Expected `str` matching regex '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\\\\Z'",
    ),
    # Groups.
    "snapshot-list": value("logObjectSnapshot", "[pod]", "Expected `object`, got `array`"),
    "snapshot-group": value("logObjectSnapshot", "{pods: {}}", "Object contains unknown field `pods`"),
    "snapshot-key": (
        "logObjectSnapshot: {pod: {onPodRetry: true}}",
        "logObjectSnapshot.pod: Object contains unknown field `onPodRetry`",
    ),
    "key-number": (
        "logObjectSnapshot: {12: 1}",
        "logObjectSnapshot.12: a key must be text, and merge keys are not supported",
    ),
    "election-times": value(
        "leaderElection",
        "{renewDeadlineSec: 12}",
        "the lease duration, 12 s, must be greater than the renew deadline, 12 s",
    ),
    "election-name": (
        "leaderElection: {name: ''}",
        "leaderElection.name: Expected `str` matching regex '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\\\\Z'",
    ),
    # podFailureSpec.
    "spec-itself": ("podFailureSpec: &a [*a]", "podFailureSpec[0]: Expected `object`, got `array`"),
    "aliases": (
        "podFailureSpec:\n- &a0 [x]\n" + "\n".join(f"- &a{n + 1} [*a{n}, *a{n}]" for n in range(40)),
        "podFailureSpec[0]: Expected `object`, got `array`",
    ),
    "spec-mapping": value("podFailureSpec", "{}", "Expected `array`, got `object`"),
    "entry-null": ("podFailureSpec: [~]", "podFailureSpec[0]: Expected `object`, got `null`"),
    "code-missing": entry("", "Object missing required field `code`", code=""),
    "code-null": entry("", "Object missing required field `code`", code="~"),
    "code-octal": entry(".code", f"int '0137' {LITERAL}", code="0137"),
    "code-large": entry(".code", "Expected `int` <= 2147483647", code="2147483648"),
    "code-reserved": entry(".code", "219 is reserved, as all of 200 to 219 and of -999 to 0 are", code="219"),
    "code-twice": entry(".code", "999 is the code of podFailureSpec[0] already", code="999"),
    "phrase-on": entry(".phrase", "Expected `str`, got `bool`", phrase="on"),
    "type-text": entry(".type", "Expected `object`, got `str`", type="Failed"),
    "type-name-empty": entry(".type.name", "Invalid enum value ''", type="{name: ''}"),
    "type-name": entry(".type.name", "Invalid enum value 'Succeeded'", type="{name: Succeeded}"),
    "attribute": entry(
        ".type.attributes[0]", "Invalid enum value 'x'", type="{name: Failed, attributes: [x, Permanent]}"
    ),
    "patterns-missing": entry("", "Object missing required field `podPatterns`", podPatterns=""),
    "patterns-empty": entry(".podPatterns", "Expected `array` of length >= 1", podPatterns="[]"),
    "pod-range": entry(
        ".podPatterns[1]", "Object contains unknown field `codeRange`", podPatterns="[{}, {codeRange: {min: 1}}]"
    ),
    "regex": entry(
        ".podPatterns[0].messageRegex",
        "'(' is not a regular expression in RE2 syntax: missing ): (",
        podPatterns="[{messageRegex: '('}]",
    ),
    "regex-lookahead": entry(
        ".podPatterns[0].containers[1].reasonRegex",
        "'a(?!b)' is not a regular expression in RE2 syntax: invalid perl operator: (?!",
        podPatterns="[{containers: [{}, {reasonRegex: 'a(?!b)'}]}]",
    ),
    "regex-number": entry(
        ".podPatterns[0].messageRegex", "Expected `str`, got `int`", podPatterns="[{messageRegex: 137}]"
    ),
    "range-number": entry(
        ".podPatterns[0].containers[0].codeRange",
        "Expected `object | null`, got `int`",
        podPatterns="[{containers: [{codeRange: 1}]}]",
    ),
    "range-backwards": entry(
        ".podPatterns[0].containers[0].signalRange",
        "min 9 is greater than max 1",
        podPatterns="[{containers: [{signalRange: {min: 9, max: 1}}]}]",
    ),
}


@each("text, words", WRONG.values(), ids=WRONG)
def test_an_error_names_the_path_of_the_key_and_the_reason(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_settings(text)
    assert str(caught.value) == words


def test_anchors_are_followed() -> None:
    text = code(type="&t {name: Failed, attributes: [Permanent]}") + (
        "\n- {code: 5, phrase: Q, type: *t, podPatterns: [{}]}"
    )
    assert read_settings(text).core.codes[-1].type == PERMANENT


# --- the file --------------------------------------------------------------------------------------------------------


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("\ufeffworkerNumber: 3\r\n")
    assert load_settings(file).worker_number == 3


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    for content, words in [
        (b"workerNumber: x", "workerNumber: Expected `int`, got `str`"),
        (b"a: \xff", "byte 4 is not UTF-8"),
    ]:
        file.write_bytes(content)
        with pytest.raises(SettingsError) as caught:
            load_settings(file)
        assert str(caught.value).startswith(f"{file}: {words}")
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path / "none.yaml")
    assert str(caught.value) == f"{tmp_path / 'none.yaml'}: No such file or directory"
    with pytest.raises(SettingsError) as caught:
        load_settings(tmp_path)
    assert str(caught.value) == f"{tmp_path}: Is a directory"


def test_a_bad_file_in_the_working_folder_stops_the_start_with_one_line(tmp_path: Path) -> None:
    """RE2 would print a line of its own."""
    (tmp_path / "frameworkcontroller.yaml").write_text(code(podPatterns="[{messageRegex: '('}]"))
    ended = subprocess.run(
        [sys.executable, "-m", "frameworkcontroller"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=patience(30),
        check=False,
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(
        "frameworkcontroller: frameworkcontroller.yaml: podFailureSpec[1].podPatterns[0].messageRegex: "
    )


# --- anything --------------------------------------------------------------------------------------------------------

PIECES = """
code type podPatterns containers codeRange min leaderElection pod workerNumber { } [ ] *a | > ' " # --- ? << 0140 1:30
yes ~ .inf 1e400 -1 2026-13-45 = %
"""
TAGS = [f"!!{kind} " for kind in ("int", "bool", "null", "timestamp", "map", "set")]
ODD = ["- ", ": ", "\n", "  ", "&a ", "!x ", '"\\ud800"', "\x00", "\ufeff", "9" * 5000]
WORDS = st.sampled_from([*PIECES.split(), *TAGS, *ODD])


def test_the_command_line_takes_the_place_of_the_namespace_in_the_file() -> None:
    read = read_settings(OURS)
    assert read.in_namespaces(["team-a", "team-b"]).namespaces == ("team-a", "team-b")
    with pytest.raises(SettingsError, match=r"^--namespace: must be 1 to 63 lower-case .*; found 'Team'$"):
        read.in_namespaces(["team", "Team"])


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
