// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package twins

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

// bring brings the manifests of a step to the hub.
func (s *rowScene) bring(i int) {
	s.Helper()
	step := s.row.Steps[i]
	if s.by == byWork {
		s.write(s.workOf(step.manifests), false, false)
		return
	}
	s.write(s.ours.fill(strings.Join(step.manifests, documentsEnd)), step.recreated, i > 0 && s.row.replaces != "")
	if i > 0 {
		for _, manifest := range s.row.Steps[i-1].manifests {
			if !slices.ContainsFunc(step.manifests, func(other string) bool { return s.same(manifest, other) }) {
				if err := s.Hub.Client.Delete(s.Context(), s.object(s.ours, manifest)); err != nil {
					s.Fatal(err)
				}
			}
		}
		return
	}
	if s.row.taken != nil {
		s.row.taken(s)
	}
	s.write(s.policies(), false, false)
}

// write writes objects to the hub by the client of its users.
func (s *rowScene) write(text string, recreated, replaces bool) {
	s.Helper()
	installation.Eventually(s, "writing "+text, func() error {
		switch {
		case recreated:
			return s.user.recreate(s.Context(), text)
		case replaces:
			return s.user.replace(s.Context(), text)
		default:
			return s.user.bring(s.Context(), text)
		}
	})
}

// workOf is a ManifestWork with the manifests, and the fields of a spec.
func (s *rowScene) workOf(manifests []string, spec ...string) string {
	spec = append(spec, "workload: {manifests: [\n"+strings.Join(manifests, ",\n")+"]}")
	return s.ours.fill("{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {namespace: CLUSTER, name: NS}, spec: {" + strings.Join(spec, ", ") + "}}")
}

// policies are those for all manifests of the row: one for namespaced objects, one for others.
func (s *rowScene) policies() string {
	s.Helper()
	selectors := map[string][]string{}
	for _, step := range s.row.Steps {
		for _, manifest := range step.manifests {
			object := s.object(s.ours, manifest)
			kind := "PropagationPolicy"
			if object.GetNamespace() == "" {
				kind = "ClusterPropagationPolicy"
			}
			selector := fmt.Sprintf("{apiVersion: %s, kind: %s, name: %q}", object.GetAPIVersion(), object.GetKind(), object.GetName())
			if !slices.Contains(selectors[kind], selector) {
				selectors[kind] = append(selectors[kind], selector)
			}
		}
	}
	var policies []string
	for kind, selectors := range selectors {
		policies = append(policies, s.policy(kind, "NS", selectors))
	}
	return strings.Join(policies, documentsEnd)
}

// policy is a policy for what is selected.
func (s *rowScene) policy(kind, name string, selectors []string) string {
	namespace := "namespace: NS, "
	if kind == "ClusterPropagationPolicy" {
		namespace = ""
	}
	spec := s.row.policy
	if spec == "" {
		spec = "placement: {clusterAffinity: {clusterNames: [CLUSTER]}}"
	}
	return s.ours.fill(fmt.Sprintf("{apiVersion: policy.karmada.io/v1alpha1, kind: %s, metadata: {%sname: %s}, spec: {resourceSelectors: [%s], %s}}",
		kind, namespace, name, strings.Join(selectors, ", "), spec))
}

// says waits until the condition Applied of a manifest, for what its work is now, begins with the
// first part or has it, and has the others in its message.
func (s *rowScene) says(manifest string, parts ...string) {
	s.Helper()
	installation.Eventually(s, fmt.Sprintf("the hub says %q of %s", parts, manifest), func() error {
		if text := s.told(manifest); promises.Lacking(text, parts) != "" {
			return errors.New(text)
		}
		return nil
	})
}

// works returns the works of the cluster.
func (s *rowScene) works() ([]workv1.ManifestWork, error) {
	works := &workv1.ManifestWorkList{}
	err := s.Hub.Client.List(s.Context(), works, client.InNamespace(s.ClusterName()))
	return works.Items, err
}

// told returns what the hub says of the object of a manifest.
func (s *rowScene) told(manifest string) string {
	s.Helper()
	works, err := s.works()
	if err != nil {
		return err.Error()
	}
	return s.saidIn(works, manifest)
}

// saidIn returns the condition Applied of the object of a manifest in the works that have it and
// have been applied in their present generation.
func (s *rowScene) saidIn(works []workv1.ManifestWork, manifest string) string {
	s.Helper()
	object := s.object(s.ours, manifest)
	var texts []string
	for i := range works {
		applied := meta.FindStatusCondition(works[i].Status.Conditions, workv1.ManifestWorkConditionApplied)
		if applied == nil || applied.ObservedGeneration != works[i].Generation {
			continue
		}
		for _, m := range works[i].Status.ResourceStatus.Manifests {
			of := m.ResourceMeta
			if of.Kind != object.GetKind() || of.Name != object.GetName() || of.Namespace != object.GetNamespace() {
				continue
			}
			if c := meta.FindStatusCondition(m.Conditions, workv1.ManifestConditionApplied); c != nil {
				texts = append(texts, string(c.Status)+" "+c.Reason+": "+c.Message)
			}
		}
	}
	return strings.Join(texts, "\n")
}
