{{- define "naiad.name" -}}
{{- $suffix := .Values.nameOverride | default "naiad" }}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name $suffix) (contains $suffix .Release.Name) }}
{{- .Values.fullnameOverride | default $name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "naiad.selector" -}}
app.kubernetes.io/name: naiad-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "naiad.labels" -}}
{{ include "naiad.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: naiad
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "naiad.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "naiad.name" .) }}
{{- end }}

{{- define "naiad.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Whether the operator reads NaiadProfiles, which are not in namespaces. */}}
{{- define "naiad.readsProfiles" -}}
{{- or (eq .Values.profiles "always") (and (eq .Values.profiles "auto") (not .Values.watchNamespaces)) }}
{{- end }}

{{/* Whether the operator reads nodes, which are not in namespaces either. */}}
{{- define "naiad.readsNodes" -}}
{{- or (eq (toString .Values.nodeInspection) "always") (and (eq (toString .Values.nodeInspection) "true") (not .Values.watchNamespaces)) }}
{{- end }}

{{/* An option that says what services may have: the value, else what this release has, else what a new one gets. The first releases allowed everything. */}}
{{- define "naiad.allowed" -}}
{{- $chosen := .value }}
{{- if not $chosen }}
{{- $present := lookup "apps/v1" "Deployment" .root.Release.Namespace (include "naiad.name" .root) }}
{{- $chosen = ternary "Allow" .new (not (empty $present)) }}
{{- if $present }}
{{- range (first $present.spec.template.spec.containers).args }}
{{- if hasPrefix (printf "--%s=" $.option) . }}{{ $chosen = trimPrefix (printf "--%s=" $.option) . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- $chosen }}
{{- end }}

{{/* What happens to a change of podTemplate without the right to it: the value, else what this release has; Deny in a new one that makes roles for the cluster. */}}
{{- define "naiad.podTemplateRight" -}}
{{- $chosen := .Values.rbac.podTemplateRight }}
{{- if not $chosen }}
{{- $chosen = "Off" }}
{{- if and .Values.rbac.create .Values.rbac.userRoles (not .Values.watchNamespaces) }}
{{- $binding := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicyBinding" "" (printf "%s-podtemplate" (include "naiad.name" .)) }}
{{- if $binding }}
{{- $chosen = first $binding.spec.validationActions }}
{{- else if empty (lookup "apps/v1" "Deployment" .Release.Namespace (include "naiad.name" .)) }}
{{- $chosen = "Deny" }}
{{- end }}
{{- end }}
{{- end }}
{{- $chosen }}
{{- end }}

{{/* What every user of services may do; podTemplate is a right of its own. */}}
{{- define "naiad.userRules" -}}
- apiGroups: [serving.naiad.dev]
  resources: [inferenceservices, inferenceservices/scale]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [serving.naiad.dev]
  resources: [inferenceservices/status]
  verbs: [get]
{{- end }}

{{- define "naiad.podTemplateRule" -}}
- apiGroups: [serving.naiad.dev]
  resources: [inferenceservices/podtemplate]
  verbs: [update]
{{- end }}

{{/* The services that podTemplate and triggers may concern, as "namespace/name", at most 20; in a rendering without a cluster none. */}}
{{- define "naiad.concerned" -}}
{{- $found := list }}
{{- if .Capabilities.APIVersions.Has "serving.naiad.dev/v1alpha1/InferenceService" }}
{{- range (lookup "serving.naiad.dev/v1alpha1" "InferenceService" "" "").items }}
{{- $predictor := .spec.predictor | default dict }}
{{- $scaling := $predictor.autoscaling | default dict }}
{{- $ofCanary := (.spec.canary | default dict).autoscaling | default dict }}
{{- $isSystem := hasPrefix "system-" ($predictor.priorityClassName | default "") }}
{{- $transformer := .spec.transformer | default dict }}
{{- $explainer := .spec.explainer | default dict }}
{{- $ofComponent := or $transformer.podTemplate $explainer.podTemplate (hasPrefix "system-" ($transformer.priorityClassName | default "")) (hasPrefix "system-" ($explainer.priorityClassName | default "")) }}
{{- if or $predictor.podTemplate $ofComponent $isSystem $scaling.triggers $scaling.prometheusAuth $ofCanary.triggers $ofCanary.prometheusAuth }}
{{- $found = append $found (printf "%s/%s" .metadata.namespace .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- with $found }}{{ join " " (slice . 0 (min 20 (len .))) }}{{ if gt (len .) 20 }} and {{ sub (len .) 20 }} more{{ end }}{{ end }}
{{- end }}

{{/* The spec of the profile of services without a NaiadProfile, as YAML; empty when there is none. */}}
{{- define "naiad.defaultProfile" -}}
{{- $profile := .Values.defaultProfile }}
{{- if and .Values.openshift (not (hasKey $profile "podSecurityContext")) }}
{{- $profile = merge (dict "podSecurityContext" (dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault"))) $profile }}
{{- end }}
{{- with $profile }}{{ toYaml . }}{{ end }}
{{- end }}

{{- define "naiad.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext | default dict }}
{{- ternary (omit $context "runAsUser" "runAsGroup" "fsGroup") $context .Values.openshift | toYaml }}
{{- end }}

{{/* Replicas prefer different nodes. */}}
{{- define "naiad.affinity" -}}
{{- $affinity := .Values.affinity }}
{{- if and (gt (int .Values.replicas) 1) (not (hasKey $affinity "podAntiAffinity")) }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "naiad.selector" . | fromYaml)) }}
{{- $preferred := list (dict "weight" 100 "podAffinityTerm" $term) }}
{{- $affinity = merge (dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred)) $affinity }}
{{- end }}
{{- with $affinity }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* The permissions for services and their objects: the rules of the ClusterRole, or of a Role in each watched namespace. */}}
{{- define "naiad.rules" -}}
- apiGroups: [serving.naiad.dev]
  resources: [inferenceservices]
  verbs: [get, list, watch]
- apiGroups: [serving.naiad.dev]
  resources: [inferenceservices/status]
  verbs: [patch]
# An owner reference that blocks the owner's deletion requires this permission with OwnerReferencesPermissionEnforcement.
- apiGroups: [serving.naiad.dev]
  resources: [inferenceservices/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [ingresses, networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes, grpcroutes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors, servicemonitors]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [resource.k8s.io]
  resources: [resourceclaimtemplates]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# Their access modes decide how pods that mount them are replaced.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
# Those of an autoscaler of nodes are read while a pod has no node.
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
{{- end }}
