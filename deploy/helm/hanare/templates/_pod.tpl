{{/* The name before all others of a release. */}}
{{- define "hanare.name" -}}
{{- if contains "hanare" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-hanare" (.Release.Name | trunc 33 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* Labels by which pods of one part are found. */}}
{{- define "hanare.selector" -}}
app.kubernetes.io/name: hanare
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "hanare.labels" -}}
{{ include "hanare.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* The address of a keeper, by its number. Its pod has that name wherever it runs. */}}
{{- define "hanare.keeper" -}}
{{ include "hanare.name" .root }}-keeper-{{ .number }}.{{ include "hanare.name" .root }}-keepers.{{ .root.Release.Namespace }}.svc:{{ .root.Values.port }}
{{- end }}

{{/* The words by which a node finds the pool: all keepers, or the one there is. That one needs no word itself. */}}
{{- define "hanare.finds" -}}
{{- $root := .root }}
{{- if gt (int .root.Values.keepers.count) 1 }}
{{- $keepers := list }}
{{- range until (int .root.Values.keepers.count) }}{{ $keepers = append $keepers (include "hanare.keeper" (dict "root" $root "number" .)) }}{{ end }}
- {{ printf "--keepers=%s" (join "," $keepers) | quote }}
{{- else if ne .part "keeper" }}
- {{ printf "--join=%s" (include "hanare.keeper" (dict "root" $root "number" 0)) | quote }}
{{- end }}
{{- end }}

{{/* A pod with a node: dict "root" $, "part" "keeper" or "node", "of" its values, "state" the name of its volume. */}}
{{- define "hanare.pod" -}}
{{- $root := .root }}{{ $values := .root.Values }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
automountServiceAccountToken: false
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsUser: {{ $values.user }}
  runAsGroup: {{ $values.user }}
  fsGroup: {{ $values.user }}
  runAsNonRoot: true
  {{- with $values.seccompProfile }}
  seccompProfile: {{ toYaml . | nindent 4 }}
  {{- end }}
initContainers:
  # Folders belong to root at first; the node does not.
  - name: own
    image: {{ $values.initImage | quote }}
    command:
      - sh
      - -c
      - chown {{ $values.user }}:{{ $values.user }} {{ $values.runPath | quote }} /var/lib/hanare && install -m 0600 -o {{ $values.user }} /key/pool.key /key/scrape.token /var/lib/hanare/
    securityContext:
      runAsUser: 0
      runAsNonRoot: false
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER]}
    volumeMounts:
      - {name: run, mountPath: {{ $values.runPath | quote }}}
      - {name: {{ .state }}, mountPath: /var/lib/hanare}
      - {name: key, mountPath: /key, readOnly: true}
containers:
  - name: node
    image: {{ printf "%s:%s" $values.image.repository ($values.image.tag | default $root.Chart.AppVersion) | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args:
      - node
      - {{ printf "--memory=%s" .of.memory | quote }}
      {{- with include "hanare.finds" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      - "--listen=$(HOST_IP):{{ $values.port }}"
      - {{ printf "--socket=%s/node.sock" $values.runPath | quote }}
      - {{ printf "--socket-mode=%s" $values.socketMode | quote }}
      - --key=/var/lib/hanare/pool.key
      {{- if $values.persist }}
      - --persist=/var/lib/hanare/kept
      {{- end }}
      {{- if $values.drainSeconds }}
      - "--drain-on-term={{ $values.drainSeconds }}"
      {{- end }}
      - "--prometheus=$(HOST_IP):{{ $values.metricsPort }}"
      - --prometheus-token=/var/lib/hanare/scrape.token
      - --log-json
      - "--name=$(NAME)"
      {{- range $values.extraArgs }}
      - {{ . | quote }}
      {{- end }}
    env:
      - {name: HANARE_STATE, value: /var/lib/hanare}
      - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
      {{- if eq .part "keeper" }}
      # A keeper is known by the name of its pod, which stays; its host's address may change.
      - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      - name: HANARE_ADVERTISE
        value: "$(NAME).{{ include "hanare.name" $root }}-keepers.{{ $root.Release.Namespace }}.svc:{{ $values.port }}"
      {{- else }}
      - {name: NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
      {{- end }}
      {{- range $name, $value := $values.extraEnv }}
      - {name: {{ $name }}, value: {{ $value | quote }}}
      {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    # Ports of the host: two nodes of a pool are never on one.
    ports:
      - {name: pool, containerPort: {{ $values.port }}}
      - {name: metrics, containerPort: {{ $values.metricsPort }}}
    {{- with .of.resources }}
    resources: {{ toYaml . | nindent 6 }}
    {{- end }}
    livenessProbe:
      httpGet: {path: /healthz, port: metrics}
      periodSeconds: 10
      failureThreshold: 3
    # At the first start a keeper answers when all keepers are there.
    startupProbe:
      httpGet: {path: /healthz, port: metrics}
      periodSeconds: 5
      failureThreshold: 60
    readinessProbe:
      httpGet: {path: /readyz, port: metrics}
    volumeMounts:
      - {name: run, mountPath: {{ $values.runPath | quote }}}
      - {name: {{ .state }}, mountPath: /var/lib/hanare}
      - {name: key, mountPath: /key, readOnly: true}
{{- end }}
