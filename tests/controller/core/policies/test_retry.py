"""Retries: every rule, and which one comes first."""

from typing import NamedTuple

import pytest

from frameworkcontroller.api.codes import PREDEFINED, Code
from frameworkcontroller.api.status import RetryPolicyStatus
from frameworkcontroller.core.policies.retry import NO_RETRY, Retry, count_retry, decide_retry
from tests.controller.core.values import ended, retry_policy

FREE = Retry(wanted=True, accountable=False)
COUNTED = Retry(wanted=True, accountable=True)
LATER = Retry(wanted=True, accountable=False, delay_sec=77)
UNBOUNDED = -1
ALWAYS = -2


class Case(NamedTuple):
    """A policy, how the attempt ended, and the verdict."""

    kind: str
    limit: int
    fancy: bool
    verdict: Retry
    code: int = 1
    counted: int = 0


CASES = {
    "a success is not retried": Case("succeeded", 0, False, NO_RETRY, code=0),
    "a success is not retried by a bound": Case("succeeded", 5, False, NO_RETRY, code=0),
    "a success is not retried by unbounded retries of failures": Case("succeeded", UNBOUNDED, False, NO_RETRY, code=0),
    "a success is retried by always": Case("succeeded", ALWAYS, False, COUNTED, code=0),
    "a success is retried by always, fancy or not": Case("succeeded", ALWAYS, True, COUNTED, code=0),
    "a success is no matter of the fancy policy": Case("succeeded", 5, True, NO_RETRY, code=0),
    "a failure is not retried by default": Case("failed", 0, False, NO_RETRY),
    "a failure is retried below the bound": Case("failed", 3, False, COUNTED, counted=2),
    "a failure is not retried at the bound": Case("failed", 3, False, NO_RETRY, counted=3),
    "a failure is not retried above a bound that was lowered": Case("failed", 1, False, NO_RETRY, counted=2),
    "a failure is retried without bound": Case("failed", UNBOUNDED, False, COUNTED, counted=1000),
    "a failure is retried by always": Case("failed", ALWAYS, False, COUNTED, counted=1000),
    "fancy retries a transient failure for free": Case("transient", 0, True, FREE),
    "fancy retries a transient failure for free above the bound": Case("transient", 1, True, FREE, counted=9),
    "fancy comes before always": Case("transient", ALWAYS, True, FREE),
    "fancy comes before unbounded": Case("transient", UNBOUNDED, True, FREE),
    "fancy delays a conflict": Case("conflict", 0, True, LATER),
    "fancy refuses a permanent failure": Case("permanent", 5, True, NO_RETRY),
    "fancy refuses a permanent failure before unbounded": Case("permanent", UNBOUNDED, True, NO_RETRY),
    "fancy refuses a permanent failure before always": Case("permanent", ALWAYS, True, NO_RETRY),
    "fancy leaves an unknown failure to the bound": Case("failed", 1, True, COUNTED),
    "fancy leaves an unknown failure to the bound that is reached": Case("failed", 1, True, NO_RETRY, counted=1),
    "without fancy a transient failure counts": Case("transient", 1, False, COUNTED),
    "without fancy a transient failure stops at the bound": Case("transient", 1, False, NO_RETRY, counted=1),
    "without fancy a conflict has no delay": Case("conflict", 1, False, COUNTED),
    "without fancy a permanent failure is retried too": Case("permanent", 1, False, COUNTED),
    "a suspension is retried for free, whatever the policy": Case("transient", 0, False, FREE, code=-250),
    "a suspension is retried for free beyond the bound": Case("transient", 2, False, FREE, code=-250, counted=2),
    "a preemption is retried for free, whatever the policy": Case("transient", 0, False, FREE, code=-260),
    "a stop is never undone by always": Case("permanent", ALWAYS, False, NO_RETRY, code=-210),
    "the end of the Framework attempt is never undone": Case("permanent", ALWAYS, True, NO_RETRY, code=-220),
    "a scale-down is never undone": Case("permanent", UNBOUNDED, False, NO_RETRY, code=-230),
    "the end by a deadline is never undone": Case("permanent", ALWAYS, True, NO_RETRY, code=-240),
    "a stop is never undone whatever its type says": Case("transient", ALWAYS, True, NO_RETRY, code=-210),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_first_rule_that_applies_decides(case: Case) -> None:
    verdict = decide_retry(
        retry_policy(case.limit, fancy=case.fancy),
        # Only accountable retries use up the bound.
        RetryPolicyStatus(total_retried_count=case.counted + 9, accountable_retried_count=case.counted),
        ended(case.code, case.kind),
        conflict_delay_sec=77,
    )
    assert verdict == case.verdict


def test_a_retry_is_counted_and_its_delay_forgotten() -> None:
    counts = RetryPolicyStatus(total_retried_count=4, accountable_retried_count=2, retry_delay_sec=30)
    assert count_retry(counts, FREE) == RetryPolicyStatus(5, 2, None)
    assert count_retry(counts, COUNTED) == RetryPolicyStatus(5, 3, None)


OTHERS = sorted(set(Code) - {-210, -220, -230, -240, -275})


@pytest.mark.parametrize("code", OTHERS, ids=lambda code: code.name)
def test_every_other_code_of_ours_may_be_retried(code: Code) -> None:
    verdict = decide_retry(retry_policy(ALWAYS), RetryPolicyStatus(), ended(code, PREDEFINED[code][1]))
    assert verdict == (FREE if code in {-250, -260, -290} else COUNTED)
