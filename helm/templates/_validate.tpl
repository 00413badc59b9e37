{{/* Fails early, with one sentence, on values that contradict each other. */}}
{{- define "schedclass.validate" -}}
{{- $selfSigned := .Values.selfSigned.enabled }}
{{- if and .Values.certManager.enabled $selfSigned }}
{{- fail "certManager.enabled and selfSigned.enabled are both true: only one of them can make the certificates, set the other to false." }}
{{- end }}
{{- if and .Values.webhook.enabled (not .Values.certManager.enabled) (eq (toString $selfSigned) "false") }}
{{- fail "certManager.enabled and selfSigned.enabled are both false: the webhook needs a certificate, set one of them to true or webhook.enabled to false." }}
{{- end }}
{{- if and .Values.certManager.issuerRef (not .Values.certManager.enabled) }}
{{- fail "certManager.issuerRef is set, but certManager.enabled is false: enable cert-manager or remove the issuerRef." }}
{{- end }}
{{- if and .Values.certManager.issuerRef (not .Values.certManager.issuerRef.name) }}
{{- fail "certManager.issuerRef has no name: name an issuer or remove the issuerRef." }}
{{- end }}
{{- with .Values.podDisruptionBudget }}
{{- if not (or (kindIs "invalid" .minAvailable) (kindIs "invalid" .maxUnavailable)) }}
{{- fail "podDisruptionBudget.minAvailable and podDisruptionBudget.maxUnavailable are both set: set one of them to null." }}
{{- end }}
{{- end }}
{{- $probes := kindIs "invalid" .Values.metrics.port | ternary "probes.port" "metrics.port" }}
{{- $probePort := include "schedclass.probePort" . | int }}
{{- if eq (int .Values.webhook.port) $probePort }}
{{- fail (printf "webhook.port and %s are both %d: give them different ports." $probes $probePort) }}
{{- end }}
{{- if not .Values.metrics.enabled }}
{{- range list "serviceMonitor" "prometheusRule" }}
{{- if (index $.Values .).enabled }}
{{- fail (printf "%s.enabled is true, but metrics.enabled is false: nothing would be scraped, set metrics.enabled to true or %s.enabled to false." . .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.scheduler.enabled }}
{{- $ports := list $probePort (int .Values.scheduler.kubeScheduler.port) (int .Values.scheduler.extenderPort) }}
{{- if lt ($ports | uniq | len) 3 }}
{{- fail (printf "%s, scheduler.kubeScheduler.port and scheduler.extenderPort are not all different: they are used in one pod, give each its own." $probes) }}
{{- end }}
{{- if gt (int .Values.scheduler.kubeScheduler.podInitialBackoffSeconds) (int .Values.scheduler.kubeScheduler.podMaxBackoffSeconds) }}
{{- fail "scheduler.kubeScheduler.podInitialBackoffSeconds is above podMaxBackoffSeconds: lower the first or raise the second." }}
{{- end }}
{{- end }}
{{- if and .Values.webhook.enabled (not .Values.deployments.enabled) (not .Values.webhook.url) }}
{{- fail "deployments.enabled is false and webhook.url is empty: the API server could not reach the webhook, set webhook.url or webhook.enabled to false." }}
{{- end }}
{{- /* -0 lets in what vendors append, as in v1.36.3-gke.1, which else counts as earlier than 1.36. */}}
{{- if and .Values.policies.mutating.enabled (not (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version)) }}
{{- fail (printf "policies.mutating.enabled is true, but Kubernetes %s has no MutatingAdmissionPolicy v1: it came with 1.36, set the value to false, or name the cluster's version with --kube-version if this is rendered without a cluster." .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- with .Values.policies }}
{{- if and .enabled (eq .pods.action "Deny") (not $.Values.webhook.enabled) }}
{{- fail "webhook.enabled is false and policies.pods.action is Deny: nobody would judge a pod that names its node or, without policies.mutating, pin one at all; set webhook.enabled to true or policies.enabled to false." }}
{{- end }}
{{- if and .enabled (eq .bindings.action "Deny") (not $.Values.scheduler.enabled) (not .bindings.allowedUsers) (not .bindings.allowedGroups) }}
{{- fail "scheduler.enabled is false and policies.bindings allows nobody: no pod of a pinned namespace could be bound, name the user of the scheduler cozystack-scheduler in policies.bindings.allowedUsers." }}
{{- end }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false and serviceAccount.name is empty: name the prefix of the ServiceAccounts that exist." }}
{{- end }}
{{- if le (int .Values.terminationGracePeriodSeconds) 30 }}
{{- fail (printf "terminationGracePeriodSeconds is %d: the server may take 30 seconds to drain, use more." (int .Values.terminationGracePeriodSeconds)) }}
{{- end }}
{{- end }}
