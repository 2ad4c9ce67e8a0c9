{{/*
What the Pods of the programs have in common. The argument is (dict "root" $ "part" PART).
*/}}

{{/* The metadata of a Pod template; "checksum" is that of the configuration, whose change replaces the Pods. */}}
{{- define "fc.podMetadata" -}}
{{- $values := index .root.Values .part -}}
labels:
  {{- include "fc.selector" . | nindent 2 }}
  app.kubernetes.io/part-of: frameworkcontroller
  {{- with mergeOverwrite (dict) .root.Values.commonLabels $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := dict }}
{{- if .root.Values.monitoring.scrapeAnnotations }}
{{- $annotations = dict "prometheus.io/scrape" "true" "prometheus.io/port" "8081" }}
{{- end }}
{{- with .checksum }}{{ $_ := set $annotations "checksum/config" . }}{{ end }}
{{- with mergeOverwrite $annotations $values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The fields of a Pod but for containers and volumes. The restricted Pod Security Standard holds. */}}
{{- define "fc.podSpec" -}}
{{- $values := index .root.Values .part -}}
serviceAccountName: {{ include "fc.serviceAccount" . }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- toYaml $values.podSecurityContext | nindent 2 }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "fc.selector" . | fromYaml)) }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ toYaml (merge (deepCopy .) $own) | indent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The fields of a container but for its name, arguments, probes and mounts. */}}
{{- define "fc.container" -}}
{{- $values := index .root.Values .part -}}
image: {{ include "fc.image" (dict "root" .root "image" $values.image) }}
imagePullPolicy: {{ include "fc.pullPolicy" (dict "root" .root "image" $values.image) }}
{{- with $values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* A PodDisruptionBudget, where it does not block the eviction of the only Pod. */}}
{{- define "fc.disruptionBudget" -}}
{{- $values := index .root.Values .part }}
{{- if and $values.podDisruptionBudget.enabled (gt (int $values.replicas) 1) }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "fc.metadata" . | nindent 2 }}
spec:
  minAvailable: {{ $values.podDisruptionBudget.minAvailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "fc.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "fc.accountObject" -}}
{{- $values := index .root.Values .part }}
{{- if $values.serviceAccount.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "fc.metadata" (merge (dict "name" (include "fc.serviceAccount" .) "annotations" $values.serviceAccount.annotations) .) | nindent 2 }}
{{- end }}
{{- end }}

{{/* `subjects` of a binding to the service account. */}}
{{- define "fc.subjects" -}}
- kind: ServiceAccount
  name: {{ include "fc.serviceAccount" . }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* The rules of a NetworkPolicy about health, metrics and the API server. */}}
{{- define "fc.metricsIngress" -}}
{{- with .Values.networkPolicy.metricsFrom -}}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    - port: health
{{- end }}
{{- end }}

{{- define "fc.apiServerEgress" -}}
# The usual ports of an API server behind its Service.
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - port: {{ . }}
    {{- end }}
# DNS: some platforms give Pods a name instead of the API server's address. OpenShift's Pods of DNS listen on another
# port than its Service.
- ports:
    {{- range $protocol := list "UDP" "TCP" }}
    {{- range list 53 5353 }}
    - {port: {{ . }}, protocol: {{ $protocol }}}
    {{- end }}
    {{- end }}
{{- end }}

{{/* Variables of the programs that take large bodies and objects. */}}
{{- define "fc.freedMemory" -}}
# Return what was freed to the system, instead of keeping it for later.
- name: MALLOC_MMAP_THRESHOLD_
  value: "131072"
- name: MALLOC_TRIM_THRESHOLD_
  value: "131072"
{{- end }}
