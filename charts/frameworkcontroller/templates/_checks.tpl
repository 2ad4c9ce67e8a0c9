{{/*
What a schema cannot check: values that do not fit each other. Each message names the value and the next step.
*/}}
{{- define "fc.check" -}}
{{- if gt (len .Values.watchNamespaces) 1 }}
{{- fail (printf "watchNamespaces: the controller runs the Frameworks of all namespaces or of one, found %s. Install the chart once for each namespace, under different release names, and set crds.enabled=false in all but the first release." (join ", " .Values.watchNamespaces)) }}
{{- end }}
{{- $election := .Values.controller.config.leaderElection | default dict }}
{{- if and (eq (get $election "enabled" | toString) "false") (gt (int .Values.controller.replicas) 1) }}
{{- fail "controller.config.leaderElection.enabled: without leader election there may be one replica. Set controller.replicas=1." }}
{{- end }}
{{- if and (eq .Values.certificates.source "secret") (not .Values.certificates.secretName) }}
{{- fail "certificates.secretName: certificates.source=secret needs the name of your Secret." }}
{{- end }}
{{- end }}
