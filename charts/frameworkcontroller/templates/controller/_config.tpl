{{/*
The text of frameworkcontroller.yaml: the settings that are set, and the shipped file with its comments. Only
`podFailureSpec` is not a comment in that file, so the file is left out where this key is set.
*/}}
{{- define "fc.config" -}}
{{- $chosen := dict }}
{{- $name := include "fc.controller" . }}
{{- if ne $name "frameworkcontroller" }}
{{- $_ := set $chosen "leaderElection" (dict "name" $name) }}
{{- end }}
{{- if .Values.kueue.enabled }}
{{- $_ := set $chosen "kueue" (omit .Values.kueue "serviceAccount") }}
{{- end }}
{{- if .Values.gangScheduling.schedulers }}
{{- $_ := set $chosen "gangScheduling" .Values.gangScheduling }}
{{- end }}
{{- if .Values.foreignGangs.enabled }}
{{- $_ := set $chosen "foreignGangs" .Values.foreignGangs }}
{{- end }}
{{- if .Values.rankTopology.enabled }}
{{- $_ := set $chosen "rankTopology" .Values.rankTopology }}
{{- end }}
{{- if not .Values.progress.askPods }}
{{- $_ := set $chosen "progress" (dict "askPods" false) }}
{{- end }}
{{- if .Values.history.enabled }}
{{- $_ := set $chosen "history" (dict "url" (printf "http://%s.%s.svc:8081" (include "fc.history" .) .Release.Namespace)) }}
{{- end }}
{{- $chosen = mergeOverwrite $chosen (deepCopy .Values.controller.config) }}
{{- with $chosen -}}
{{ toYaml . }}

{{ end }}
{{- if not (hasKey $chosen "podFailureSpec") -}}
{{ .Files.Get "files/frameworkcontroller.yaml" }}
{{- end }}
{{- end }}
