{{- define "capstan.hooks" -}}
{{- if .Values.noOperator -}}
{{- $of := printf "%s-%s" .Release.Name .Values.klusterlet.name -}}
{{- /* With the suffixes of its Jobs a name has 63 characters at most. */ -}}
{{- if gt (len $of) 39 }}{{ $of = printf "%s-%s" (trunc 30 $of) (sha256sum $of | trunc 8) }}{{ end -}}
{{ $of }}-
{{- end }}klusterlet-hooks
{{- end }}

{{- define "capstan.instanceName" -}}
{{ .Values.klusterlet.name }}
{{- end }}

{{/* Not empty if the release has the operator. */}}
{{- define "capstan.operator" -}}
{{- if not .Values.noOperator }}true{{ end }}
{{- end }}

{{/* Not empty if the agents run on another cluster than the member. */}}
{{- define "capstan.hosted" -}}
{{- if has .Values.klusterlet.mode (list "Hosted" "SingletonHosted") }}true{{ end }}
{{- end }}

{{/* The namespace of the agents. */}}
{{- define "capstan.agentNamespace" -}}
{{- if include "capstan.hosted" . }}{{ .Values.klusterlet.name }}{{ else }}{{ .Values.klusterlet.namespace }}{{ end }}
{{- end }}

{{/* The Klusterlet. Only what is set is in it. */}}
{{- define "capstan.instance" -}}
apiVersion: operator.open-cluster-management.io/v1
kind: Klusterlet
metadata:
  name: {{ include "capstan.instanceName" . | quote }}
  labels:
    app.kubernetes.io/part-of: capstan
  {{- with .Values.klusterlet.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .Values.images.overrides.registrationImage }}
  registrationImagePullSpec: {{ . | quote }}
  {{- end }}
  {{- with .Values.images.overrides.workImage }}
  workImagePullSpec: {{ . | quote }}
  {{- end }}
  {{- with .Values.images.overrides.agentImage }}
  imagePullSpec: {{ . | quote }}
  {{- end }}
  deployOption:
    mode: {{ .Values.klusterlet.mode }}
  namespace: {{ .Values.klusterlet.namespace | quote }}
  {{- with .Values.klusterlet.clusterName }}
  clusterName: {{ . | quote }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- include "capstan.spec" (dict "values" .Values.klusterlet "names" (list "externalServerURLs" "nodePlacement" "registrationConfiguration" "workConfiguration" "hubApiServerHostAlias" "resourceRequirement")) | nindent 2 }}
{{- end }}
