// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

func strategies() []TestCase {
	return []TestCase{
		{Name: "Update adopts an object and does not touch fields of others", Run: update},
		{Name: "CreateOnly creates an object and never changes it", Run: createOnly},
		{Name: "ReadOnly writes nothing and only reports", Run: readOnly},
		{Name: "ServerSideApply reports conflicts, and wins with force", Run: serverSideApply},
		{Name: "ignoreFields OnSpokePresent are applied once", Run: ignoreOnPresent},
		{Name: "ignoreFields OnSpokeChange are applied when the work changes", Run: ignoreOnChange},
		{Name: "the first of several manifestConfigs applies", Run: firstConfig},
	}
}

// withStrategy is a spec with one ConfigMap "a" and its update strategy.
func withStrategy(strategy, value string) string {
	return fmt.Sprintf("manifestConfigs:\n- {resourceIdentifier: {resource: configmaps, namespace: NS, name: a}, updateStrategy: %s}\n%s",
		strategy, manifestsOf(configMap("a", value)))
}

func update(s *Scene) {
	s.Namespace()
	s.admin("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: theirs, other: theirs}}")
	s.Deliver("a", withStrategy("{type: Update}", "ours"))
	if found := s.Has("a", "ours"); found.Data["other"] != "theirs" {
		s.Errorf("the field of somebody else has gone: %v", found.Data)
	}
	s.Applied("a")
}

func createOnly(s *Scene) {
	s.Namespace()
	s.Deliver("a", withStrategy("{type: CreateOnly}", "one"))
	s.Applied("a")
	s.edit("a", `{"data":{"key":"theirs"}}`)
	s.Deliver("a", withStrategy("{type: CreateOnly}", "two"))
	s.Applied("a")
	s.stays("a", "theirs")
	s.Remove("a")
	s.HasNot("a")
}

// stays fails the test unless the agent, which has the next work carried out
// after it looked at this object, leaves the object as it is.
func (s *Scene) stays(name, value string) {
	s.Helper()
	s.Deliver("after", manifestsOf(configMap("after", name+value)))
	s.Applied("after")
	found := &corev1.ConfigMap{}
	if err := s.Member.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: name}, found); err != nil {
		s.Fatal(err)
	}
	if found.Data["key"] != value {
		s.Errorf("ConfigMap %s has %q, want %q", name, found.Data["key"], value)
	}
}

func readOnly(s *Scene) {
	s.Namespace()
	s.admin("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: theirs}}")
	s.Deliver("a", `
manifestConfigs:
- resourceIdentifier: {resource: configmaps, namespace: NS, name: a}
  updateStrategy: {type: ReadOnly}
  feedbackScrapeType: Watch
  feedbackRules: [{type: JSONPaths, jsonPaths: [{name: key, path: .data.key}]}]
`+manifestsOf(configMap("a", "ours")))
	s.Applied("a")
	s.reports("a", "key", "theirs")
	s.edit("a", `{"data":{"key":"changed"}}`)
	s.reports("a", "key", "changed")
	if found := s.Has("a", "changed"); len(found.OwnerReferences) > 0 || found.Labels[workv1.LabelManaged] != "" {
		s.Errorf("the object has marks of a work: %s", installation.Encode(found.ObjectMeta))
	}
	s.Remove("a")
	s.Has("a", "changed")
}

func serverSideApply(s *Scene) {
	s.Namespace()
	s.admin("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: theirs}}")
	s.Deliver("a", withStrategy("{type: ServerSideApply}", "ours"))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", installation.FieldOwner, ".data.key")
	s.Has("a", "theirs")
	s.Deliver("a", withStrategy("{type: ServerSideApply, serverSideApply: {force: true, fieldManager: work-agent-conformance}}", "ours"))
	found := s.Has("a", "ours")
	s.Applied("a")
	managers := ""
	for _, m := range found.ManagedFields {
		managers += m.Manager + " "
	}
	s.Contains(managers, "work-agent-conformance")
}

func ignoring(condition, key, other string) string {
	return fmt.Sprintf(`
manifestConfigs:
- resourceIdentifier: {resource: configmaps, namespace: NS, name: a}
  updateStrategy:
    type: ServerSideApply
    serverSideApply: {force: true, ignoreFields: [{condition: %s, jsonPaths: [.data.key]}]}
workload:
  manifests:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: %q, other: %q}}
`, condition, key, other)
}

// other waits until the field beside the ignored one has the value.
func (s *Scene) other(value string) {
	s.Helper()
	installation.Eventually(s, "the field that is not ignored is "+value, func() error {
		found := &corev1.ConfigMap{}
		err := s.Member.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: "a"}, found)
		if err == nil && found.Data["other"] != value {
			return fmt.Errorf("it is %q", found.Data["other"])
		}
		return err
	})
}

func ignoreOnPresent(s *Scene) {
	s.Namespace()
	s.Deliver("a", ignoring("OnSpokePresent", "one", "one"))
	s.Applied("a")
	s.Has("a", "one")
	s.edit("a", `{"data":{"key":"theirs","other":"theirs"}}`)
	s.other("one")
	s.Has("a", "theirs")
	s.Deliver("a", ignoring("OnSpokePresent", "two", "two"))
	s.Applied("a")
	s.other("two")
	s.Has("a", "theirs")
}

func ignoreOnChange(s *Scene) {
	s.Namespace()
	s.Deliver("a", ignoring("OnSpokeChange", "one", "one"))
	s.Applied("a")
	s.edit("a", `{"data":{"key":"theirs","other":"theirs"}}`)
	s.other("one")
	s.Has("a", "theirs")
	s.Deliver("a", ignoring("OnSpokeChange", "one", "two"))
	s.Applied("a")
	s.other("two")
	s.Has("a", "one")
}

func firstConfig(s *Scene) {
	s.Namespace()
	spec := func(value string) string {
		return `
manifestConfigs:
- {resourceIdentifier: {resource: configmaps, namespace: NS, name: "keep-*"}, updateStrategy: {type: CreateOnly}}
- {resourceIdentifier: {resource: configmaps, namespace: "*", name: "*"}, updateStrategy: {type: Update}}
` + manifestsOf(configMap("keep-a", value), configMap("b", value))
	}
	s.Deliver("a", spec("one"))
	s.Applied("a")
	s.Deliver("a", spec("two"))
	s.Has("b", "two")
	s.Applied("a")
	s.stays("keep-a", "one")
}
