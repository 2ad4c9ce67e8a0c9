"""Values with which the chart is rendered: each value of the chart is set to something else by at least one of them."""

from __future__ import annotations

import re
from typing import Any

from frameworkrelease.chart import CHART

Values = dict[str, Any]

DIGEST = "sha256:" + "0123456789abcdef" * 4
_SCHEDULING: Values = {
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]
            }
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"team": "platform"},
    "podAnnotations": {"example.org/note": "yes"},
    "env": [
        {"name": "TZ", "value": "UTC"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ],
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    "replicas": 3,
    "podDisruptionBudget": {"minAvailable": "50%"},
    "serviceAccount": {"name": "mine", "annotations": {"example.org/role": "r"}},
}
_IMAGE: Values = {"registry": "registry.example:5000", "repository": "a/b", "digest": DIGEST, "pullPolicy": "Never"}

MATRIX: dict[str, Values] = {
    "defaults": {},
    "everything placed": {
        "controller": {**_SCHEDULING, "args": ["--health-port=8081"], "logFormat": "text"},
        "injector": {**_SCHEDULING, "args": ["--settle-seconds=1"], "logLevel": "debug", "envFiles": "quoted"},
        "commonLabels": {"cost-centre": "42"},
        "commonAnnotations": {"example.org/owner": "platform"},
    },
    "images by digest": {
        "image": {"pullSecrets": ["registry"]},
        "controller": {"image": _IMAGE},
        "injector": {"image": _IMAGE},
        "barrier": {"image": _IMAGE, "pullSecrets": ["one", "two"]},
    },
    "another registry and tag": {"image": {"registry": "localhost:5000", "tag": "main", "pullPolicy": "Always"}},
    "a tag of each image": {part: {"image": {"tag": "canary"}} for part in ("controller", "injector", "barrier")},
    "settings of the controller": {
        "controller": {
            "config": {
                "kubeClientQps": 20.5,
                "frameworkCompletedRetainSec": 2_592_000,
                "largeFrameworkCompression": False,
                "leaderElection": {"leaseDurationSec": 30, "renewDeadlineSec": 20},
                "podFailureSpec": [{"code": 1000, "phrase": "Mine", "podPatterns": [{"messageRegex": "mine"}]}],
            }
        }
    },
    "settings of the barrier": {
        "barrier": {
            "requests": {"cpu": "20m", "memory": "48Mi"},
            "limits": {"cpu": "200m"},
            "presets": {"mine": '[variables]\nMY_RANK = "{{ me.index }}"\n'},
        }
    },
    "one replica": {"controller": {"replicas": 1}, "injector": {"replicas": 1}},
    "one namespace": {"watchNamespaces": ["team-a"]},
    "one namespace and nothing of the cluster": {
        "watchNamespaces": ["team-a"],
        "injection": "none",
        "crds": {"enabled": False},
        "rbac": {"aggregate": False},
        "admissionPolicies": {"enabled": False},
    },
    "no injector": {"injection": "none"},
    "long lives": {"certificates": {"authorityDays": 3650, "certificateDays": 365}},
    "a certificate of cert-manager": {"certificates": {"source": "cert-manager", "certificateDays": 30}},
    "an issuer of cert-manager": {
        "certificates": {"source": "cert-manager", "issuerRef": {"kind": "ClusterIssuer", "name": "corporate"}}
    },
    "a certificate in a Secret": {
        "certificates": {"source": "secret", "secretName": "tls", "caBundle": "-----BEGIN CERTIFICATE-----\nMA==\n"},
        "injector": {"envFiles": "none", "excludedNamespaces": ["kube-system", "istio-system"]},
    },
    "nothing optional": {
        "networkPolicy": {"enabled": False},
        "admissionPolicies": {"enabled": False},
        "rbac": {"create": False},
        "controller": {"serviceAccount": {"create": False, "name": "a"}, "podDisruptionBudget": {"enabled": False}},
        "injector": {"serviceAccount": {"create": False, "name": "b"}, "podDisruptionBudget": {"enabled": False}},
        "monitoring": {"scrapeAnnotations": False},
    },
    "ports and callers": {
        "networkPolicy": {"apiServerPorts": [16443], "metricsFrom": [{"podSelector": {"matchLabels": {"a": "b"}}}]}
    },
    "monitors of Prometheus": {
        "monitoring": {
            "podMonitor": {"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}},
            "serviceMonitor": {"enabled": True, "interval": "1m", "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True, "labels": {"team": "platform"}},
        }
    },
    "a namespace of its own": {"namespace": {"create": True, "labels": {"team": "a"}}, "crds": {"keep": False}},
}
"""Values by what they are about."""


def documented(text: str = (CHART / "values.yaml").read_text()) -> set[str]:
    """The paths of the values: the keys with a comment above them. A key without one is a group of values."""
    found, group, above, depth = set(), [""], "", 0
    for line in text.splitlines():
        key = re.match(r"( *)([\w-]+):(.*)", line)
        if key and len(key[1]) <= depth:
            group[len(key[1]) // 2 :] = [key[2]]
            depth = len(key[1])
            if above.lstrip().startswith("#"):
                found.add(".".join(group))
            else:
                assert not key[3], f"values.yaml: {'.'.join(group)} has no comment above it: say there what it does"
                depth += 2
        above = line
    return found
