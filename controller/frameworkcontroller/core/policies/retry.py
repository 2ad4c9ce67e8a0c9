"""Whether a completed attempt is retried (docs/reference/framework-api.md, section 7)."""

from dataclasses import dataclass

from frameworkcontroller.api.codes import NEVER_RETRIED, WITHOUT_COUNT, Attribute, TypeName
from frameworkcontroller.api.spec import RetryPolicy
from frameworkcontroller.api.status import Completion, RetryPolicyStatus

ALWAYS = -2
ON_ANY_FAILURE = -1


@dataclass(frozen=True)
class Retry:
    """The verdict. `delay_sec` counts whole seconds from the attempt's completion."""

    wanted: bool
    accountable: bool = False
    delay_sec: int = 0


NO_RETRY = Retry(wanted=False)


def decide_retry(
    policy: RetryPolicy,
    counts: RetryPolicyStatus,
    completion: Completion,
    *,
    conflict_delay_sec: int = 0,
) -> Retry:
    """Decide whether to retry, by the first rule that applies.

    A conflict between gangs is resolved by a random delay, which is not for Tasks.
    """
    failed = completion.type.name == TypeName.FAILED
    if completion.code in NEVER_RETRIED:
        return NO_RETRY
    if completion.code in WITHOUT_COUNT:
        return Retry(wanted=True)
    if policy.fancy_retry_policy and failed:
        if completion.type.has(Attribute.TRANSIENT):
            delay = conflict_delay_sec if completion.type.has(Attribute.CONFLICT) else 0
            return Retry(wanted=True, accountable=False, delay_sec=delay)
        if completion.type.has(Attribute.PERMANENT):
            return NO_RETRY
    if policy.max_retry_count == ALWAYS:
        return Retry(wanted=True, accountable=True)
    if failed and (
        policy.max_retry_count == ON_ANY_FAILURE or counts.accountable_retried_count < policy.max_retry_count
    ):
        return Retry(wanted=True, accountable=True)
    return NO_RETRY


def count_retry(counts: RetryPolicyStatus, retry: Retry) -> RetryPolicyStatus:
    """Return the counters after the retry; they hold no delay any more."""
    return type(counts)(
        total_retried_count=counts.total_retried_count + 1,
        accountable_retried_count=counts.accountable_retried_count + int(retry.accountable),
        retry_delay_sec=None,
    )
