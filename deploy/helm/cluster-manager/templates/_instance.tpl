{{- define "capstan.hooks" -}}
cluster-manager-hooks
{{- end }}

{{- define "capstan.instanceName" -}}
cluster-manager
{{- end }}

{{/* Not empty if the release has the operator. */}}
{{- define "capstan.operator" -}}
true
{{- end }}

{{/* The ClusterManager. Only what is set is in it. */}}
{{- define "capstan.instance" -}}
apiVersion: operator.open-cluster-management.io/v1
kind: ClusterManager
metadata:
  name: {{ include "capstan.instanceName" . }}
  labels:
    app.kubernetes.io/part-of: capstan
  {{- with .Values.clusterManager.annotations }}
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
  {{- with .Values.images.overrides.placementImage }}
  placementImagePullSpec: {{ . | quote }}
  {{- end }}
  {{- with .Values.images.overrides.addOnManagerImage }}
  addOnManagerImagePullSpec: {{ . | quote }}
  {{- end }}
  deployOption:
    mode: {{ .Values.clusterManager.mode }}
    {{- with .Values.clusterManager.default }}
    default:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .Values.clusterManager.hosted }}
    hosted:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  {{- include "capstan.spec" (dict "values" .Values.clusterManager "names" (list "nodePlacement" "registrationConfiguration" "workConfiguration" "placementConfiguration" "addOnManagerConfiguration" "serverConfiguration" "resourceRequirement")) | nindent 2 }}
{{- end }}
