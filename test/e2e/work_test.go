// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// workload is a namespace, and in it two pods and a ConfigMap.
const workload = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: hello, namespace: %[1]s}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: greeting, namespace: hello}, data: {text: %[2]q}}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: hello, namespace: hello}
      spec:
        replicas: 2
        selector: {matchLabels: {app: hello}}
        template:
          metadata: {labels: {app: hello}}
          spec: {containers: [{name: hello, image: "lab/hello:1"}]}
    - {apiVersion: v1, kind: Namespace, metadata: {name: hello}}
`

func (s *story) deliver(t *testing.T) {
	s.hub.ApplyText(t, fmt.Sprintf(workload, s.clusterName, "first"))
	work := []string{"-n", s.clusterName, "manifestwork/hello"}
	s.hub.AwaitCondition(t, "Applied", "True AppliedManifestWorkComplete", work...)
	s.hub.AwaitCondition(t, "Available", "True ResourcesAvailable", work...)
	s.member.RunKubectl(t, "-n", "hello", "rollout", "status", "deployment/hello", "--timeout", harness.Patience.String())
	if ordinals := s.hub.ReadPath(t, "{.status.resourceStatus.manifests[*].resourceMeta.resource}", work...); ordinals != "configmaps deployments namespaces" {
		t.Errorf("the statuses of the manifests are for %q, want them in the order of the spec", ordinals)
	}
}

func (s *story) mendDrift(t *testing.T) {
	s.member.RunKubectl(t, "-n", "hello", "patch", "configmap", "greeting", "--type=merge", "-p", `{"data":{"text":"changed"}}`)
	s.memberHas(t, "greeting", "first")
	s.member.RunKubectl(t, "-n", "hello", "delete", "configmap", "greeting")
	s.memberHas(t, "greeting", "first")
	s.member.RunKubectl(t, "-n", "hello", "scale", "deployment/hello", "--replicas=5")
	harness.Eventually(t, func() error {
		if replicas := s.member.ReadPath(t, "{.spec.replicas}", "-n", "hello", "deployment/hello"); replicas != "2" {
			return fmt.Errorf("the Deployment has %s replicas, want 2", replicas)
		}
		return nil
	})
	s.hub.ApplyText(t, fmt.Sprintf(workload, s.clusterName, "second"))
	s.memberHas(t, "greeting", "second")
}

// memberHas waits until the ConfigMap of namespace hello has the text.
func (s *story) memberHas(t *testing.T, name, text string) {
	t.Helper()
	harness.Eventually(t, func() error {
		out, err := s.member.TryKubectl(t.Context(), "", "-n", "hello", "get", "configmap", name, "-o", "jsonpath={.data.text}")
		if err == nil && out != text {
			err = fmt.Errorf("ConfigMap %s has text %q, want %q", name, out, text)
		}
		return err
	})
}

func (s *story) badWorks(t *testing.T) {
	work := func(name, manifest string) string {
		return fmt.Sprintf("apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata: {name: %s, namespace: %s}\nspec: {workload: {manifests: [%s]}}\n",
			name, s.clusterName, manifest)
	}
	s.hub.IsRefused(t, work("empty", ""), []string{"manifests"}, "apply", "-f", "-")
	s.hub.IsRefused(t, work("no-kind", `{apiVersion: v1, metadata: {name: a}}`), []string{"kind"}, "create", "-f", "-")
	big := fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: big, namespace: default}, data: {a: %s}}`, strings.Repeat("x", 512001))
	s.hub.IsRefused(t, work("big", big), []string{"512000"}, "create", "-f", "-")

	// What the agent may not do is told with what is missing, and mending it
	// mends the work.
	s.hub.ApplyText(t, work("forbidden", `{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: e2e.example.org}, spec: {attachRequired: false}}`))
	object := []string{"-n", s.clusterName, "manifestwork/forbidden"}
	s.hub.AwaitCondition(t, "Applied", "False AppliedManifestWorkFailed", object...)
	message := s.hub.ReadPath(t, `{.status.resourceStatus.manifests[0].conditions[?(@.type=="Applied")].message}`, object...)
	for _, part := range []string{"csidrivers", "open-cluster-management.io/aggregate-to-work"} {
		if !strings.Contains(message, part) {
			t.Errorf("the condition of the forbidden manifest lacks %q: %s", part, message)
		}
	}
	s.member.ApplyText(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: e2e-csidrivers, labels: {open-cluster-management.io/aggregate-to-work: "true"}},
  rules: [{apiGroups: [storage.k8s.io], resources: [csidrivers], verbs: [get, list, watch, create, update, patch, delete]}]}`)
	s.hub.AwaitCondition(t, "Applied", "True AppliedManifestWorkComplete", object...)
	s.hub.RunKubectl(t, append([]string{"delete", "--timeout", harness.Patience.String()}, object...)...)
	s.member.AwaitGone(t, "csidriver", "e2e.example.org")
	s.member.RunKubectl(t, "delete", "clusterrole", "e2e-csidrivers")
}

// noWorkIsLeft fails the test if the member has something that a work put there.
func (s *story) noWorkIsLeft(t *testing.T) {
	t.Helper()
	s.member.AwaitGone(t, "namespace", "hello")
	s.member.AwaitGone(t, "appliedmanifestworks", "--all-namespaces")
}

// workIs returns an error unless the work is applied at its generation.
func (s *story) workIs(t *testing.T, name string) error {
	t.Helper()
	out, err := s.hub.TryKubectl(t.Context(), "", "-n", s.clusterName, "get", "manifestwork", name, "-o",
		`jsonpath={.metadata.generation} {.status.conditions[?(@.type=="Applied")].observedGeneration} {.status.conditions[?(@.type=="Applied")].status}`)
	if err != nil {
		return err
	}
	fields := strings.Fields(out)
	if len(fields) != 3 || fields[0] != fields[1] || fields[2] != "True" {
		return errors.New("work " + name + " is not applied at its generation: " + out)
	}
	return nil
}
