{{/*
Names, labels and metadata. A "part" is `controller`, `injector` or `history`; the argument is (dict "root" $ "part" PART ...).

Objects of a release `frameworkcontroller` are named as in the plain manifests; those of another release carry its name,
so that several releases fit into one cluster.
*/}}

{{- define "fc.controller" -}}
{{- if contains "frameworkcontroller" .Release.Name }}{{ .Release.Name }}
{{- else }}{{ .Release.Name | trunc 35 | trimSuffix "-" }}-frameworkcontroller
{{- end }}
{{- end }}

{{- define "fc.injector" -}}
{{ include "fc.controller" . | replace "frameworkcontroller" "frameworkinjector" }}
{{- end }}

{{- define "fc.history" -}}
{{ include "fc.controller" . | replace "frameworkcontroller" "frameworkhistory" }}
{{- end }}

{{- define "fc.name" -}}
{{ include (printf "fc.%s" .part) .root }}
{{- end }}

{{- define "fc.serviceAccount" -}}
{{ (index .root.Values .part).serviceAccount.name | default (include "fc.name" .) }}
{{- end }}

{{/* Whether the injector is installed: "true" or nothing. */}}
{{- define "fc.hasInjector" -}}
{{ if eq .Values.injection "webhook" }}true{{ end }}
{{- end }}

{{/* The parts that are installed, with spaces between them. */}}
{{- define "fc.parts" -}}
controller{{ if include "fc.hasInjector" . }} injector{{ end }}{{ if .Values.history.enabled }} history{{ end }}
{{- end }}

{{- define "fc.selector" -}}
app.kubernetes.io/name: framework{{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "fc.labels" -}}
{{- if .part }}{{ include "fc.selector" . }}{{ else }}app.kubernetes.io/instance: {{ .root.Release.Name }}{{ end }}
app.kubernetes.io/part-of: frameworkcontroller
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/*
The content of `metadata`. More of the argument: "name" (default: that of the part), "namespace" (default: that of the
release; "" for an object of the cluster), "labels", "annotations".
*/}}
{{- define "fc.metadata" -}}
name: {{ if .name }}{{ .name }}{{ else }}{{ include "fc.name" . }}{{ end }}
{{- $namespace := ternary .namespace .root.Release.Namespace (hasKey . "namespace") }}
{{- with $namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "fc.labels" . | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with mergeOverwrite (dict) .root.Values.commonAnnotations (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The reference of an image. The argument: (dict "root" $ "image" VALUES). A digest takes the place of the tag. */}}
{{- define "fc.image" -}}
{{- $all := .root.Values.image -}}
{{ .image.registry | default $all.registry }}/{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default $all.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "fc.pullPolicy" -}}
{{ .image.pullPolicy | default .root.Values.image.pullPolicy }}
{{- end }}
