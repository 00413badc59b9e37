{{/* CEL: is the requester one of .users or in one of .groups? JSON strings and lists are CEL too. */}}
{{- define "schedclass.requesterIsOneOf" -}}
{{- $tests := list }}
{{- with .users }}
{{- $tests = append $tests (printf "request.userInfo.username in %s" (. | uniq | toJson)) }}
{{- end }}
{{- with .groups }}
{{- $tests = append $tests (printf "(has(request.userInfo.groups) && request.userInfo.groups.exists(group, group in %s))" (. | uniq | toJson)) }}
{{- end }}
{{- default "false" (join " || " $tests) }}
{{- end }}

{{/* The user name of a role's ServiceAccount. Takes (dict "root" . "role" ROLE). */}}
{{- define "schedclass.user" -}}
{{- printf "system:serviceaccount:%s:%s" .root.Release.Namespace (include "schedclass.serviceAccount" .) }}
{{- end }}

{{/* Who may create pods in pinned namespaces that are not pinned, as a CEL condition. */}}
{{- define "schedclass.mayLeavePodsUnpinned" -}}
{{- $users := .Values.policies.pods.allowedUsers }}
{{- if .Values.exemptDaemonSets }}
{{- $users = append $users "system:serviceaccount:kube-system:daemon-set-controller" }}
{{- end }}
{{- include "schedclass.requesterIsOneOf" (dict "users" $users "groups" .Values.policies.pods.allowedGroups) }}
{{- end }}

{{/* Who may change whose a namespace is and what is written on it, as a CEL condition. */}}
{{- define "schedclass.mayMoveNamespaces" -}}
{{- $controller := include "schedclass.user" (dict "root" . "role" "controller") }}
{{- $users := prepend .Values.policies.namespaces.allowedUsers $controller }}
{{- include "schedclass.requesterIsOneOf" (dict "users" $users "groups" .Values.policies.namespaces.allowedGroups) }}
{{- end }}

{{/* Namespaces whose class is in force, and that are not excluded, as a namespaceSelector. Patterns
of names are no label values: see schedclass.notExcluded. */}}
{{- define "schedclass.enforcedNamespaces" -}}
namespaceSelector:
  matchLabels:
    scheduler.cozystack.io/enforced: "true"
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        {{- include "schedclass.excludedNames" . | fromJsonArray | toYaml | nindent 8 }}
{{- end }}

{{/* The matchConditions that all policies on pods share, as list items. Takes (dict "root" . "allowed" CEL). */}}
{{- define "schedclass.podPolicyConditions" -}}
{{- with include "schedclass.matchesExcludedPattern" (dict "root" .root "subject" "request.namespace") }}
- name: not-an-excluded-namespace
  expression: {{ printf "!(%s)" . | quote }}
{{- end }}
- name: not-an-allowed-identity
  expression: {{ printf "!(%s)" .allowed | quote }}
{{- end }}

{{/* The same two as variables that say whom a policy spares, as list items: where its conditions say what
it is about, these are rarely asked. Takes the same. */}}
{{- define "schedclass.podPolicyExemptions" -}}
- name: excludedNamespace
  expression: {{ include "schedclass.matchesExcludedPattern" (dict "root" .root "subject" "request.namespace") | default "false" | quote }}
- name: allowedIdentity
  expression: {{ .allowed | quote }}
{{- end }}

{{/* CEL: a node's own mirror pod, which shows what that node already runs. The identity counts, not
the annotation, which anybody can write (the NodeRestriction admission plugin holds nodes to it). */}}
{{- define "schedclass.isMirrorPod" -}}
has(object.spec.nodeName) && request.userInfo.username == 'system:node:' + object.spec.nodeName
&& has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups
&& has(object.metadata.annotations) && 'kubernetes.io/config.mirror' in object.metadata.annotations
{{- end }}

{{/* CEL: the class of the pod's namespace as it was last written, '' for none. Where it is inherited,
the annotation holds it as well, which nobody but the operator can change: the label anybody can. */}}
{{- define "schedclass.namespaceClass" -}}
namespaceObject.metadata.?annotations[?'scheduler.cozystack.io/inherited-scheduling-class'].orValue(
  namespaceObject.metadata.?labels[?'scheduler.cozystack.io/scheduling-class'].orValue(''))
{{- end }}

