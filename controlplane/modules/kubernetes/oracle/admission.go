package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // registers the conversions and defaults
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
)

// admit does to a pod what the API server does on creation: defaults, and the pod strategy, which
// merges matchLabelKeys and mismatchLabelKeys into the label selectors (KEP-3633, KEP-3243).
//
// Node, status and deletion timestamp are kept, so that running pods pass too. With validate set,
// the second result lists what validation has against the pod.
func admit(ctx context.Context, pod *v1.Pod, validate bool) (*v1.Pod, []string, error) {
	given := pod.DeepCopy()
	legacyscheme.Scheme.Default(given)
	internal := &api.Pod{}
	if err := legacyscheme.Scheme.Convert(given, internal, nil); err != nil {
		return nil, nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	podregistry.Strategy.PrepareForCreate(ctx, internal)
	var problems []string
	if validate {
		for _, problem := range podregistry.Strategy.Validate(ctx, internal) {
			problems = append(problems, fmt.Sprintf("%s/%s: %v", pod.Namespace, pod.Name, problem))
		}
	}
	stored := &v1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, stored, nil); err != nil {
		return nil, nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	stored.Status = pod.Status
	return stored, problems, nil
}
