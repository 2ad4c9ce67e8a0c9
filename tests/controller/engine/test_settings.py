"""The configuration file: every key, and the error about every wrong one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameworkcontroller.api.codes import PERMANENT, TRANSIENT_CONFLICT
from frameworkcontroller.core.pods.snapshots import HistoryCause
from frameworkcontroller.core.policies.classification import CONTAINER_CONTRACT
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

if TYPE_CHECKING:
    from pathlib import Path

EVERYTHING = """
kubeApiServerAddress: http://10.10.1.1:8080
kubeConfigFilePath: ''
kubeClientQps: 80
kubeClientBurst: 120
workerNumber: 20
largeFrameworkCompression: false
crdEstablishedCheckIntervalSec: 2
crdEstablishedCheckTimeoutSec: 10
objectLocalCacheCreationTimeoutSec: 60
frameworkCompletedRetainSec: 0
frameworkMinRetryDelaySecForTransientConflictFailed: 1
frameworkMaxRetryDelaySecForTransientConflictFailed: 1
logObjectSnapshot:
  framework:
    onFrameworkRetry: false
  task: {onTaskRetry: off, onTaskDeletion: yes}
  pod:
    onPodDeletion: false
podFailureSpec:
- code: 221
  phrase: "Unlucky"
  type:
    name: Failed
    attributes:
    - Transient
    - Conflict
  podPatterns:
  - messageRegex: (?msi)no space left on device
    containers:
    - {nameRegex: '^main$', signalRange: {max: 15}, codeRange: {min: 1, max: 1}}
- code: -1000
  phrase: Any
  type: {name: Failed, attributes: [Permanent]}
  podPatterns: [{}]
