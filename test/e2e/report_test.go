// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

// reported is a Deployment that a ServiceAccount of the member brings there,
// with everything that can be asked of its state.
const reported = `
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: reported, namespace: %[1]s}
spec:
  executor: {subject: {type: ServiceAccount, serviceAccount: {namespace: reported, name: deployer}}}
  manifestConfigs:
  - resourceIdentifier: {group: apps, resource: deployments, namespace: reported, name: "*"}
    updateStrategy:
      type: ServerSideApply
      serverSideApply: {ignoreFields: [{condition: OnSpokePresent, jsonPointers: [/spec/replicas]}]}
    feedbackRules:
    - type: WellKnownStatus
    - type: JSONPaths
      jsonPaths: [{name: image, path: ".spec.template.spec.containers[0].image"}]
    conditionRules:
    - condition: Serving
      type: CEL
      celExpressions: ["object.?status.?readyReplicas.orValue(0) == object.spec.replicas"]
      messageExpression: "result ? 'all pods serve' : 'some pods do not serve yet'"
  workload:
    manifests:
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: hello, namespace: reported}
      spec:
        replicas: 1
        selector: {matchLabels: {app: hello}}
        template:
          metadata: {labels: {app: hello}}
          spec: {containers: [{name: hello, image: "lab/hello:1"}]}
`

// deployer may do with Deployments of its namespace what an executor needs.
const deployer = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer, namespace: reported}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: deployer, namespace: reported},
 rules: [{apiGroups: [apps], resources: [deployments], verbs: [get, create, update, patch, delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: deployer, namespace: reported},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deployer},
 subjects: [{kind: ServiceAccount, name: deployer, namespace: reported}]}
`

// reports shows that the hub is told what pods do, that a field which others
// own stays theirs, and that an executor limits what a work can do.
func (s *story) reports(t *testing.T) {
	work := []string{"-n", s.clusterName, "manifestwork/reported"}
	s.member.RunKubectl(t, "create", "namespace", "reported")
	s.hub.ApplyText(t, fmt.Sprintf(reported, s.clusterName))
	s.hub.AwaitCondition(t, "Applied", "False AppliedManifestWorkFailed", work...)
	message := s.hub.ReadPath(t, `{.status.resourceStatus.manifests[0].conditions[?(@.type=="Applied")].message}`, work...)
	for _, part := range []string{"system:serviceaccount:reported:deployer", "deployments"} {
		if !strings.Contains(message, part) {
			t.Errorf("the condition of what the executor may not do lacks %q: %s", part, message)
		}
	}
	s.member.ApplyText(t, deployer)
	s.hub.AwaitCondition(t, "Applied", "True AppliedManifestWorkComplete", work...)
	s.hub.AwaitCondition(t, "StatusFeedbackSynced", "True StatusFeedbackSynced", work...)
	s.hub.AwaitCondition(t, "Serving", "True ConditionRulesAggregated", work...)
	s.feedbackIs(t, "ReadyReplicas", "1")
	s.feedbackIs(t, "image", "lab/hello:1")

	s.member.RunKubectl(t, "-n", "reported", "scale", "deployment/hello", "--replicas=2")
	s.feedbackIs(t, "ReadyReplicas", "2")
	s.hub.RunKubectl(t, append([]string{"delete", "--timeout", harness.Patience.String()}, work...)...)
	s.member.AwaitGone(t, "deployment", "hello", "-n", "reported")
	s.member.RunKubectl(t, "delete", "namespace", "reported", "--timeout", harness.Patience.String())
}

// feedbackIs waits until the hub has the value.
func (s *story) feedbackIs(t *testing.T, name, want string) {
	t.Helper()
	path := fmt.Sprintf(`jsonpath={.status.resourceStatus.manifests[0].statusFeedback.values[?(@.name==%q)].fieldValue['integer','string']}`, name)
	harness.Eventually(t, func() error {
		out, err := s.hub.TryKubectl(t.Context(), "", "-n", s.clusterName, "get", "manifestwork", "reported", "-o", path)
		if err == nil && strings.TrimSpace(out) != want {
			err = fmt.Errorf("the hub has %q for %s, want %q", out, name, want)
		}
		return err
	})
}
