{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The image of the manager: name[:tag][@digest]. */}}
{{- define "trainwright.image" -}}
{{- $image := .Values.image -}}
{{- $tag := $image.tag -}}
{{- if $image.digest -}}
{{ $image.repository }}{{ with $tag }}:{{ . }}{{ end }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The Configuration, as YAML: the value `config`, and what other values say about it. */}}
{{- define "trainwright.configuration" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.certManager.enabled -}}
{{- $_ := set $config "certManagement" (merge (dict "enable" false) (default dict $config.certManagement)) -}}
{{- end -}}
{{- toYaml (merge (dict "apiVersion" "config.trainer.kubeflow.org/v1alpha1" "kind" "Configuration") $config) -}}
{{- end -}}

{{/* The Service in front of the manager. */}}
{{- define "trainwright.service" -}}
{{- dig "certManagement" "webhookServiceName" "" .Values.config | default "kubeflow-trainer-controller-manager" -}}
{{- end -}}

{{/* A match condition: whether a change is one of the spec. Other changes, and deletions, pass while no manager answers. */}}
{{- define "trainwright.specsDiffer" -}}
(has(object.spec) ? object.spec : null) != (has(oldObject.spec) ? oldObject.spec : null)
{{- end -}}

{{/* The Secret with the certificate. */}}
{{- define "trainwright.secret" -}}
{{- dig "certManagement" "webhookSecretName" "" .Values.config | default "kubeflow-trainer-webhook-cert" -}}
{{- end -}}

{{/*
What the Configuration turns on, as YAML: `on` is a list of the switches in files/rights.yaml, `ports` holds the number of
each port that is served.
*/}}
{{- define "trainwright.facts" -}}
{{- $config := include "trainwright.configuration" . | fromYaml -}}
{{- $table := .Files.Get "files/rights.yaml" | fromYaml -}}
{{- $on := list -}}
{{- range $name := $table.plugins -}}
{{- if not (has $name (dig "plugins" "disabled" list $config | default list)) -}}
{{- $on = append $on (printf "plugin.%s" $name) -}}
{{- end -}}
{{- end -}}
{{- $gates := $config.featureGates | default dict -}}
{{- range $name, $gate := $table.gates -}}
{{- $default := hasKey $gates $gate.group | ternary (get $gates $gate.group) $gate.default -}}
{{- if hasKey $gates $name | ternary (get $gates $name) $default -}}
{{- $on = append $on (printf "gate.%s" $name) -}}
{{- end -}}
{{- end -}}
{{- range $path, $default := $table.fields -}}
{{- $value := $config -}}
{{- range $name := splitList "." $path -}}
{{- $value = kindIs "map" $value | ternary $value dict | dig $name nil -}}
{{- end -}}
{{- if kindIs "bool" $value | ternary $value $default -}}{{- $on = append $on (printf "config.%s" $path) -}}{{- end -}}
{{- end -}}
{{- if kindIs "map" $config.cleanup -}}{{- $on = append $on "config.cleanup" -}}{{- end -}}
{{- $metrics := dig "metrics" "bindAddress" "" $config | default ":8443" -}}
{{- $health := dig "health" "healthProbeBindAddress" "" $config | default ":8081" -}}
{{- $ports := dict "webhook" (dig "webhook" "port" 9443 $config | int) -}}
{{- if ne $metrics "0" -}}
{{- $_ := set $ports "metrics" (regexFind "[0-9]+$" $metrics | int) -}}
{{- else -}}
{{- $on = without $on "config.metrics.auth.enabled" -}}
{{- end -}}
{{- if ne $health "0" -}}{{- $_ := set $ports "health" (regexFind "[0-9]+$" $health | int) -}}{{- end -}}
{{- if has "gate.TrainJobStatus" $on -}}{{- $_ := set $ports "status" (dig "statusServer" "port" 10443 $config | int) -}}{{- end -}}
{{- toYaml (dict "on" $on "ports" $ports) -}}
{{- end -}}

