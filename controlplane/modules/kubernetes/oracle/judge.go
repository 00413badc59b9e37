package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// judged are the plugins under test, in the order of the default configuration.
var judged = []string{
	names.TaintToleration, names.NodeAffinity, names.PodTopologySpread, names.InterPodAffinity,
}

// currentSnapshot lets one framework serve many clusters, one after the other.
type currentSnapshot struct{ fwk.SharedLister }

type judge struct {
	snapshot   *currentSnapshot
	namespaces cache.Indexer
	all        framework.Framework
	alone      map[string]framework.Framework
	weights    map[string]int64
}

// newJudge builds the frameworks: one with all plugins under test, and one per plugin, each with
// the arguments and weights of the default configuration.
func newJudge(ctx context.Context) (*judge, error) {
	metrics.Register()
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	made := &judge{
		snapshot:   &currentSnapshot{internalcache.NewEmptySnapshot()},
		namespaces: factory.Core().V1().Namespaces().Informer().GetIndexer(),
		alone:      map[string]framework.Framework{},
		weights:    map[string]int64{},
	}
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	profile := &defaults.Profiles[0]
	build := func(wanted ...string) (framework.Framework, error) {
		return frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), narrowed(profile, wanted),
			frameworkruntime.WithSnapshotSharedLister(made.snapshot),
			frameworkruntime.WithInformerFactory(factory),
			frameworkruntime.WithParallelism(1),
		)
	}
	if made.all, err = build(judged...); err != nil {
		return nil, err
	}
	for _, name := range judged {
		if made.alone[name], err = build(name); err != nil {
			return nil, err
		}
	}
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		made.weights[plugin.Name] = int64(plugin.Weight)
	}
	return made, nil
}

// narrowed returns the profile with only the wanted plugins and the two that a framework must have.
func narrowed(profile *config.KubeSchedulerProfile, wanted []string) *config.KubeSchedulerProfile {
	keep := map[string]bool{names.PrioritySort: true, names.DefaultBinder: true}
	for _, name := range wanted {
		keep[name] = true
	}
	result := &config.KubeSchedulerProfile{SchedulerName: profile.SchedulerName, Plugins: &config.Plugins{}}
	for _, plugin := range profile.Plugins.MultiPoint.Enabled {
		if keep[plugin.Name] {
			result.Plugins.MultiPoint.Enabled = append(result.Plugins.MultiPoint.Enabled, plugin)
		}
	}
	for _, arguments := range profile.PluginConfig {
		if keep[arguments.Name] {
			result.PluginConfig = append(result.PluginConfig, arguments)
		}
	}
	return result
}

func (j *judge) judge(ctx context.Context, asked *request) (map[string]*nodeAnswer, error) {
	pod, err := j.load(ctx, asked)
	if err != nil {
		return nil, err
	}
	answers := make(map[string]*nodeAnswer, len(asked.Nodes))
	verdicts, feasible, state := j.filter(ctx, j.all, pod, asked.Nodes)
	for name, status := range verdicts {
		answers[name] = &nodeAnswer{verdict: asVerdict(status), Plugins: map[string]verdict{}}
		if !status.IsSuccess() { // success may be a nil status, which has no plugin
			answers[name].Plugin = status.Plugin()
		}
	}
	for plugin, alone := range j.alone {
		verdicts, _, _ := j.filter(ctx, alone, pod, asked.Nodes)
		for name, status := range verdicts {
			answers[name].Plugins[plugin] = asVerdict(status)
		}
	}
	return answers, j.score(ctx, state, pod, feasible, answers)
}

// load replaces the cluster by that of the request and returns the pod to be placed.
func (j *judge) load(ctx context.Context, asked *request) (*v1.Pod, error) {
	namespaces := make([]any, len(asked.Namespaces))
	for i, namespace := range asked.Namespaces {
		namespaces[i] = namespace
	}
	if err := j.namespaces.Replace(namespaces, ""); err != nil {
		return nil, err
	}
	exists := map[string]bool{}
	for _, node := range asked.Nodes {
		exists[node.Name] = true
	}
	var placed []*v1.Pod
	for _, pod := range asked.Pods {
		finished := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if finished || !exists[pod.Spec.NodeName] {
			continue
		}
		stored, _, err := admit(ctx, pod, false)
		if err != nil {
			return nil, err
		}
		placed = append(placed, stored)
	}
	j.snapshot.SharedLister = internalcache.NewSnapshot(placed, asked.Nodes)
	stored, _, err := admit(ctx, asked.Pod, false)
	return stored, err
}

// filter runs PreFilter and Filter as a scheduling cycle does. It returns the status per node, the
// feasible nodes in the order of the request, and the state of the cycle.
func (j *judge) filter(
	ctx context.Context, with framework.Framework, pod *v1.Pod, nodes []*v1.Node,
) (map[string]*fwk.Status, []fwk.NodeInfo, fwk.CycleState) {
	state := framework.NewCycleState()
	verdicts := make(map[string]*fwk.Status, len(nodes))
	narrowing, status, narrowers := with.RunPreFilterPlugins(ctx, state, pod)
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		info, err := j.snapshot.NodeInfos().Get(node.Name)
		switch {
		case err != nil:
			verdicts[node.Name] = fwk.AsStatus(err)
		case !status.IsSuccess():
			verdicts[node.Name] = status
		case !narrowing.AllNodes() && !narrowing.NodeNames.Has(node.Name):
			message := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", narrowers.UnsortedList())
			verdicts[node.Name] = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message).
				WithPlugin(names.NodeAffinity)
		default:
			verdicts[node.Name] = with.RunFilterPlugins(ctx, state, pod, info)
			if verdicts[node.Name].IsSuccess() {
				feasible = append(feasible, info)
			}
		}
	}
	return verdicts, feasible, state
}

// score adds the scores of the feasible nodes to their answers. It scores a single node as well,
// although a scheduling cycle would take it at once.
func (j *judge) score(
	ctx context.Context, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo,
	answers map[string]*nodeAnswer,
) error {
	if len(feasible) == 0 {
		return nil
	}
	if status := j.all.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return fmt.Errorf("scoring: %w", status.AsError())
	}
	scored, status := j.all.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return fmt.Errorf("scoring: %w", status.AsError())
	}
	for _, node := range scored {
		answer := answers[node.Name]
		answer.Total = node.TotalScore
		answer.Scores = map[string]int64{}
		for _, plugin := range node.Scores {
			answer.Scores[plugin.Name] = plugin.Score / j.weights[plugin.Name]
		}
	}
	return nil
}

func asVerdict(status *fwk.Status) verdict {
	return verdict{Code: status.Code().String(), Reason: status.Message()}
}
