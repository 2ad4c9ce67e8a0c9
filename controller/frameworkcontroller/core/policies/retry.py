"""Whether a completed attempt is retried (docs/reference/framework-api.md, section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from frameworkcontroller.api.codes import NEVER_RETRIED, Attribute, TypeName

if TYPE_CHECKING:
    from frameworkcontroller.api.spec import RetryPolicy
    from frameworkcontroller.api.status import CompletionType, RetryPolicyStatus

ALWAYS = -2
ON_ANY_FAILURE = -1


class Completion(Protocol):
    """What the end of a Task attempt and of a Framework attempt have in common."""

    @property
    def code(self) -> int:
        """The completion code."""

    @property
    def type(self) -> CompletionType:
        """Whether the attempt succeeded, or what is known about its failure."""


@dataclass(frozen=True)
class Retry:
    """The verdict. `delay_sec` counts whole seconds from the attempt's completion."""

    wanted: bool
    accountable: bool = False
    delay_sec: int = 0


NO_RETRY = Retry(wanted=False)


def decide_retry(
    policy: RetryPolicy, counts: RetryPolicyStatus, completion: Completion, *, conflict_delay_sec: int = 0
) -> Retry:
    """Decide whether to retry, by the first rule that applies.

    Args:
        policy: what the user allows.
        counts: the retries so far.
        completion: how the attempt ended.
        conflict_delay_sec: the random delay that resolves deadlocks between gangs; 0 for Tasks.
    """
    failed = completion.type.name == TypeName.FAILED
    if completion.code in NEVER_RETRIED:
        return NO_RETRY
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
