{{/* Environment of a role's process, as the settings model reads it. */}}
{{- define "schedclass.env" -}}
- name: SCHEDCLASS_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: SCHEDCLASS_RELEASE
  value: {{ include "schedclass.fullname" .root | quote }}
- name: SCHEDCLASS_PROBE_PORT
  value: {{ include "schedclass.probePort" .root | quote }}
{{- if eq .role "webhook" }}
- name: SCHEDCLASS_WEBHOOK_PORT
  value: {{ .root.Values.webhook.port | quote }}
{{- end }}
{{- if has .role (list "extender" "controller" "webhook") }}
- name: SCHEDCLASS_DEFAULT_LABEL_SELECTOR_KEYS
  value: {{ join "," .root.Values.scheduler.defaultLabelSelectorKeys | quote }}
{{- end }}
{{- if eq .role "extender" }}
- name: SCHEDCLASS_EXTENDER_PORT
  value: {{ .root.Values.scheduler.extenderPort | quote }}
{{- if .root.Values.scheduler.logDecisions }}
- name: SCHEDCLASS_LOG_DECISIONS
  value: "true"
{{- end }}
- name: SCHEDCLASS_NOMINATION
  value: {{ .root.Values.scheduler.nomination.enabled | quote }}
- name: SCHEDCLASS_NOMINATION_LEAST_NODES
  value: {{ int64 .root.Values.scheduler.nomination.leastNodes | quote }}
- name: SCHEDCLASS_NOMINATION_LEAST_CANDIDATES
  value: {{ int64 .root.Values.scheduler.nomination.leastCandidates | quote }}
{{- with .root.Values.scheduler.extraExtenders }}
- name: SCHEDCLASS_EXTRA_EXTENDERS
  value: {{ toJson . | quote }}
{{- end }}
{{- else if .root.Values.scheduler.enabled }}
- name: SCHEDCLASS_SCHEDULER_LEASE
  value: {{ .root.Values.scheduler.lease.name | quote }}
{{- end }}
- name: SCHEDCLASS_EXCLUDED_NAMESPACES
  value: {{ include "schedclass.excludedNamespaces" .root | fromJsonArray | join "," | quote }}
- name: SCHEDCLASS_EXEMPT_DAEMON_SETS
  value: {{ .root.Values.exemptDaemonSets | quote }}
- name: SCHEDCLASS_CONTROLLER_USER
  value: system:serviceaccount:{{ .root.Release.Namespace }}:{{ include "schedclass.serviceAccount" (dict "root" .root "role" "controller") }}
- name: SCHEDCLASS_CERTIFICATE_MODE
  value: {{ ternary "self-signed" "cert-manager" (eq (include "schedclass.selfSigned" .root) "true") }}
{{- with .root.Values.certificate.hosts }}
- name: SCHEDCLASS_CERTIFICATE_HOSTS
  value: {{ join "," . | quote }}
{{- end }}
- name: SCHEDCLASS_CLUSTER_DOMAIN
  value: {{ .root.Values.clusterDomain | quote }}
- name: SCHEDCLASS_LOG_LEVEL
  value: {{ .root.Values.logging.level | quote }}
- name: SCHEDCLASS_LOG_FORMAT
  value: {{ .root.Values.logging.format | quote }}
# Kopf names itself after the user, whom the image's passwd file does not know.
- name: LOGNAME
  value: schedclass
- name: USER
  value: schedclass
- name: HOME
  value: /tmp
{{- end }}

{{- define "schedclass.spread" -}}
{{- $labels := include "schedclass.selectorLabels" . }}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- $labels | nindent 6 }}
{{- end }}
{{- end }}

{{- define "schedclass.antiAffinity" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "schedclass.selectorLabels" . | nindent 12 }}
{{- end }}

