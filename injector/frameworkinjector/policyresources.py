"""What resources the barrier asks for, in CEL: the rules of `resources`, for the policy without a webhook.

Each variable is a list with an entry for each resource. Source: docs/reference/injector.md, section 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkinjector import quantity
from frameworkinjector.cel import Cel, written
from frameworkinjector.resources import RESOURCES

if TYPE_CHECKING:
    from frameworkinjector.resources import Claims

_ZERO: Final = 'quantity("0")'


def variables(standard: Claims) -> dict[str, Cel]:
    """Write the variables; `resourceRequests` and `resourceLimits` are what the barrier gets.

    Args:
        standard: What the command line says: the requests of a sidecar, and the least limits.
    """
    return {
        # What each container asks for, as the API server fills it in; nothing where the Pod as a whole asks.
        "resourcesAsked": Cel(
            f"{written(_standards(standard))}.map(resource, {{\n"
            '  "resource": dyn(resource),\n'
            '  "pairs": dyn(\n'
            "    [object.spec.?resources.?requests.orValue({}), object.spec.?resources.?limits.orValue({})]\n"
            "    .exists(ofPod, resource.name in ofPod) ? [] : variables.containers.map(one, {\n"
            '      "request": one.?resources.?requests[?resource.name]\n'
            '        .or(one.?resources.?limits[?resource.name]).orValue("0"),\n'
            '      "limit": one.?resources.?limits[?resource.name].orValue("0")\n'
            "    }))\n"
            "})"
        ),
        # What the barrier may ask for: the standard, and as an init container as much as the application.
        "resourcesWanted": Cel(
            "variables.resourcesAsked.map(asked, {\n"
            '  "resource": dyn(asked.resource),\n'
            '  "pairs": dyn(asked.pairs),\n'
            f'  "requests": dyn(asked.pairs.exists(pair, {_more("pair.request", _ZERO)}) ?\n'
            '    asked.resource.requests + (variables.mode == "sidecar" ? [] :\n'
            f"      asked.pairs.map(pair, pair.request).filter(one, {_more('one', _ZERO)})) : []),\n"
            f'  "limits": dyn(asked.pairs.exists(pair, {_more("pair.request", _ZERO)}) &&\n'
            f"    asked.pairs.all(pair, {_more('pair.limit', _ZERO)}) ?\n"
            '    asked.resource.limits + (variables.mode == "sidecar" ? [] : asked.pairs.map(pair, pair.limit)) : [])\n'
            "})"
        ),
        # The largest of both.
        "resourcesLargest": Cel(
            "variables.resourcesWanted.map(wanted, {\n"
            '  "resource": dyn(wanted.resource),\n'
            '  "pairs": dyn(wanted.pairs),\n'
            f'  "requests": dyn({_largest("wanted.requests")}),\n'
            f'  "limits": dyn({_largest("wanted.limits")})\n'
            "})"
        ),
        # A request in the proportion to the limit in which those of the application are: whole units, rounded up.
        "resourcesInProportion": Cel(
            "variables.resourcesLargest.map(largest, {\n"
            '  "resource": dyn(largest.resource),\n'
            '  "limits": dyn(largest.limits),\n'
            '  "requests": dyn(largest.requests.size() == 0 || largest.limits.size() == 0 ? largest.requests :\n'
            f"    largest.requests + [string(largest.pairs.filter(pair, {_more('pair.request', _ZERO)}).map(pair,\n"
            f"      {_grains('largest.limits[0]')} * {_grains('pair.request')}\n"
            f"      / {_grains('pair.limit')} / largest.resource.grainsPerUnit)\n"
            "      .map(share, int(share) + (share > double(int(share)) ? 1 : 0)).min()) + largest.resource.unit])\n"
            "})"
        ),
        # No request is above its limit.
        "resourceRequests": Cel(
            "variables.resourcesInProportion.filter(one, one.requests.size() > 0)"
            ".transformMapEntry(i, one, {\n"
            f"  one.resource.name: ({_largest('one.requests')} + one.limits)\n"
            f"    .filter(mine, one.limits.all(limit, !{_more('mine', 'quantity(limit)')}))[0]\n"
            "})"
        ),
        "resourceLimits": Cel(
            "variables.resourcesInProportion.filter(one, one.limits.size() > 0)"
            ".transformMapEntry(i, one, {one.resource.name: one.limits[0]})"
        ),
    }


def _standards(standard: Claims) -> list[dict[str, object]]:
    return [
        {
            "name": resource,
            "requests": [claim.request.text] if claim.request else [],
            "limits": [claim.limit.text] if claim.limit else [],
            # A unit as `quantity.written` rounds to, and the least amounts that Kubernetes counts.
            **(
                {"unit": "m", "grains": Cel("1000.0"), "grainsPerUnit": Cel("1.0")}
                if resource == quantity.CPU
                else {"unit": "Ki", "grains": Cel("1.0"), "grainsPerUnit": Cel("1024.0")}
            ),
        }
        for resource, claim in ((name, standard.of(name)) for name in RESOURCES)
    ]


def _more(text: str, than: str) -> str:
    return f"quantity({text}).isGreaterThan({than})"


def _largest(texts: str) -> str:
    """Write the list of the largest quantities, empty for an empty list."""
    return f"{texts}.filter(text, {texts}.all(other, !{_more('other', 'quantity(text)')}))"


def _grains(text: str) -> str:
    return f"double(int(quantity({text}).asApproximateFloat() * largest.resource.grains + 0.5))"
