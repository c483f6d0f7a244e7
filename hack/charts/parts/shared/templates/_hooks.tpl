{{/* The pod of a hook up to its container, which others may go on with. */}}
{{- define "capstan.hookPod" -}}
{{- with .context -}}
restartPolicy: Never
serviceAccountName: {{ include "capstan.hooks" . }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (include "capstan.pullSecrets" .) }}
imagePullSecrets:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
- name: hook
  image: {{ include "capstan.image" . | quote }}
  imagePullPolicy: {{ .Values.images.imagePullPolicy }}
  terminationMessagePolicy: FallbackToLogsOnError
  {{- with .Values.securityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
  args:
  - /capstan-manager
  - instance
  {{- range .args }}
  - {{ . | quote }}
  {{- end }}
{{- end }}
