{{/* Image of the stock kube-scheduler: of the cluster's own version unless a tag is set. */}}
{{- define "schedclass.kubeSchedulerImage" -}}
{{- $version := regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version }}
{{- include "schedclass.imageName" (dict "image" .Values.scheduler.kubeScheduler.image "tag" $version) }}
{{- end }}

{{/* KubeSchedulerConfiguration. Why each line is as it is: docs/architecture.md, "The scheduler". */}}
{{- define "schedclass.kubeSchedulerConfiguration" -}}
{{- $scheduler := .Values.scheduler }}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  qps: {{ $scheduler.kubeScheduler.clientConnection.qps }}
  burst: {{ $scheduler.kubeScheduler.clientConnection.burst }}
leaderElection:
  leaderElect: true
  resourceLock: leases
  resourceName: {{ $scheduler.lease.name | quote }}
  resourceNamespace: {{ .Release.Namespace | quote }}
# Extenders are asked after a sample of nodes was chosen, and a class may allow none of it.
percentageOfNodesToScore: 100
podInitialBackoffSeconds: {{ $scheduler.kubeScheduler.podInitialBackoffSeconds }}
podMaxBackoffSeconds: {{ $scheduler.kubeScheduler.podMaxBackoffSeconds }}
profiles:
  # Extenders are asked about every pod of the process, so there is one profile only.
  - schedulerName: cozystack-scheduler
    {{- with $scheduler.kubeScheduler.pluginConfig }}
    pluginConfig:
      {{- toYaml . | nindent 6 }}
    {{- end }}
extenders:
  - urlPrefix: http://127.0.0.1:{{ $scheduler.extenderPort }}
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    bindVerb: bind
    weight: 1
    nodeCacheCapable: true
    # Without an answer no class would be heeded.
    ignorable: false
    httpTimeout: 10s
{{- end }}

{{/* The containers of the scheduler's pod. */}}
{{- define "schedclass.schedulerContainers" -}}
{{- $values := .root.Values }}
{{- $stock := $values.scheduler.kubeScheduler }}
- {{ include "schedclass.container" (dict "root" .root "role" "extender") | trim | indent 2 | trim }}
- name: kube-scheduler
  image: {{ include "schedclass.kubeSchedulerImage" .root | quote }}
  imagePullPolicy: {{ include "schedclass.pullPolicy" $stock.image }}
  command:
    - kube-scheduler
  args:
    - --config=/etc/kube-scheduler/config.yaml
    - --secure-port={{ $stock.port }}
    {{- with $stock.maxUnschedulableDuration }}
    - --pod-max-in-unschedulable-pods-duration={{ . }}
    {{- end }}
    {{- with $stock.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: scheduler
      containerPort: {{ $stock.port }}
      protocol: TCP
  {{- range $probe := list "livenessProbe" "readinessProbe" "startupProbe" }}
  {{ $probe }}:
    httpGet:
      path: /healthz
      port: scheduler
      scheme: HTTPS
    {{- with index $values $probe }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  resources:
    {{- toYaml $stock.resources | nindent 4 }}
  securityContext:
    {{- toYaml $values.securityContext | nindent 4 }}
  volumeMounts:
    - name: kube-scheduler
      mountPath: /etc/kube-scheduler
      readOnly: true
    {{- with $values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- with $values.scheduler.extraContainers }}
{{ toYaml . }}
{{- end }}
{{- end }}
