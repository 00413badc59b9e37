{{- define "schedclass.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 45 | trimSuffix "-" }}
{{- end }}

{{/* Prefix of all names. The longest suffix is -webhook-tls, and a Service's name is a DNS label. */}}
{{- define "schedclass.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" }}
{{- else if contains (include "schedclass.name" .) .Release.Name }}
{{- .Release.Name | trunc 45 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "schedclass.name" .) | trunc 45 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Selectors are immutable: name, instance and component only. Takes (dict "root" . "role" ROLE). */}}
{{- define "schedclass.selectorLabels" -}}
app.kubernetes.io/name: {{ eq .role "scheduler" | ternary "cozystack-scheduler" (include "schedclass.name" .root) | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .role }}
{{- end }}

{{/* Labels of an object that belongs to a role. */}}
{{- define "schedclass.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "schedclass.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: cozystack
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "schedclass.serviceAccount" -}}
{{- printf "%s-%s" (default (include "schedclass.fullname" .root) .root.Values.serviceAccount.name) .role }}
{{- end }}

{{/* An image that is named in parts or as one string. Takes (dict "image" IMAGE "tag" DEFAULT). */}}
{{- define "schedclass.imageName" -}}
{{- $image := .image }}
{{- if kindIs "string" $image }}
{{- $image }}
{{- else }}
{{- $name := $image.repository }}
{{- with $image.registry }}{{ $name = printf "%s/%s" (trimSuffix "/" .) $name }}{{ end }}
{{- $name = printf "%s:%s" $name (default .tag $image.tag) }}
{{- with $image.digest }}{{ $name = printf "%s@%s" $name . }}{{ end }}
{{- $name }}
{{- end }}
{{- end }}

{{/* The pull policy of such an image. Takes the image. */}}
{{- define "schedclass.pullPolicy" -}}
{{- if kindIs "string" . }}IfNotPresent{{ else }}{{ .pullPolicy }}{{ end }}
{{- end }}

{{- define "schedclass.image" -}}
{{- include "schedclass.imageName" (dict "image" .Values.image "tag" .Chart.AppVersion) }}
{{- end }}

{{/* Port of /healthz, /readyz and /metrics: one server answers all three. */}}
{{- define "schedclass.probePort" -}}
{{- if kindIs "invalid" .Values.metrics.port }}{{ .Values.probes.port }}{{ else }}{{ .Values.metrics.port }}{{ end }}
{{- end }}

{{/* "true" if the controller makes the certificates itself, else empty. */}}
{{- define "schedclass.selfSigned" -}}
{{- if not .Values.certManager.enabled }}true{{ end }}
{{- end }}

{{/* Namespaces that are never touched, as a JSON list: the values' and those the cluster lives on. */}}
{{- define "schedclass.excludedNamespaces" -}}
{{- concat .Values.excludedNamespaces (list "kube-system" "kube-public" "kube-node-lease") | uniq | toJson }}
{{- end }}

{{/* The excluded names that a label selector can express, and the release's own, as a JSON list. */}}
{{- define "schedclass.excludedNames" -}}
{{- $names := list .Release.Namespace }}
{{- range include "schedclass.excludedNamespaces" . | fromJsonArray }}
{{- if not (regexMatch "[*?]" .) }}{{ $names = append $names . }}{{ end }}
{{- end }}
{{- $names | uniq | sortAlpha | toJson }}
{{- end }}

{{/* CEL: does the string expression .subject match an excluded pattern? Empty without patterns. */}}
{{- define "schedclass.matchesExcludedPattern" -}}
{{- $tests := list }}
{{- $subject := .subject }}
{{- range include "schedclass.excludedNamespaces" .root | fromJsonArray }}
{{- if regexMatch "^[^*?]+[*]$" . }}
{{- $tests = append $tests (printf "%s.startsWith('%s')" $subject (trimSuffix "*" .)) }}
{{- else if regexMatch "[*?]" . }}
{{- $tests = append $tests (printf "%s.matches('^%s$')" $subject (. | replace "?" "." | replace "*" ".*")) }}
{{- end }}
{{- end }}
{{- join " || " $tests }}
{{- end }}

{{/* CEL: is the string expression .subject an excluded name, or does it match an excluded pattern? */}}
{{- define "schedclass.isExcludedNamespace" -}}
{{- $names := include "schedclass.excludedNames" .root | fromJsonArray }}
{{- $tests := list (printf "%s in ['%s']" .subject (join "', '" $names)) }}
{{- with include "schedclass.matchesExcludedPattern" . }}{{ $tests = append $tests . }}{{ end }}
{{- join " || " $tests }}
{{- end }}

{{/* How the API server reaches a handler. Takes (dict "root" . "path" "/mutate-pods"). No caBundle
is ever rendered: cert-manager or the controller fills it in, and an upgrade must not reset it. */}}
{{- define "schedclass.clientConfig" -}}
{{- if .root.Values.webhook.url }}
url: {{ printf "%s%s" (trimSuffix "/" .root.Values.webhook.url) .path | quote }}
{{- else }}
service:
  namespace: {{ .root.Release.Namespace | quote }}
  name: {{ include "schedclass.fullname" .root }}-webhook
  port: {{ .root.Values.service.port }}
  path: {{ .path }}
{{- end }}
{{- end }}

{{- define "schedclass.injectCA" -}}
{{- if .Values.certManager.enabled }}
annotations:
  cert-manager.io/inject-ca-from: {{ printf "%s/%s-webhook" .Release.Namespace (include "schedclass.fullname" .) }}
{{- end }}
{{- end }}

{{/* Number of replicas of a role. */}}
{{- define "schedclass.replicas" -}}
{{- $own := (index .root.Values .role).replicaCount }}
{{- if kindIs "invalid" $own }}{{ .root.Values.replicaCount }}{{ else }}{{ $own }}{{ end }}
{{- end }}

{{/* What webhook.namespaceSelector adds, as list items: expressions, or a whole label selector. */}}
{{- define "schedclass.namespaceExpressions" -}}
{{- $selector := .Values.webhook.namespaceSelector }}
{{- $expressions := list }}
{{- if kindIs "slice" $selector }}
{{- $expressions = $selector }}
{{- else if $selector }}
{{- range $key, $value := $selector.matchLabels }}
{{- $expressions = append $expressions (dict "key" $key "operator" "In" "values" (list $value)) }}
{{- end }}
{{- $expressions = concat $expressions (default list $selector.matchExpressions) }}
{{- end }}
{{- with $expressions }}{{ toYaml . }}{{ end }}
{{- end }}
