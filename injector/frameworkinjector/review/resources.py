"""Decides what resources the barrier's container asks for, by what the containers of the application ask for.

The barrier asks in the way in which the application does, so that the Pod keeps its QoS class, and so that the
LimitRanges and quotas that the application passes accept the barrier, too. For each resource:

- What no application container asks for, the barrier does not ask for: a BestEffort Pod stays one.
- Where each application container has a limit, the barrier has one, and its request is at least in the proportion to
  it in which theirs are: the barrier of a Guaranteed Pod has limits equal to its requests.
- As an init container it asks for as much as the largest of them. Kubernetes counts the larger of init containers and
  application, so this costs nothing. A sidecar is counted beside the application: it asks for the injector's defaults.

The Pod's annotations win. Where the Pod has resources of its own (`spec.resources`), the barrier shares them.
Source: docs/reference/injector.md, section 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from frameworkbarrier import values
from frameworkinjector.review import quantity
from frameworkinjector.review.pod import Container, Pod, Resources
from frameworkinjector.review.quantity import Quantity
from frameworkinjector.review.reasons import Reason, RefusalError, shown

RESOURCES: Final = (quantity.CPU, "memory", "ephemeral-storage")
Amounts = Mapping[str, Quantity]
# With less it cannot start, see docs/reference/barrier.md, section 7.
_LEAST_MEMORY_LIMIT: Final = quantity.read("32Mi")
# What the process takes that collects the progress of the application.
_COLLECTOR: Final = quantity.read("64Mi")
_LEAST_CPU: Final = quantity.read("1m")


@dataclass(frozen=True, slots=True)
class Claim:
    """What is asked for of one resource; None is nothing."""

    request: Quantity | None = None
    limit: Quantity | None = None


_NOTHING: Final = Claim()


@dataclass(frozen=True, slots=True)
class Claims:
    """Requests and limits by resource."""

    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)

    def of(self, resource: str) -> Claim:
        """Return what is asked for of one resource."""
        return Claim(self.requests.get(resource), self.limits.get(resource))


def read_requests(text: str) -> Amounts:
    """Read a list as `cpu=10m,memory=32Mi`.

    Raises:
        BadValueError: The text is not such a list, or an amount cannot be asked for.
    """
    expected = f"a list as cpu=10m,memory=32Mi of {', '.join(RESOURCES)}"
    amounts: dict[str, Quantity] = {}
    for item in values.items(text, expected):
        resource, _, amount = item.partition("=")
        if resource not in RESOURCES or resource in amounts:
            raise values.BadValueError(f"{expected}, each once")
        try:
            amounts[resource] = quantity.read(amount)
        except values.BadValueError as fault:
            raise values.BadValueError(f"{expected}, each {fault}") from None
        _refuse_fractions(resource, amounts[resource])
    return amounts


def read_limits(text: str) -> Amounts:
    """Read a list as `cpu=100m,memory=64Mi`.

    Raises:
        BadValueError: The text is not such a list, or the barrier cannot work with a limit.
    """
    amounts = read_requests(text)
    if amounts.get("memory", _LEAST_MEMORY_LIMIT) < _LEAST_MEMORY_LIMIT:
        raise values.BadValueError(f"a list with a memory limit of at least {_LEAST_MEMORY_LIMIT.text}")
    return amounts


def _refuse_fractions(resource: str, amount: Quantity) -> None:
    if resource == quantity.CPU and amount < _LEAST_CPU:
        raise values.BadValueError(f"a list with at least {_LEAST_CPU.text} of cpu")
    if resource != quantity.CPU and (not amount.billionths or amount.billionths % quantity.ONE):
        raise values.BadValueError(f"a list with a whole number of bytes of {resource}, for example 64Mi")


def with_collector(standard: Claims) -> Claims:
    """Return the defaults of a sidecar with a process that collects progress: the limit of memory is higher."""
    limits = dict(standard.limits)
    if "memory" in limits:
        limits["memory"] = quantity.written("memory", limits["memory"].billionths + _COLLECTOR.billionths)
    return Claims(standard.requests, limits)


def decide(pod: Pod, own: Claims, standard: Claims, *, sidecar: bool) -> dict[str, dict[str, str]]:
    """Return `resources` of the barrier's container.

    `own` is what the Pod's annotations ask for, `standard` what the injector's command line says: the requests of a
    sidecar, and the least limits. A sidecar is counted beside the application.

    Raises:
        RefusalError: A container has something that is not a quantity, or the annotations contradict each other.
    """
    claims = {
        one: _claim(one, _of_application(pod, one), own.of(one), standard.of(one), sidecar=sidecar) for one in RESOURCES
    }
    for resource, claim in claims.items():
        if claim.request and claim.limit and claim.limit < claim.request:
            raise RefusalError(
                Reason.REQUEST_ABOVE_LIMIT, request=claim.request.text, limit=claim.limit.text, resource=resource
            )
    requests = {resource: claim.request.text for resource, claim in claims.items() if claim.request}
    limits = {resource: claim.limit.text for resource, claim in claims.items() if claim.limit}
    return {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}


def _of_application(pod: Pod, resource: str) -> Sequence[Claim]:
    """Return what each application container asks for; nothing where the Pod as a whole asks for the resource."""
    of_pod = pod.spec.resources
    if of_pod and any(resource in (amounts or {}) for amounts in (of_pod.requests, of_pod.limits)):
        return ()
    return tuple(_read(index, one, resource) for index, one in enumerate(pod.spec.containers or ()))


def _read(index: int, one: Container, resource: str) -> Claim:
    if not one.resources:
        return _NOTHING
    where = f"spec.containers[{index}].resources"
    request, limit = (_amount(one.resources, name, resource, where) for name in ("requests", "limits"))
    # As the API server fills in; a quantity of 0 asks for nothing.
    request = limit if request is None else request
    return Claim(request if request and request.billionths else None, limit if limit and limit.billionths else None)


def _amount(found: Resources, name: str, resource: str, where: str) -> Quantity | None:
    encoded = (getattr(found, name) or {}).get(resource)
    if encoded is None:
        return None
    given = bytes(encoded).decode(errors="replace").strip('"')
    try:
        return quantity.read(given)
    except values.BadValueError as fault:
        problem = f"{where}.{name}.{resource} is {shown(given)}, not {fault}"
        raise RefusalError(Reason.MALFORMED_POD, problem=problem) from None


def _claim(resource: str, asked: Sequence[Claim], own: Claim, standard: Claim, *, sidecar: bool) -> Claim:
    """Return what the barrier asks for of one resource."""
    requests = [one.request for one in asked if one.request]
    limits = [one.limit for one in asked if one.limit]
    limited = bool(limits) and len(limits) == len(asked)
    # The largest limit in relation to its request: a LimitRange allows it.
    most, least = 1, 1
    for one in asked:
        if one.limit and one.request and one.limit.billionths * least > most * one.request.billionths:
            most, least = one.limit.billionths, one.request.billionths
    request, limit = standard.request, standard.limit
    if not sidecar:
        request, limit = _largest(request, *requests), _largest(limit, *limits)
    limit = own.limit or (limit if limited else None)
    if own.request:
        if limit and not own.limit:
            limit = own.request if most == least else max(limit, own.request)
        return Claim(own.request, limit)
    if not requests and not own.limit:
        return _NOTHING
    if request and limit:
        in_proportion = quantity.written(resource, -(-limit.billionths * least // most)) if limited else request
        request = min(limit, max(request, in_proportion))
    return Claim(request, limit)


def _largest(*amounts: Quantity | None) -> Quantity | None:
    return max((one for one in amounts if one), default=None)
