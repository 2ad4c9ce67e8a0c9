"""The injector without a server: a MutatingAdmissionPolicy that adds the barrier in the API server, by CEL.

`commands.policy` prints `documents`. They promise for a Pod with the label that it is created with the same barrier as
by the webhook, or refused: the mutating policy leaves a Pod alone that it cannot serve, and a ValidatingAdmissionPolicy
refuses each that has no barrier, whatever the reason. What the barrier is made of comes from the modules of the
webhook; only what depends on the Pod is written again, as an expression.
Source: docs/decisions/0045-the-barrier-by-an-admission-policy.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frameworkbarrier import presets
from frameworkbarrier.settings import SETTINGS
from frameworkcontroller.api import names as fc
from frameworkinjector import authors, barrier, names, policyfaults, policypatch, policyresources, workload
from frameworkinjector.cel import Cel, written
from frameworkinjector.config import EnvFiles
from frameworkinjector.policyfaults import setting

if TYPE_CHECKING:
    from frameworkinjector.barrier import JSON
    from frameworkinjector.config import Config

NAME: Final = "frameworkbarrier"
MINIMUM: Final = "1.36"
_API: Final = "admissionregistration.k8s.io/v1"
_SYSTEM_NAMESPACES: Final = ("kube-system", "frameworkcontroller-system")
_LABELS: Final = {
    "app.kubernetes.io/name": "frameworkinjector",
    "app.kubernetes.io/part-of": "frameworkcontroller",
}
_MATCH_CONDITIONS: Final = (
    {
        "name": "not-a-mirror-of-a-static-pod",
        "expression": f"!({written(names.MIRROR_ANNOTATION)} in object.metadata.?annotations.orValue({{}}))",
    },
    {
        "name": "without-a-barrier",
        "expression": "!(object.spec.?containers.orValue([]) + object.spec.?initContainers.orValue([]))"
        f".exists(one, one.name == {written(names.CONTAINER)})",
    },
)
_MISSING: Final = (
    f"The Pod asks for the barrier by the label {names.LABEL}, and nothing added it: the MutatingAdmissionPolicy "
    f"{NAME} is missing, or its binding, or the API server is older than Kubernetes {MINIMUM}."
)


def documents(config: Config) -> list[JSON]:
    """Return the two policies and their bindings, in the order of their creation: what refuses comes first."""
    shared = _variables(config)
    faults = dict(list(shared.items())[: list(shared).index("faults") + 1])
    return [
        _document("ValidatingAdmissionPolicy", {**_common(faults), "validations": _validations()}),
        _document("ValidatingAdmissionPolicyBinding", {"policyName": NAME, "validationActions": ["Deny"]}),
        _document(
            "MutatingAdmissionPolicy",
            {
                **_common(shared),
                "reinvocationPolicy": "IfNeeded",
                "mutations": [
                    {"patchType": "JSONPatch", "jsonPatch": {"expression": str(policypatch.operations(config))}}
                ],
            },
        ),
        _document("MutatingAdmissionPolicyBinding", {"policyName": NAME}),
    ]


def _document(kind: str, spec: JSON) -> JSON:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": NAME, "labels": dict(_LABELS)}, "spec": spec}


def _common(variables: dict[str, Cel]) -> JSON:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    elsewhere = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(_SYSTEM_NAMESPACES)}
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{**rule, "scope": "Namespaced"}],
            "objectSelector": {"matchLabels": {names.LABEL: names.LABEL_VALUE}},
            "namespaceSelector": {"matchExpressions": [elsewhere]},
        },
        "matchConditions": [dict(one) for one in _MATCH_CONDITIONS],
        "variables": [{"name": name, "expression": str(expression)} for name, expression in variables.items()],
    }


def _validations() -> list[JSON]:
    return [
        {
            "expression": "variables.faults.size() == 0",
            "messageExpression": "variables.faults[0]",
            "message": "The barrier cannot be added: an annotation has a value that cannot be shown.",
        },
        # 403, unlike the 422 above: another attempt may succeed.
        {"expression": "false", "message": _MISSING, "reason": "Forbidden"},
    ]


def _variables(config: Config) -> dict[str, Cel]:
    """Return the variables, each after those that it refers to; those up to `faults` are for both policies."""
    every = "variables.containers.map(one, one.name)"
    istio = written(r'"containers":\s*\[[^\]]*\]')
    own_hosts = f"mount, mount.mountPath.matches({written(f'^{names.HOSTS_PATH}/*$')})"
    added = f"name in {written(sorted(authors.PROXIES))} || variables.istio.contains('\"' + name + '\"')"
    framework, preset = written(fc.FRAMEWORK_NAME), setting("preset")
    return {
        "containers": Cel("object.spec.?containers.orValue([])"),
        "labels": Cel("object.metadata.?labels.orValue({})"),
        "annotations": Cel("object.metadata.?annotations.orValue({})"),
        "framework": Cel(_first_of(framework, f'variables.labels[?{framework}].orValue("")')),
        "ofJob": Cel(
            "object.metadata.?ownerReferences.orValue([])"
            '.exists(one, one.?controller.orValue(false) && one.kind == "Job")'
        ),
        # The containers that the author of the Pod wrote, as in `authors`.
        "istio": Cel(f'variables.annotations[?{written(authors.ISTIO_STATUS)}].orValue("").find({istio})'),
        "authors": Cel(f"{every}.filter(name, !({added}))"),
        "chosen": Cel(f"variables.authors.size() > 0 ? variables.authors : {every}"),
        "ownHosts": Cel(
            f"variables.containers.filter(one, one.?volumeMounts.orValue([]).exists({own_hosts})).map(one, one.name)"
        ),
        **policyfaults.variables(config.presets),
        # From here on only what adds the barrier.
        "mode": Cel(f'{setting("mode")} == "" ? "init" : {setting("mode")}'),
        "presets": Cel(f'{preset} == "" ? [] : {preset}.split(",")'),
        "way": Cel(f'{preset} == "" || {setting("env")} == "none" ? "none" : "file"'),
        "hosts": Cel(
            f'{setting("hosts")} == "none" || object.spec.?hostAliases.orValue([]).size() > 0 ||\n'
            f'{setting("hosts")} == "" && object.spec.?hostNetwork.orValue(false) ?\n'
            "[] : variables.chosen.filter(name, !(name in variables.ownHosts))"
        ),
        # With a question mark after those that may be absent.
        "presetVariables": Cel(f"variables.presets.map(one, {_preset_variables(config)}[one]).flatten()"),
        "applications": _applications(),
        **policyresources.variables(config.resources),
        "identity": _identity(),
        "options": _options(config),
    }


def _first_of(key: str, otherwise: str) -> str:
    """Write the annotation of a key, or something else where it is absent or empty."""
    annotation = f'variables.annotations[?{key}].orValue("")'
    return f'{annotation} != "" ? {annotation} : {otherwise}'


def _preset_variables(config: Config) -> Cel:
    known = {
        name: [f"{one.name}{'?' if one.optional else ''}" for one in presets.variables([name], config.presets)]
        for name in presets.names(config.presets)
    }
    return written(known)


def _applications() -> Cel:
    """Write what each chosen container gets, with its position."""
    return Cel(
        """lists.range(variables.containers.size())
