"""What each field of a Framework means: the text of `kubectl explain` and of the tables of the reference.

`crd` puts the texts into the CustomResourceDefinition, and `make manifests` into docs/reference/framework-api.md.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final = {
    "": "A Framework runs Pods in roles and decides about them as a whole: when they start, what is retried, and when "
    "all of it has succeeded or failed.",
    "spec": "What is to run.",
    "spec.description": "For people; the controller does nothing with it.",
    "spec.executionType": "Create: the Framework waits. Start: it runs. Stop: it completes with code -210, and the "
    "object stays. It changes only from Create to Start or Stop, and from Start to Stop.",
    "spec.retryPolicy": "Whether a Framework attempt that has ended is followed by another one, in which all Tasks are "
    "new.",
    "spec.retryPolicy.fancyRetryPolicy": "Retry by what is known about a failure: transient ones always, permanent "
    "ones never; maxRetryCount decides about all others.",
    "spec.retryPolicy.maxRetryCount": "How often a failed attempt is retried. -1: every failure, -2: also a success.",
    "spec.taskRoles": "The kinds of Pods, at most 1,000. The spec of a running Framework may get and lose TaskRoles.",
    "spec.taskRoles[].name": "The name of the role, a part of the names of its Pods.",
    "spec.taskRoles[].taskNumber": "How many Tasks the role has, each with one Pod at a time; it may change at any "
    "time. All TaskRoles together have at most 10,000.",
    "spec.taskRoles[].frameworkAttemptCompletionPolicy": "How many ends of Tasks of this role end the whole attempt. "
    "If no role has reached such a number when all Tasks have ended, the attempt has succeeded.",
    "spec.taskRoles[].frameworkAttemptCompletionPolicy.minFailedTaskCount": "So many failed Tasks fail the attempt. "
    "-1: none do; 0 is refused, since it would end every attempt at once.",
    "spec.taskRoles[].frameworkAttemptCompletionPolicy.minSucceededTaskCount": "So many succeeded Tasks complete the "
    "attempt, which has succeeded then. -1: none do; 0 is refused, since it would end every attempt at once.",
    "spec.taskRoles[].frameworkAttemptCompletionPolicy.minFailedTaskPercent": "So many percent of taskNumber, rounded "
    "up, are the number of failed Tasks that counts instead of minFailedTaskCount. null: minFailedTaskCount counts.",
    "spec.taskRoles[].frameworkAttemptCompletionPolicy.minSucceededTaskPercent": "So many percent of taskNumber, "
    "rounded up, are the number of succeeded Tasks that counts instead of minSucceededTaskCount. null: "
    "minSucceededTaskCount counts.",
    "spec.taskRoles[].task": "What each Task of the role is.",
    "spec.taskRoles[].task.retryPolicy": "Whether a Task attempt that has ended is followed by another one, with a new "
    "Pod, while the other Tasks go on.",
    "spec.taskRoles[].task.retryPolicy.fancyRetryPolicy": "Retry by what is known about a failure: transient ones "
    "always, permanent ones never; maxRetryCount decides about all others.",
    "spec.taskRoles[].task.retryPolicy.maxRetryCount": "How often a failed attempt is retried. -1: every failure, -2: "
    "also a success.",
    "spec.taskRoles[].task.podGracefulDeletionTimeoutSec": "After so many seconds, 0 to 2147483647, a Pod under "
    "deletion is deleted by force, at the cost of the guarantee that no two instances run. null: never.",
    "spec.taskRoles[].task.pod": "The Pod of each Task: a PodTemplateSpec of any Kubernetes version, kept as it came. "
    "Placeholders such as {{FC_TASK_INDEX}} in its strings are filled in.",
    "spec.taskRoles[].dependsOn": "No Pod of this TaskRole is created before all Tasks of these TaskRoles are that "
    "far. null: at once. All TaskRoles together have at most 10,000 entries.",
    "spec.taskRoles[].dependsOn[].name": "Another TaskRole of this Framework.",
    "spec.taskRoles[].dependsOn[].status": "Ready: the Pods of its Tasks are Ready. Complete: its Tasks are Completed.",
    "spec.activeDeadlineSeconds": "So many seconds after its first Task ran (status.runTime), retries included, the "
    "Framework fails with code -240. null: never.",
    "spec.ttlSecondsAfterFinished": "So many seconds after its end the Framework is deleted, 0: at once. null: after "
    "frameworkCompletedRetainSec of the controller.",
    "spec.retainPods": "Which Pods stay after the end of their Task, with their logs, until the Framework is deleted "
    "or a retry needs their names: those that have failed, or all that have ended. Never, if it is absent.",
    "status": "What the controller knows of the Framework, null before it has seen it.",
    "status.startTime": "When the controller has seen the Framework first.",
    "status.runTime": "When the first Task ran, null before.",
    "status.completionTime": "When the Framework was completed, null before.",
    "status.state": "How far the current attempt is, as far as its ConfigMap shows: it waits for its creation, "
    "prepares, runs, is deleted or has ended. Completed is final.",
    "status.transitionTime": "When the state changed last.",
    "status.ready": "How many Tasks are ready, that is, can be reached by their peers, of all that the spec asks for: "
    "3/4.",
    "status.observedGeneration": "metadata.generation of the spec that this status speaks of.",
    "status.conditions": "Standard conditions, for kubectl wait and other tools.",
    "status.conditions[].type": "Which condition: Complete, Failed, Running, Suspended, and others that only some "
    "Frameworks have.",
    "status.conditions[].status": "Whether it holds.",
    "status.conditions[].reason": "Why, in one word for programs.",
    "status.conditions[].message": "Why, for people.",
    "status.conditions[].lastTransitionTime": "When status changed last.",
    "status.conditions[].observedGeneration": "metadata.generation of the spec that this condition speaks of.",
    "status.attempts": "Attempts so far, the current one included.",
    "status.retryPolicyStatus": "What was counted for spec.retryPolicy.",
    "status.retryPolicyStatus.totalRetriedCount": "Retries so far.",
    "status.retryPolicyStatus.accountableRetriedCount": "Retries so far that count for maxRetryCount.",
    "status.retryPolicyStatus.retryDelaySec": "How many seconds after its end the attempt is retried, null while no "
    "retry is decided.",
    "status.attemptStatus": "The current attempt: its ConfigMap, why it ended (completionStatus), and the state, Pod "
    "and end of each Task (taskRoleStatuses, compressed in a large Framework).",
}
"""By the path of the field; `[]` stands for each entry of a list, and "" for the whole object."""

ADDED: Final = frozenset(
    {
        "spec.taskRoles[].frameworkAttemptCompletionPolicy.minFailedTaskPercent",
        "spec.taskRoles[].frameworkAttemptCompletionPolicy.minSucceededTaskPercent",
        "spec.taskRoles[].dependsOn",
        "spec.taskRoles[].dependsOn[].name",
        "spec.taskRoles[].dependsOn[].status",
        "spec.activeDeadlineSeconds",
        "spec.ttlSecondsAfterFinished",
        "spec.retainPods",
        "status.ready",
        "status.observedGeneration",
        "status.conditions",
        "status.conditions[].type",
        "status.conditions[].status",
        "status.conditions[].reason",
        "status.conditions[].message",
        "status.conditions[].lastTransitionTime",
        "status.conditions[].observedGeneration",
        "status.attempts",
    }
)
"""Fields that Microsoft's controller does not have."""
