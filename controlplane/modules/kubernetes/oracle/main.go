// Command oracle answers what kube-scheduler's own plugins say of a pod in a given cluster.
//
// It reads one JSON request per line from standard input and writes one JSON answer per line to
// standard output, in order. Nothing is kept between requests. A request that cannot be judged is
// answered with {"error": "..."}; the process goes on.
//
// Request:
//
//	{"nodes": [v1.Node], "namespaces": [v1.Namespace], "pods": [v1.Pod], "pod": v1.Pod,
//	 "admit": [v1.Pod]}
//
// "pods" are the pods in the cluster: those without a node, on a node that is not listed, or that
// are finished (phase Succeeded or Failed) are left out, as the scheduler's informer and cache do.
// All pods first pass what the API server does to a new pod (see admission.go). "admit" holds
// further pods of which only that result is wanted.
//
// Answer:
//
//	{"nodes": {NAME: {"code": CODE, "plugin": PLUGIN, "reason": TEXT,
//	                  "plugins": {PLUGIN: {"code": CODE, "reason": TEXT}},
//	                  "scores": {PLUGIN: 0..100}, "total": WEIGHTED SUM}},
//	 "admitted": [v1.Pod], "invalid": [TEXT]}
//
// "code" is Success, Unschedulable, UnschedulableAndUnresolvable or Error, of the first plugin that
// rejects the node; "plugins" holds the verdict of each plugin run alone. "scores" (normalised) and
// "total" are there for feasible nodes. "invalid" lists what the API server's validation has
// against the pods of "admit".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	v1 "k8s.io/api/core/v1"
)

type request struct {
	Nodes      []*v1.Node      `json:"nodes"`
	Namespaces []*v1.Namespace `json:"namespaces"`
	Pods       []*v1.Pod       `json:"pods"`
	Pod        *v1.Pod         `json:"pod"`
	Admit      []*v1.Pod       `json:"admit"`
}

type answer struct {
	Nodes    map[string]*nodeAnswer `json:"nodes,omitempty"`
	Admitted []*v1.Pod              `json:"admitted,omitempty"`
	Invalid  []string               `json:"invalid,omitempty"`
	Error    string                 `json:"error,omitempty"`
}

type nodeAnswer struct {
	verdict
	Plugin  string             `json:"plugin,omitempty"`
	Plugins map[string]verdict `json:"plugins"`
	Scores  map[string]int64   `json:"scores,omitempty"`
	Total   int64              `json:"total"`
}

type verdict struct {
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	judge, err := newJudge(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	encoder := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(respond(ctx, judge, line)); err != nil {
				fmt.Fprintln(os.Stderr, "oracle: writing an answer:", err)
				os.Exit(1)
			}
			if err := out.Flush(); err != nil {
				return // the reader has gone
			}
		}
		if err != nil {
			return
		}
	}
}

func respond(ctx context.Context, judge *judge, line []byte) (result answer) {
	defer func() {
		// A case that makes a plugin panic is a finding, not the end of the run.
		if problem := recover(); problem != nil {
			result = answer{Error: fmt.Sprintf("panic: %v\n%s", problem, debug.Stack())}
		}
	}()
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	for _, pod := range asked.Admit {
		stored, problems, err := admit(ctx, pod, true)
		if err != nil {
			return answer{Error: err.Error()}
		}
		result.Admitted = append(result.Admitted, stored)
		result.Invalid = append(result.Invalid, problems...)
	}
	if asked.Pod == nil {
		return result
	}
	nodes, err := judge.judge(ctx, &asked)
	if err != nil {
		return answer{Error: err.Error()}
	}
	result.Nodes = nodes
	return result
}