{{/* The binding of a policy. Takes (dict "root" . "name" NAME "action" Deny|Warn). */}}
{{- define "schedclass.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name | quote }}
  labels:
    {{- include "schedclass.labels" (dict "root" .root "role" "policy") | nindent 4 }}
spec:
  policyName: {{ .name | quote }}
  validationActions: [{{ .action }}, Audit]
{{- end }}

{{/* CEL: our scheduler and a class are on the pod. */}}
{{- define "schedclass.isPinned" -}}
has(object.spec.schedulerName) && object.spec.schedulerName == 'cozystack-scheduler'
&& object.metadata.?annotations[?'scheduler.cozystack.io/scheduling-class'].orValue('') != ''
{{- end }}

{{/* What both entries for pods have in common. */}}
{{- define "schedclass.podWebhook" -}}
clientConfig:
  {{- include "schedclass.clientConfig" (dict "root" . "path" "/mutate-pods") | trim | nindent 2 }}
rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [pods]
    operations: [CREATE]
    scope: Namespaced
matchPolicy: Equivalent
# A class that does not exist, or does not apply in whole, is reported by an Event.
sideEffects: NoneOnDryRun
timeoutSeconds: {{ .Values.webhook.timeoutSeconds }}
admissionReviewVersions: [v1]
{{- end }}

{{/* What both entries for namespaces have in common. */}}
{{- define "schedclass.namespaceWebhook" -}}
clientConfig:
  {{- include "schedclass.clientConfig" (dict "root" . "path" "/mutate-namespaces") | trim | nindent 2 }}
rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [namespaces]
    operations: [CREATE, UPDATE]
    scope: Cluster
matchPolicy: Equivalent
reinvocationPolicy: IfNeeded
sideEffects: None
timeoutSeconds: {{ .Values.webhook.timeoutSeconds }}
admissionReviewVersions: [v1]
{{- end }}

{{/* The matchCondition of all that judges namespaces, as a list item. */}}
{{- define "schedclass.notExcludedNamespace" -}}
# A name yet to be generated is absent here, and an error would decide instead. A selector of labels would
# not do: until there is a name, kubernetes.io/metadata.name says what its author wrote.
- name: not-an-excluded-namespace
  expression: {{ include "schedclass.isExcludedNamespace" (dict "root" . "subject" "request.name") | printf "!(has(request.name) && (%s))" | quote }}
{{- end }}

{{/* The matchConditions of both entries for namespaces, as list items. */}}
{{- define "schedclass.namespaceWebhookConditions" -}}
- name: not-the-controller
  expression: {{ printf "request.userInfo.username != '%s'" (include "schedclass.user" (dict "root" . "role" "controller")) | quote }}
{{ include "schedclass.notExcludedNamespace" . }}
{{- end }}

{{/* CEL: a request for a namespace that may not pass unanswered. That is a new one that may be pinned
from birth: by its name, by its owner, or by its class. And it is a change of a namespace's own class that
brings a change of the enforced label along: only the webhook can tell whether the two go together, and
what it finds wrong it puts right. */}}
{{- define "schedclass.needsAnAnswer" -}}
request.operation == 'CREATE'
? (has(object.metadata.name)
  ? object.metadata.name.startsWith('tenant-') && object.metadata.name != 'tenant-root'
  : has(object.metadata.generateName) && object.metadata.generateName.startsWith('tenant-'))
|| (has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, o.kind == 'Namespace'))
|| (has(object.metadata.labels) && object.metadata.labels.exists(key, key in
  ['scheduler.cozystack.io/scheduling-class', 'scheduler.cozystack.io/enforced']))
|| (has(object.metadata.annotations)
  && object.metadata.annotations.exists(key, key.startsWith('scheduler.cozystack.io/')))
: !({{ include "schedclass.mayMoveNamespaces" . }})
&& !(has(oldObject.metadata.annotations) && 'scheduler.cozystack.io/inherited-from' in oldObject.metadata.annotations)
&& ['scheduler.cozystack.io/scheduling-class', 'scheduler.cozystack.io/enforced'].all(key,
  (has(object.metadata.labels) && key in object.metadata.labels ? object.metadata.labels[key] : '')
  != (has(oldObject.metadata.labels) && key in oldObject.metadata.labels ? oldObject.metadata.labels[key] : ''))
{{- end }}