.filter(index, variables.containers[index].name in variables.chosen)
.map(index, {
  "path": dyn("/spec/containers/" + string(index)),
  "one": dyn(variables.containers[index]),
  "own": dyn(variables.containers[index].?env.orValue([]).map(each, each.name))
})
.map(found, {
  "path": dyn(found.path),
  "name": dyn(found.one.name),
  "own": dyn(found.own),
  "env": dyn(found.one.?env.orValue([])),
  "mounts": dyn(found.one.?volumeMounts.orValue([])),
  "sources": dyn(found.one.?envFrom.orValue([]).map(source, {
    "prefix": dyn(source.?prefix.orValue("")),
    "kind": dyn(has(source.secretRef) ? "secretKeyRef" : "configMapKeyRef"),
    "of": dyn(source.?secretRef.?name.or(source.?configMapRef.?name).orValue(""))
  })),
  "wanted": dyn(variables.presetVariables.map(name, name.replace("?", "")).distinct()
    .filter(name, !(name in found.own)))
})"""
    )


def _identity() -> Cel:
    """Write who the Pod is, as `barrier` does, and for a Pod of a Job the selector of its peers."""
    derived = {
        fc.FRAMEWORK_NAMESPACE: Cel("request.namespace"),
        fc.FRAMEWORK_NAME: Cel("variables.framework"),
        fc.CONFIGMAP_NAME: Cel(f"variables.framework + {written(fc.config_map_name(''))}"),
    }
    attempt = f'variables.annotations[?{written(fc.TASK_ATTEMPT_ID)}].orValue("")'
    uid = barrier.field(fc.POD_UID, "metadata.uid")
    instance = {
        "name": fc.TASK_ATTEMPT_INSTANCE_UID,
        "value": Cel(f'{attempt}.replace("$", "$$") + {written(fc.attempt_instance_uid("", f"$({fc.POD_UID})"))}'),
    }
    job = [
        {"name": fc.FRAMEWORK_NAMESPACE, "value": Cel("request.namespace")},
        barrier.field(fc.POD_NAME, "metadata.name"),
        uid,
        *barrier.own_peers(workload.OF_JOB),
    ]
    label = 'variables.labels[?key].orValue("")'
    other = f'{written(derived)}[?key].orValue("")'
    value = _first_of("key", f'{label} != "" ? {label} : {other}')
    return Cel(
        f'variables.framework == "" ? {written(job)} :\n'
        f'{written(list(fc.POD_ANNOTATIONS))}.map(key, {{"name": dyn(key), "value": dyn({value})}})\n'
        '.filter(one, one.value != "")\n'
        '.map(one, {"name": dyn(one.name), "value": dyn(one.value.replace("$", "$$"))}) +\n'
        f'{written([uid])} + ({attempt} == "" ? [] : {written([instance])})'
    )


def _options(config: Config) -> Cel:
    """Write the settings of the barrier: those that are set, and the definitions of the operator's presets."""
    resolved = 'variables.mode == "sidecar" && variables.hosts.size() == variables.chosen.size()'
    special = {
        "mode": "variables.mode",
        "addresses": f'{setting("addresses")} == "" && {resolved} ? "name" : {setting("addresses")}',
        "env_syntax": str(written(EnvFiles.QUOTED.value)),
    }
    given = [
        {"name": one.env, "value": Cel(special.get(name) or setting(one.annotation))}
        for name, one in SETTINGS.items()
        if name in special or one.annotation in policyfaults.SUPPORTED
    ]
    options = f'{written(given)}.filter(one, one.value != "")'
    if not config.presets:
        return Cel(options)
    own = {name: presets.encode([one])[1:-1].replace("$", "$$") for name, one in config.presets.items()}
    definitions = {
        "name": SETTINGS["preset_definitions"].env,
        "value": Cel(
            f'"{{" + variables.presets.filter(one, one in {written(own)})'
            f'.map(one, {written(own)}[one]).join(",") + "}}"'
        ),
    }
    return Cel(f"{options} + (variables.presets.exists(one, one in {written(own)}) ? {written([definitions])} : [])")
