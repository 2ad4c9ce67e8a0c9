{{/* The Secret of the webhook's certificate. */}}
{{- define "fc.certificateSecret" -}}
{{ .Values.certificates.secretName | default (printf "%s-tls" (include "fc.injector" .)) }}
{{- end }}

{{/* Where the API server finds the injector. */}}
{{- define "fc.webhookClient" -}}
{{- if ne .Values.certificates.source "secret" }}
# caBundle is missing on purpose: the maker of the certificate writes it, and restores it when it is overwritten.
{{- else if .Values.certificates.caBundle }}
caBundle: {{ .Values.certificates.caBundle | b64enc }}
{{- end }}
service:
  name: {{ include "fc.injector" . }}
  namespace: {{ .Release.Namespace }}
  path: /mutate
  port: 443
{{- end }}

{{/* Resources as the injector's flags read them: cpu=10m,memory=32Mi. */}}
{{- define "fc.amounts" -}}
{{- $parts := list }}
{{- range $resource, $amount := . }}
{{- $parts = append $parts (printf "%s=%v" $resource $amount) }}
{{- end }}
{{- join "," $parts }}
{{- end }}

{{- define "fc.injectorArguments" -}}
{{- $name := include "fc.injector" . -}}
- serve
- --service={{ $name }}
{{- if eq .Values.certificates.source "self-made" }}
- --secret={{ include "fc.certificateSecret" . }}
- --webhook-configuration={{ $name }}
- --authority-days={{ int .Values.certificates.authorityDays }}
- --certificate-days={{ int .Values.certificates.certificateDays }}
{{- else }}
- --tls-cert-file=/certs/tls.crt
- --tls-key-file=/certs/tls.key
{{- end }}
{{- with .Values.injector.envFiles }}
- --env-files={{ . }}
{{- end }}
- --log-level={{ .Values.injector.logLevel }}
- --port={{ .Values.injector.port }}
- --barrier-image={{ include "fc.image" (dict "root" . "image" .Values.barrier.image) }}
- --barrier-pull-policy={{ include "fc.pullPolicy" (dict "root" . "image" .Values.barrier.image) }}
{{- range .Values.barrier.pullSecrets }}
- --barrier-image-pull-secret={{ . }}
{{- end }}
{{- with .Values.barrier.requests }}
- --barrier-requests={{ include "fc.amounts" . }}
{{- end }}
{{- with .Values.barrier.limits }}
- --barrier-limits={{ include "fc.amounts" . }}
{{- end }}
- --barrier-uid={{ .Values.barrier.runAsUser }}
{{- if .Values.foreignGangs.enabled }}
- --foreign-gangs
{{- end }}
# Presets of your own, read at the start of the injector.
- --preset-dir=/etc/frameworkinjector/presets
{{- range .Values.injector.args }}
- {{ . | quote }}
{{- end }}
{{- end }}