{{- define "schedclass.container" -}}
{{- $values := .root.Values }}
name: {{ .role }}
image: {{ include "schedclass.image" .root | quote }}
imagePullPolicy: {{ include "schedclass.pullPolicy" $values.image }}
args:
  - {{ .role }}
  {{- with $values.extraArgs }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
env:
  {{- include "schedclass.env" . | nindent 2 }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  {{- if eq .role "webhook" }}
  - name: webhook
    containerPort: {{ $values.webhook.port }}
    protocol: TCP
  {{- end }}
  - name: probes
    containerPort: {{ include "schedclass.probePort" .root }}
    protocol: TCP
{{- range $probe, $path := dict "livenessProbe" "/healthz" "readinessProbe" "/readyz" "startupProbe" "/healthz" }}
{{ $probe }}:
  httpGet:
    path: {{ $path }}
    port: probes
  {{- with index $values $probe }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with $values.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with default $values.resources (index $values (eq .role "extender" | ternary "scheduler" .role)).resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $values.securityContext | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- with $values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* A role's Deployment. Takes (dict "root" . "role" "webhook"|"controller"). */}}
{{- define "schedclass.deployment" -}}
{{- $values := .root.Values }}
{{- $hostNetwork := and (eq .role "webhook") $values.webhook.hostNetwork }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "schedclass.fullname" .root }}-{{ .role }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "schedclass.labels" . | nindent 4 }}
spec:
  replicas: {{ include "schedclass.replicas" . }}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "schedclass.selectorLabels" . | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      {{- if $hostNetwork }}
      # A new pod may find no node whose port is free until an old one goes.
      maxSurge: 0
      maxUnavailable: 1
      {{- else }}
      maxSurge: 1
      maxUnavailable: 0
      {{- end }}
  template:
    metadata:
      labels:
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "schedclass.selectorLabels" . | nindent 8 }}
      {{- if or $values.podAnnotations (eq .role "scheduler") }}
      annotations:
        {{- if eq .role "scheduler" }}
        # kube-scheduler reads its configuration once.
        checksum/config: {{ include "schedclass.kubeSchedulerConfiguration" .root | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "schedclass.serviceAccount" . | quote }}
      automountServiceAccountToken: true
      # Variables of a Service named after the release would look like settings.
      enableServiceLinks: false
      {{- with $values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      {{- if $hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      securityContext:
        {{- toYaml $values.podSecurityContext | nindent 8 }}
      containers:
        {{- if eq .role "scheduler" }}
        {{- include "schedclass.schedulerContainers" . | nindent 8 }}
        {{- else }}
        - {{ include "schedclass.container" . | trim | indent 10 | trim }}
        {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        {{- if $values.affinity }}
        {{- toYaml $values.affinity | nindent 8 }}
        {{- else }}
        {{- include "schedclass.antiAffinity" . | nindent 8 }}
        {{- end }}
      topologySpreadConstraints:
        {{- if $values.topologySpreadConstraints }}
        {{- toYaml $values.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        {{- include "schedclass.spread" . | nindent 8 }}
        {{- end }}
      volumes:
        - name: tmp
          emptyDir:
            sizeLimit: 64Mi
        {{- if eq .role "scheduler" }}
        - name: kube-scheduler
          configMap:
            name: {{ include "schedclass.fullname" .root }}-scheduler
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}

{{/* A role's PodDisruptionBudget, if it has replicas to spare. */}}
{{- define "schedclass.podDisruptionBudget" -}}
{{- $budget := .root.Values.podDisruptionBudget }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "schedclass.fullname" .root }}-{{ .role }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "schedclass.labels" . | nindent 4 }}
spec:
  {{- if not (kindIs "invalid" $budget.minAvailable) }}
  minAvailable: {{ $budget.minAvailable }}
  {{- else if kindIs "invalid" $budget.maxUnavailable }}
  maxUnavailable: 1
  {{- else }}
  maxUnavailable: {{ $budget.maxUnavailable }}
  {{- end }}
  unhealthyPodEvictionPolicy: {{ $budget.unhealthyPodEvictionPolicy }}
  selector:
    matchLabels:
      {{- include "schedclass.selectorLabels" . | nindent 6 }}
{{- end }}

{{- define "schedclass.networkPolicy" -}}
{{- $policy := .root.Values.networkPolicy }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "schedclass.fullname" .root }}-{{ .role }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "schedclass.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "schedclass.selectorLabels" . | nindent 6 }}
  policyTypes:
    - Ingress
    {{- if $policy.egress.enabled }}
    - Egress
    {{- end }}
  ingress:
    {{- if eq .role "webhook" }}
    # From anywhere: the API server is no pod that a selector could name.
    - ports:
        - port: {{ .root.Values.webhook.port }}
          protocol: TCP
    {{- end }}
    {{- if .root.Values.metrics.enabled }}
    # Who scrapes. The probes of the kubelet come from the pod's own node, which no policy keeps out.
    - ports:
        - port: {{ include "schedclass.probePort" .root }}
          protocol: TCP
        {{- if eq .role "scheduler" }}
        - port: {{ .root.Values.scheduler.kubeScheduler.port }}
          protocol: TCP
        {{- end }}
      {{- with $policy.metricsFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
  {{- if $policy.egress.enabled }}
  egress:
    # To anywhere: neither the API server nor a DNS cache on the node is a pod that a selector could name.
    - ports:
        - port: 53
          protocol: UDP
        - port: 53
          protocol: TCP
        {{- range $policy.egress.apiServerPorts }}
        - port: {{ . }}
          protocol: TCP
        {{- end }}
    {{- with $policy.egress.extra }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{- define "schedclass.serviceAccountObject" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "schedclass.serviceAccount" . | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "schedclass.labels" . | nindent 4 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{/* Binds a role's ClusterRole and Role (both named after it) to its ServiceAccount. */}}
{{- define "schedclass.roleBindings" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "schedclass.fullname" .root }}-{{ .role }}
  labels:
    {{- include "schedclass.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ include "schedclass.fullname" .root }}-{{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ include "schedclass.serviceAccount" . | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "schedclass.fullname" .root }}-{{ .role }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "schedclass.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "schedclass.fullname" .root }}-{{ .role }}
subjects:
  - kind: ServiceAccount
    name: {{ include "schedclass.serviceAccount" . | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