{{/*
The rules of the manager's roles, as YAML: lists by namespace, of which "" stands for the whole cluster. With
`onlyNamespace`, what can be granted there is granted there alone.
*/}}
{{- define "trainwright.rules" -}}
{{- $config := include "trainwright.configuration" . | fromYaml -}}
{{- $on := (include "trainwright.facts" . | fromYaml).on -}}
{{- $home := .Release.Namespace -}}
{{- $only := .Values.onlyNamespace | default "" -}}
{{- $names := dict "name-of-secret" (include "trainwright.secret" .) "name-of-lease" (dig "leaderElection" "resourceName" "" $config | default "trainer.kubeflow.org") -}}
{{- $places := dict "jobs" "" "home-of-manager" $home "home-of-lease" (dig "leaderElection" "resourceNamespace" "" $config | default $home) -}}
{{- $rules := dict "" list -}}
{{- $given := list -}}
{{- range $rule := (.Files.Get "files/rights.yaml" | fromYaml).rules -}}
{{- $verbs := list -}}
{{- range $verb := $rule.verbs -}}
{{- $holds := false -}}
{{- range $switches := $verb.when -}}
{{- $all := true -}}
{{- range $switch := $switches -}}{{- if not (has $switch $on) -}}{{- $all = false -}}{{- end -}}{{- end -}}
{{- if $all -}}{{- $holds = true -}}{{- end -}}
{{- end -}}
{{- if $holds -}}{{- $verbs = append $verbs $verb.verb -}}{{- end -}}
{{- end -}}
{{- $place := get $places $rule.place -}}
{{- if and (eq $rule.place "jobs") $rule.namespaced -}}{{- $place = $only -}}{{- end -}}
{{- /* What is granted in the whole cluster, or to TrainJobs in the same namespace, is not granted again. */ -}}
{{- $covered := list -}}
{{- if ne $rule.place "jobs" -}}
{{- range $other := $given -}}
{{- if and (eq $other.group $rule.group) (eq $other.resource $rule.resource) (or (eq $other.place "") (eq $other.place $place)) -}}
{{- $covered = $other.verbs -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $lacking := false -}}
{{- range $verb := $verbs -}}{{- if not (has $verb $covered) -}}{{- $lacking = true -}}{{- end -}}{{- end -}}
{{- if $lacking -}}
{{- $made := dict "apiGroups" (list $rule.group) "resources" (list $rule.resource) "verbs" $verbs -}}
{{- if $rule.names -}}
{{- $found := list -}}{{- range $rule.names -}}{{- $found = append $found (get $names . | default .) -}}{{- end -}}
{{- $_ := set $made "resourceNames" $found -}}
{{- else if eq $rule.place "jobs" -}}
{{- $given = append $given (dict "group" $rule.group "resource" $rule.resource "verbs" $verbs "place" $place) -}}
{{- end -}}
{{- $_ := set $rules $place (append (get $rules $place | default list) $made) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $rules "" (concat (get $rules "") (.Values.extraRules | default list)) -}}
{{- toYaml $rules -}}
{{- end -}}

{{/* The text at a path of a Configuration, such as progress.interval; empty: it is not set. Called with a list of both. */}}
{{- define "trainwright.at" -}}
{{- $at := index . 0 -}}
{{- range splitList "." (index . 1) -}}
{{- $at = kindIs "map" $at | ternary (get ($at | default dict) .) "" -}}
{{- end -}}
{{- $at | default "" -}}
{{- end -}}

{{/* The seconds of a duration as Go writes it, such as 1m30s. */}}
{{- define "trainwright.seconds" -}}
{{- $units := dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 "us" 0.000001 "µs" 0.000001 "ns" 0.000000001 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ns|us|µs|ms|s|m|h)" . -1 -}}
{{- $sum = addf $sum (mulf (regexFind "[0-9.]+" . | float64) (get $units (regexFind "[^0-9.]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
