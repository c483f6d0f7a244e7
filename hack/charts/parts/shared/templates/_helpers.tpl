{{/* The image of the operator. */}}
{{- define "capstan.image" -}}
{{- .Values.images.overrides.operatorImage | default (printf "%s/capstan:%s" .Values.images.registry (.Values.images.tag | default .Chart.AppVersion)) -}}
{{- end }}

{{/* The labels that the manifests of the operator have, and those of Helm. */}}
{{- define "capstan.labels" -}}
app.kubernetes.io/part-of: capstan
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end }}

{{- define "capstan.deploymentLabels" -}}
app: @operator@
{{ include "capstan.labels" . }}
{{- end }}

{{/* The names of the Secrets that images are pulled with, as a list; or nothing. */}}
{{- define "capstan.pullSecrets" -}}
{{- range .Values.images.imagePullSecrets }}
- name: {{ . | quote }}
{{- end }}
{{- if .Values.images.imageCredentials.createImageCredentials }}
- name: open-cluster-management-image-pull-credentials
{{- end }}
{{- end }}

{{/* What is in the pull secret. */}}
{{- define "capstan.dockerConfig" -}}
{{- with .Values.images.imageCredentials }}
{{- if .dockerConfigJson }}{{ .dockerConfigJson }}
{{- else -}}
{{- $host := (splitList "/" (include "capstan.image" $)) | first -}}
{{- $auth := dict "username" .userName "password" .password "auth" (printf "%s:%s" .userName .password | b64enc) -}}
{{ dict "auths" (dict $host $auth) | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{/* The parts of a spec that are values of the same names. */}}
{{- define "capstan.spec" -}}
{{- range $name := .names }}
{{- with index $.values $name }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