namespace: team-a
grantRosterAccess: no
crashLoopPause: no
concurrentRequests: 32
leaderElection: {enabled: false, namespace: a, name: b, leaseDurationSec: 6, renewDeadlineSec: 4.5, retryPeriodSec: 1}
"""


def test_every_key_is_read() -> None:
    read = read_settings(EVERYTHING)
    assert read.kube_api_server_address == "http://10.10.1.1:8080"
    assert read.kube_config_file_path == Settings().kube_config_file_path
    assert (read.kube_client_qps, read.kube_client_burst, read.worker_number) == (80, 120, 20)
    assert read.large_framework_compression is False
    assert (read.crd_established_check_interval_sec, read.crd_established_check_timeout_sec) == (2, 10)
    assert read.log_object_snapshot.triggers == {HistoryCause.FRAMEWORK_DELETION, HistoryCause.TASK_DELETION}
    assert read.namespace == "team-a"
    assert read.leader_election == LeaderElectionSettings(False, "a", "b", 6, 4.5, 1)
    core = read.core
    assert (core.object_local_cache_creation_timeout_sec, core.framework_completed_retain_sec) == (60, 0)
    assert (core.framework_min_retry_delay_sec, core.framework_max_retry_delay_sec) == (1, 1)
    assert core.grant_roster_access is False
    assert core.crash_loop_pause is False


def test_configured_codes_come_after_the_container_contract() -> None:
    codes = read_settings(EVERYTHING).core.codes
    assert codes[: len(CONTAINER_CONTRACT)] == CONTAINER_CONTRACT
    unlucky, any_other = codes[len(CONTAINER_CONTRACT) :]
    assert (unlucky.code, unlucky.phrase, unlucky.type) == (221, "Unlucky", TRANSIENT_CONFLICT)
    assert (any_other.code, any_other.type) == (-1000, PERMANENT)
    (pattern,) = unlucky.patterns
    assert pattern.message is not None
    assert pattern.message.find("write: No space left on device (28)") == "No space left on device"
    (container,) = pattern.containers
    assert container.name is not None
    assert (container.name.find("main"), container.name.find("domain")) == ("main", None)
    assert container.reason is None
    assert [
        0 in container.signal if container.signal else None,
        16 in container.signal if container.signal else None,
    ] == [
        True,
        False,
    ]
    assert container.code is not None
    assert [number for number in range(-3, 5) if number in container.code] == [1]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~", "podFailureSpec:\nlogObjectSnapshot:\n  pod:\n"])
def test_a_key_that_is_absent_or_null_has_its_default(text: str) -> None:
    assert read_settings(text) == Settings()


def test_defaults_are_those_of_the_frameworks_api() -> None:
    read = Settings()
    assert read.core == CoreConfig(
        300, 2_592_000, 60, 900, grant_roster_access=True, crash_loop_pause=True, codes=CONTAINER_CONTRACT
    )
    assert (read.kube_client_qps, read.kube_client_burst, read.worker_number) == (None, 120, 200)
    assert (read.crd_established_check_interval_sec, read.crd_established_check_timeout_sec) == (1, 60)
    assert read.large_framework_compression is True
    assert read.log_object_snapshot.triggers == set(HistoryCause)


@pytest.mark.parametrize(("text", "rate"), [("80", 80), ("2.5", 2.5), ("1e3", 1000), ("1_000", 1000)])
def test_a_number_may_be_written_in_any_decimal_form(text: str, rate: float) -> None:
    assert read_settings(f"kubeClientQps: {text}").kube_client_qps == rate


@pytest.mark.parametrize(("workers", "requests", "slots"), [(200, 64, 64), (10, 64, 10), (200, 300, 200)])
def test_the_smaller_of_two_limits_bounds_requests(workers: int, requests: int, slots: int) -> None:
    assert read_settings(f"workerNumber: {workers}\nconcurrentRequests: {requests}").slots == slots


def test_the_longest_time_fits_into_the_calendar() -> None:
    assert read_settings(f"frameworkCompletedRetainSec: {2**63 - 1}").core.framework_completed_retain_sec < 10**10


def code(**changes: str) -> str:
    """A podFailureSpec whose second entry has these values."""
    entry = {"code": "1000", "phrase": "P", "type": "{name: Failed, attributes: []}", "podPatterns": "[{}]"} | changes
    lines = [f"  {key}: {value}" for key, value in entry.items() if value]
    first = "- {code: 999, phrase: P, type: {name: Failed}, podPatterns: [{}]}"
    return "\n".join(["podFailureSpec:", first, "-", *lines])


WRONG = {
    # The document.
    "syntax": ("workerNumber: [", "line 1, column 16: expected the node content, but found '<stream end>'"),
    "tab": ("pod:\n\tx: 1", "line 2, column 1: found character '\\t' that cannot start any token"),
    "two-documents": ("a: 1\n---\nb: 1", "line 2, column 1: but found another document"),
    "control-character": ("a: \x07", "character 4, U+0007, is not allowed in YAML"),
    "list": ("- 1", "Expected `object`, got `array`"),
    "text": ("hello", "Expected `object`, got `str`"),
    "deep": ("[" * 5000, "it is nested too deeply"),
    "unknown": ("workerNumbers: 1", "Object contains unknown field `workerNumbers`"),
    "unknown-null": ("x: ~", "Object contains unknown field `x`"),
    "unknown-case": ("kubeClientQPS: 1", "Object contains unknown field `kubeClientQPS`"),
    "twice": ("workerNumber: 1\nworkerNumber: 2", "workerNumber: the key is given twice"),
    "twice-within": (
        "podFailureSpec: [{code: 1, type: {name: Failed, name: Failed}}]",
        "podFailureSpec[0].type.name: the key is given twice",
    ),
    "merge": ("<<: {workerNumber: 1}", "<<: a key must be text, and merge keys are not supported"),
    "key-number": (
        "logObjectSnapshot: {12: 1}",
        "logObjectSnapshot.12: a key must be text, and merge keys are not supported",
    ),
    "key-flag": ("yes: 1", "yes: a key must be text, and merge keys are not supported"),
    "key-unprintable": ('"a\\e": 1', "Object contains unknown field `a\\x1b`"),
    "key-list": ("[a]: 1", "a key must be text, found a list or a mapping"),
    # Types, and words that YAML reads as something else.
    "word-for-number": ("workerNumber: many", "workerNumber: Expected `int`, got `str`"),
    "quoted-number": ("workerNumber: '20'", "workerNumber: Expected `int`, got `str`"),
    "yes-for-number": ("workerNumber: yes", "workerNumber: Expected `int`, got `bool`"),
    "octal": ("workerNumber: 0140", "workerNumber: int '0140' is not supported; write a decimal number, or quote text"),
    "base-60": (
        "workerNumber: 1:30",
        "workerNumber: int '1:30' is not supported; write a decimal number, or quote text",
    ),
    "hexadecimal": (
        "workerNumber: 0x10",
        "workerNumber: int '0x10' is not supported; write a decimal number, or quote text",
    ),
    "octal-for-text": (
        "namespace: 0140",
        "namespace: int '0140' is not supported; write a decimal number, or quote text",
    ),
    "base-60-for-text": (
        "namespace: 1:30",
        "namespace: int '1:30' is not supported; write a decimal number, or quote text",
    ),
    "digits": (
        "workerNumber: " + "9" * 41,
        f"workerNumber: int '{'9' * 41}' is not supported; write a decimal number, or quote text",
    ),
    "fraction": ("workerNumber: 20.0", "workerNumber: Expected `int`, got `float`"),
    "number-for-flag": ("largeFrameworkCompression: 1", "largeFrameworkCompression: Expected `bool`, got `int`"),
    "text-for-flag": (
        "largeFrameworkCompression: 'true'",
        "largeFrameworkCompression: Expected `bool`, got `str`",
    ),
    "number-for-text": ("namespace: 12", "namespace: Expected `str`, got `int`"),
    "no-for-text": ("namespace: no", "namespace: Expected `str`, got `bool`"),
    "date-for-text": (
        "namespace: 2026-01-01",
        "namespace: timestamp '2026-01-01' is not supported; write a decimal number, or quote text",
    ),
    "list-for-text": ("namespace: [a]", "namespace: Expected `str`, got `array`"),
    "tagged": (
        "namespace: !secret x",
        "namespace: !secret 'x' is not supported; write a decimal number, or quote text",
    ),
    "not-a-number": (
        "kubeClientQps: .nan",
        "kubeClientQps: float '.nan' is not supported; write a decimal number, or quote text",
    ),
    "lying-flag": (
        "grantRosterAccess: !!bool maybe",
        "grantRosterAccess: bool 'maybe' is not supported; write a decimal number, or quote text",
    ),
    "lying-mapping": (
        "namespace: !!map x",
        "namespace: map 'x' is not supported; write a decimal number, or quote text",
    ),
    "lying-list": ("logObjectSnapshot: !!map [pod]", "line 1, column 20: expected a mapping node, but found sequence"),
    "half-character": (
        'kubeConfigFilePath: "\\ud800"',
        "kubeConfigFilePath: str '\\ud800' is not supported; write a decimal number, or quote text",
    ),
    "exponent": (
        "kubeClientQps: 1e400",
        "kubeClientQps: float '1e400' is not supported; write a decimal number, or quote text",
    ),
    "infinite": (
        "kubeClientQps: .inf",
        "kubeClientQps: float '.inf' is not supported; write a decimal number, or quote text",
    ),
    # Ranges.
    "qps-0": ("kubeClientQps: 0", "kubeClientQps: Expected `float` > 0.0"),
    "qps-high": ("kubeClientQps: 10000.5", "kubeClientQps: Expected `float` <= 10000.0"),
    "burst-low": ("kubeClientBurst: -1", "kubeClientBurst: Expected `int` >= 0"),
    "burst-high": ("kubeClientBurst: 10001", "kubeClientBurst: Expected `int` <= 10000"),
    "workers-0": ("workerNumber: 0", "workerNumber: Expected `int` >= 1"),
    "interval": ("crdEstablishedCheckIntervalSec: 0", "crdEstablishedCheckIntervalSec: Expected `int` >= 1"),
    "timeout": ("crdEstablishedCheckTimeoutSec: 9", "crdEstablishedCheckTimeoutSec: Expected `int` >= 10"),
    "cache": (
        "objectLocalCacheCreationTimeoutSec: 59",
        "objectLocalCacheCreationTimeoutSec: Expected `int` >= 60",
    ),
    "retain": ("frameworkCompletedRetainSec: -1", "frameworkCompletedRetainSec: Expected `int` >= 0"),
    "requests": ("concurrentRequests: 1001", "concurrentRequests: Expected `int` <= 1000"),
    "min-delay": (
        "frameworkMinRetryDelaySecForTransientConflictFailed: 901",
        (
            "frameworkMinRetryDelaySecForTransientConflictFailed: must not be greater than "
            "frameworkMaxRetryDelaySecForTransientConflictFailed, which is 900; found 901"
        ),
    ),
    "max-delay": (
        "frameworkMaxRetryDelaySecForTransientConflictFailed: 59",
        (
            "frameworkMinRetryDelaySecForTransientConflictFailed: must not be greater than "
            "frameworkMaxRetryDelaySecForTransientConflictFailed, which is 59; found 60"
        ),
    ),
    # Names and addresses.
    "address": (
        "kubeApiServerAddress: 10.1.1.1:80",
        "kubeApiServerAddress: must be http[s]://host:port, found the text '10.1.1.1:80'",
    ),
    "namespace": (
        "namespace: Team_A",
        "namespace: Expected `str` matching regex '^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?\\\\Z'",
    ),
    # Groups.
    "snapshot-list": ("logObjectSnapshot: [pod]", "logObjectSnapshot: Expected `object`, got `array`"),
    "snapshot-group": ("logObjectSnapshot: {pods: {}}", "logObjectSnapshot: Object contains unknown field `pods`"),
    "snapshot-key": (
        "logObjectSnapshot: {pod: {onPodRetry: true}}",
        "logObjectSnapshot.pod: Object contains unknown field `onPodRetry`",
    ),
    "snapshot-flag": (
        "logObjectSnapshot: {pod: {onPodDeletion: 1}}",
        "logObjectSnapshot.pod.onPodDeletion: Expected `bool`, got `int`",
    ),
    "election-times": (
        "leaderElection: {renewDeadlineSec: 12}",
        "leaderElection: the lease duration, 12 s, must be greater than the renew deadline, 12 s",
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
    "spec-mapping": ("podFailureSpec: {}", "podFailureSpec: Expected `array`, got `object`"),
    "entry-text": ("podFailureSpec: [x]", "podFailureSpec[0]: Expected `object`, got `str`"),
    "entry-null": ("podFailureSpec: [~]", "podFailureSpec[0]: Expected `object`, got `null`"),
    "code-missing": (code(code=""), "podFailureSpec[1]: Object missing required field `code`"),
    "code-null": (code(code="~"), "podFailureSpec[1]: Object missing required field `code`"),
    "code-octal": (
        code(code="0137"),
        "podFailureSpec[1].code: int '0137' is not supported; write a decimal number, or quote text",
    ),
    "code-large": (
        code(code="2147483648"),
        "podFailureSpec[1].code: Expected `int` <= 2147483647",
    ),
    "phrase-on": (
        code(phrase="on"),
        "podFailureSpec[1].phrase: Expected `str`, got `bool`",
    ),
    "type-text": (code(type="Failed"), "podFailureSpec[1].type: Expected `object`, got `str`"),
    "type-name-empty": (code(type="{name: ''}"), "podFailureSpec[1].type.name: Invalid enum value ''"),
    "type-name": (
        code(type="{name: Succeeded}"),
        "podFailureSpec[1].type.name: Invalid enum value 'Succeeded'",
    ),
    "attribute": (
        code(type="{name: Failed, attributes: [x, Permanent]}"),
        "podFailureSpec[1].type.attributes[0]: Invalid enum value 'x'",
    ),
    "patterns-missing": (code(podPatterns=""), "podFailureSpec[1]: Object missing required field `podPatterns`"),
    "patterns-empty": (
        code(podPatterns="[]"),
        "podFailureSpec[1].podPatterns: Expected `array` of length >= 1",
    ),
    "pattern-key": (
        code(podPatterns="[{}, {reason: x}]"),
        "podFailureSpec[1].podPatterns[1]: Object contains unknown field `reason`",
    ),
    "pod-range": (
        code(podPatterns="[{codeRange: {min: 1}}]"),
        "podFailureSpec[1].podPatterns[0]: Object contains unknown field `codeRange`",
    ),
    "regex": (
        code(podPatterns="[{messageRegex: '('}]"),
        "podFailureSpec[1].podPatterns[0].messageRegex: '(' is not a regular expression in RE2 syntax: missing ): (",
    ),
    "regex-lookahead": (
        code(podPatterns="[{containers: [{}, {reasonRegex: 'a(?!b)'}]}]"),
        (
            "podFailureSpec[1].podPatterns[0].containers[1].reasonRegex: 'a(?!b)' is not a regular expression in RE2 "
            "syntax: invalid perl operator: (?!"
        ),
    ),
    "regex-number": (
        code(podPatterns="[{messageRegex: 137}]"),
        "podFailureSpec[1].podPatterns[0].messageRegex: Expected `str`, got `int`",
    ),
    "range-number": (
        code(podPatterns="[{containers: [{codeRange: 1}]}]"),
        "podFailureSpec[1].podPatterns[0].containers[0].codeRange: Expected `object | null`, got `int`",
    ),
    "range-backwards": (
        code(podPatterns="[{containers: [{signalRange: {min: 9, max: 1}}]}]"),
        "podFailureSpec[1].podPatterns[0].containers[0].signalRange: min 9 is greater than max 1",
    ),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_an_error_names_the_path_of_the_key_and_the_reason(text: str, words: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_settings(text)
    assert str(caught.value) == words


@pytest.mark.parametrize("number", [-999, -310, -100, 0, 200, 201, 219])
def test_reserved_codes_are_refused(number: int) -> None:
    with pytest.raises(DocumentError) as caught:
        read_settings(code(code=str(number)))
    words = f"podFailureSpec[1].code: {number} is reserved, as all of 200 to 219 and of -999 to 0 are"
    assert str(caught.value) == words


@pytest.mark.parametrize("number", [-1000, 1, 199, 220])
def test_codes_next_to_the_reserved_ones_are_accepted(number: int) -> None:
    assert read_settings(code(code=str(number))).pod_failure_spec[1].code == number


def test_a_code_is_given_once() -> None:
    with pytest.raises(DocumentError) as caught:
        read_settings(code(code="999"))
    assert str(caught.value) == "podFailureSpec[1].code: 999 is the code of podFailureSpec[0] already"


def test_the_tag_of_a_mapping_is_ignored() -> None:
    assert read_settings("!mine {workerNumber: 3}").worker_number == 3


def test_anchors_are_followed() -> None:
    text = code(type="&t {name: Failed, attributes: [Permanent]}") + (
        "\n- {code: 5, phrase: Q, type: *t, podPatterns: [{}]}"
    )
    assert read_settings(text).core.codes[-1].type == PERMANENT


# --- the file --------------------------------------------------------------------------------------------------------


def test_without_a_file_everything_has_its_default() -> None:
    assert load_settings(None) == Settings()


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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (code(podPatterns="[{messageRegex: '('}]"), "podFailureSpec[1].podPatterns[0].messageRegex: "),
        ("workerNumber: [", "line 1, column 16: "),
    ],
    ids=["regex", "syntax"],
)
def test_a_bad_file_in_the_working_folder_stops_the_start_with_one_line(
    tmp_path: Path, content: str, words: str
) -> None:
    (tmp_path / "frameworkcontroller.yaml").write_text(content)
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
    assert line.startswith(f"frameworkcontroller: frameworkcontroller.yaml: {words}")


# --- anything --------------------------------------------------------------------------------------------------------

PIECES = """
code type podPatterns containers codeRange min leaderElection pod workerNumber { } [ ] *a | > ' " # --- ? << 0140 1:30
yes ~ .inf 1e400 -1 2026-13-45 = %
"""
ODD = (
    "- ",
    ": ",
    "\n",
    "  ",
    "&a ",
    "!!int ",
    "!!bool ",
    "!!null ",
    "!!timestamp ",
    "!!map ",
    "!!set ",
    "!x ",
    '"\\ud800"',
    "\x00",
    "\ufeff",
    "9" * 5000,
)
WORDS = st.sampled_from([*PIECES.split(), *ODD])


def test_the_command_line_takes_the_place_of_the_namespace_in_the_file() -> None:
    read = read_settings(EVERYTHING)
    assert read.in_namespace("team-a").namespace == "team-a"
    with pytest.raises(SettingsError, match=r"^--namespace: must be 1 to 63 lower-case .*; found 'Team'$"):
        read.in_namespace("Team")


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
    lines = EVERYTHING.splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    lines[place] = lines[place][: data.draw(st.integers(0, 40))] + data.draw(WORDS)
    one_line_or_settings("\n".join(lines))
