// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func strategies() []testCase {
	return []testCase{
		{name: "Update adopts an object and does not touch fields of others", run: update},
		{name: "CreateOnly creates an object and never changes it", run: createOnly},
		{name: "ReadOnly writes nothing and only reports", run: readOnly},
		{name: "ServerSideApply reports conflicts, and wins with force", run: serverSideApply},
		{name: "ignoreFields OnSpokePresent are applied once", run: ignoreOnPresent},
		{name: "ignoreFields OnSpokeChange are applied when the work changes", run: ignoreOnChange},
		{name: "the first of several manifestConfigs applies", run: firstConfig},
	}
}

// withStrategy is a spec with one ConfigMap "a" and its update strategy.
func withStrategy(strategy, value string) string {
	return fmt.Sprintf("manifestConfigs:\n- {resourceIdentifier: {resource: configmaps, namespace: NS, name: a}, updateStrategy: %s}\n%s",
		strategy, manifestsOf(configMap("a", value)))
}

func update(s *scene) {
	s.namespace()
	s.admin("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: theirs, other: theirs}}")
	s.deliver("a", withStrategy("{type: Update}", "ours"))
	if found := s.has("a", "ours"); found.Data["other"] != "theirs" {
		s.Errorf("the field of somebody else has gone: %v", found.Data)
	}
	s.applied("a")
}

func createOnly(s *scene) {
	s.namespace()
	s.deliver("a", withStrategy("{type: CreateOnly}", "one"))
	s.applied("a")
	s.edit("a", `{"data":{"key":"theirs"}}`)
	s.deliver("a", withStrategy("{type: CreateOnly}", "two"))
	s.applied("a")
	s.stays("a", "theirs")
	s.remove("a")
	s.hasNot("a")
}

// stays fails the test unless the agent, which has the next work carried out
// after it looked at this object, leaves the object as it is.
func (s *scene) stays(name, value string) {
	s.Helper()
	s.deliver("after", manifestsOf(configMap("after", name+value)))
	s.applied("after")
	found := &corev1.ConfigMap{}
	if err := s.member.client.Get(s.Context(), client.ObjectKey{Namespace: s.id, Name: name}, found); err != nil {
		s.Fatal(err)
	}
	if found.Data["key"] != value {
		s.Errorf("ConfigMap %s has %q, want %q", name, found.Data["key"], value)
	}
}

func readOnly(s *scene) {
	s.namespace()
	s.admin("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: theirs}}")
	s.deliver("a", `
manifestConfigs:
- resourceIdentifier: {resource: configmaps, namespace: NS, name: a}
  updateStrategy: {type: ReadOnly}
  feedbackScrapeType: Watch
  feedbackRules: [{type: JSONPaths, jsonPaths: [{name: key, path: .data.key}]}]
`+manifestsOf(configMap("a", "ours")))
	s.applied("a")
	s.reports("a", "key", "theirs")
	s.edit("a", `{"data":{"key":"changed"}}`)
	s.reports("a", "key", "changed")
	if found := s.has("a", "changed"); len(found.OwnerReferences) > 0 || found.Labels[workv1.LabelManaged] != "" {
		s.Errorf("the object has marks of a work: %s", encode(found.ObjectMeta))
	}
	s.remove("a")
	s.has("a", "changed")
}

func serverSideApply(s *scene) {
	s.namespace()
	s.admin("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: theirs}}")
	s.deliver("a", withStrategy("{type: ServerSideApply}", "ours"))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed", fieldOwner, ".data.key")
	s.has("a", "theirs")
	s.deliver("a", withStrategy("{type: ServerSideApply, serverSideApply: {force: true, fieldManager: work-agent-conformance}}", "ours"))
	found := s.has("a", "ours")
	s.applied("a")
	managers := ""
	for _, m := range found.ManagedFields {
		managers += m.Manager + " "
	}
	s.contains(managers, "work-agent-conformance")
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
func (s *scene) other(value string) {
	s.Helper()
	eventually(s, "the field that is not ignored is "+value, func() error {
		found := &corev1.ConfigMap{}
		err := s.member.client.Get(s.Context(), client.ObjectKey{Namespace: s.id, Name: "a"}, found)
		if err == nil && found.Data["other"] != value {
			return fmt.Errorf("it is %q", found.Data["other"])
		}
		return err
	})
}

func ignoreOnPresent(s *scene) {
	s.namespace()
	s.deliver("a", ignoring("OnSpokePresent", "one", "one"))
	s.applied("a")
	s.has("a", "one")
	s.edit("a", `{"data":{"key":"theirs","other":"theirs"}}`)
	s.other("one")
	s.has("a", "theirs")
	s.deliver("a", ignoring("OnSpokePresent", "two", "two"))
	s.applied("a")
	s.other("two")
	s.has("a", "theirs")
}

func ignoreOnChange(s *scene) {
	s.namespace()
	s.deliver("a", ignoring("OnSpokeChange", "one", "one"))
	s.applied("a")
	s.edit("a", `{"data":{"key":"theirs","other":"theirs"}}`)
	s.other("one")
	s.has("a", "theirs")
	s.deliver("a", ignoring("OnSpokeChange", "one", "two"))
	s.applied("a")
	s.other("two")
	s.has("a", "one")
}

func firstConfig(s *scene) {
	s.namespace()
	spec := func(value string) string {
		return `
manifestConfigs:
- {resourceIdentifier: {resource: configmaps, namespace: NS, name: "keep-*"}, updateStrategy: {type: CreateOnly}}
- {resourceIdentifier: {resource: configmaps, namespace: "*", name: "*"}, updateStrategy: {type: Update}}
` + manifestsOf(configMap("keep-a", value), configMap("b", value))
	}
	s.deliver("a", spec("one"))
	s.applied("a")
	s.deliver("a", spec("two"))
	s.has("b", "two")
	s.applied("a")
	s.stays("keep-a", "one")
}
