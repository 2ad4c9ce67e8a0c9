"""What resources the barrier asks for, in CEL: the rules of `resources`, for the policy without a webhook.

Each variable is a list with an entry for each resource, made from the one before it. Amounts are in lists, empty ones
where nothing is asked for. Source: docs/reference/injector.md, section 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkinjector import quantity
from frameworkinjector.cel import Cel, written
from frameworkinjector.resources import RESOURCES

if TYPE_CHECKING:
    from frameworkinjector.resources import Claims

# What each container asks for, as the API server fills it in; nothing where the Pod as a whole asks.
_ASKED: Final = """.map(resource, {
  "resource": dyn(resource),
  "pairs": dyn(
    [object.spec.?resources.?requests.orValue({}), object.spec.?resources.?limits.orValue({})]
    .exists(ofPod, resource.name in ofPod) ? [] : variables.containers.map(one, {
      "request": one.?resources.?requests[?resource.name]
        .or(one.?resources.?limits[?resource.name]).orValue("0"),
      "limit": one.?resources.?limits[?resource.name].orValue("0")
    }))
})"""
# What the barrier may ask for: the standard, and as an init container as much as the application.
_WANTED: Final = """variables.resourcesAsked.filter(asked,
  asked.pairs.exists(pair, quantity(pair.request).isGreaterThan(quantity("0")))
).map(asked, {
  "resource": dyn(asked.resource),
  "pairs": dyn(asked.pairs),
  "requests": dyn(asked.resource.requests + (variables.mode == "sidecar" ? [] :
    asked.pairs.map(pair, pair.request).filter(one, quantity(one).isGreaterThan(quantity("0"))))),
  "limits": dyn(asked.pairs.exists(pair, !quantity(pair.limit).isGreaterThan(quantity("0"))) ? [] :
    asked.resource.limits + (variables.mode == "sidecar" ? [] : asked.pairs.map(pair, pair.limit)))
})"""
# The largest of these.
_LARGEST: Final = """variables.resourcesWanted.map(wanted, {
  "resource": dyn(wanted.resource),
  "pairs": dyn(wanted.pairs),
  "requests": dyn(wanted.requests.filter(one,
    !wanted.requests.exists(other, quantity(other).isGreaterThan(quantity(one))))),
  "limits": dyn(wanted.limits.filter(one,
    !wanted.limits.exists(other, quantity(other).isGreaterThan(quantity(one)))))
})"""
# A request in the proportion to the limit in which those of the application are: whole units, rounded up.
_IN_PROPORTION: Final = """variables.resourcesLargest.map(largest, {
  "resource": dyn(largest.resource),
  "limits": dyn(largest.limits),
  "requests": dyn(largest.requests.size() == 0 || largest.limits.size() == 0 ? largest.requests :
    largest.requests + [string(
      largest.pairs.filter(pair, quantity(pair.request).isGreaterThan(quantity("0")))
      .map(pair, [largest.limits[0], pair.request, pair.limit].map(one,
        double(int(quantity(one).asApproximateFloat() * largest.resource.grains + 0.5))))
      .map(amounts, amounts[0] * amounts[1] / amounts[2] / largest.resource.grainsPerUnit)
      .map(share, int(share) + (share > double(int(share)) ? 1 : 0)).min()) + largest.resource.unit])
})"""
# The larger of both, but no more than the limit.
_REQUESTS: Final = """variables.resourcesInProportion.filter(found, found.requests.size() > 0)
.transformMapEntry(i, found, {
  found.resource.name: (found.requests.filter(one,
      !found.requests.exists(other, quantity(other).isGreaterThan(quantity(one)))) + found.limits)
    .filter(one, !found.limits.exists(limit, quantity(one).isGreaterThan(quantity(limit))))[0]
})"""
_LIMITS: Final = """variables.resourcesInProportion.filter(found, found.limits.size() > 0)
.transformMapEntry(i, found, {found.resource.name: found.limits[0]})"""


def variables(standard: Claims) -> dict[str, Cel]:
    """Write the variables; `resourceRequests` and `resourceLimits` are what the barrier gets.

    Args:
        standard: What the command line says: the requests of a sidecar, and the least limits.
    """
    return {
        "resourcesAsked": Cel(written([_standard(standard, resource) for resource in RESOURCES]) + _ASKED),
        "resourcesWanted": Cel(_WANTED),
        "resourcesLargest": Cel(_LARGEST),
        "resourcesInProportion": Cel(_IN_PROPORTION),
        "resourceRequests": Cel(_REQUESTS),
        "resourceLimits": Cel(_LIMITS),
    }


def _standard(standard: Claims, resource: str) -> dict[str, object]:
    claim, is_cpu = standard.of(resource), resource == quantity.CPU
    return {
        "name": resource,
        "requests": [claim.request.text] if claim.request else [],
        "limits": [claim.limit.text] if claim.limit else [],
        # The unit to which `quantity.written` rounds, and the least amounts that Kubernetes counts, as doubles.
        "unit": "m" if is_cpu else "Ki",
        "grains": Cel("1000.0" if is_cpu else "1.0"),
        "grainsPerUnit": Cel("1.0" if is_cpu else "1024.0"),
    }
