//go:build tools

// Package tools pins the program that is built from this module.
package tools

import _ "k8s.io/kubernetes/cmd/kube-scheduler"
