// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// many is 10,000 Deployments in 10 namespaces. Every hundredth is of the front, and
// every thousandth is claimed.
func many() *Templates {
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	watched := NewTemplates(TemplateOptions{Changed: func(Key) {}})
	watched.UseKinds("somebody", deployments)
	var objects []*metav1.PartialObjectMetadata
	for i := range 10_000 {
		labels := map[string]string{}
		if i/10%100 == 0 {
			labels["tier"] = "front"
		}
		if i/10%1000 == 0 {
			labels[policyv1alpha1.LabelPropagationPolicyID] = "an-id"
		}
		objects = append(objects, &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team%d", i%10), Name: fmt.Sprintf("web%d", i/10), Labels: labels},
		})
	}
	watched.kinds[deployments].Replace(objects, "1")
	return watched
}

// TestAPolicyIsComparedWithWhatItMaySelect counts with how many of 10,000 objects a
// policy is compared.
func TestAPolicyIsComparedWithWhatItMaySelect(t *testing.T) {
	watched := many()
	for name, test := range map[string]struct {
		namespace             string
		of                    policyv1alpha1.ResourceSelector
		wantAsked, wantChosen int
	}{
		"by name":                 {"team1", policyv1alpha1.ResourceSelector{Name: "web7"}, 1, 1},
		"by name, everywhere":     {"", policyv1alpha1.ResourceSelector{Name: "web7"}, 10, 10},
		"by name, in a namespace": {"", policyv1alpha1.ResourceSelector{Name: "web7", Namespace: "team2"}, 1, 1},
		"by a name that is not":   {"team1", policyv1alpha1.ResourceSelector{Name: "db"}, 0, 0},
		"by labels":               {"team1", policyv1alpha1.ResourceSelector{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}, 1000, 10},
		"by kind":                 {"team1", policyv1alpha1.ResourceSelector{}, 1000, 1000},
		"by kind, everywhere":     {"", policyv1alpha1.ResourceSelector{}, 10_000, 10_000},
		"where there are none":    {"", policyv1alpha1.ResourceSelector{Namespace: "elsewhere"}, 0, 0},
	} {
		test.of.APIVersion, test.of.Kind = "apps/v1", "Deployment"
		selectors, problems := selector.CompileSelectors(test.namespace, []policyv1alpha1.ResourceSelector{test.of, test.of}, nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		asked := 0
		chosen, unknown := watched.Find(selectors.SearchScopes(), func(object *metav1.PartialObjectMetadata) bool {
			asked++
			return selectors.PriorityOf(object) != selector.None
		})
		if asked != test.wantAsked || len(chosen) != test.wantChosen || len(unknown) > 0 {
			t.Errorf("%s: compared with %d and chosen %d (unknown: %v), want %d and %d", name, asked, len(chosen), unknown, test.wantAsked, test.wantChosen)
		}
	}
	if claimed := watched.ClaimedObjects(map[string]string{policyv1alpha1.LabelPropagationPolicyID: "an-id"}); len(claimed) != 10 {
		t.Errorf("%d objects are claimed, want 10", len(claimed))
	}
	if claimed := watched.ClaimedObjects(map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "an-id"}); len(claimed) != 0 {
		t.Errorf("another policy claims %v", claimed)
	}
}

// TestNobodyWaitsForSelectors reads an object while others are compared with the
// selectors of a policy.
func TestNobodyWaitsForSelectors(t *testing.T) {
	watched, read := many(), make(chan struct{})
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	watched.Find([]selector.SearchScope{{Kind: deployments, Namespace: "team1", Name: "web7"}}, func(*metav1.PartialObjectMetadata) bool {
		go func() {
			watched.Get(Key{Kind: deployments, Name: types.NamespacedName{Namespace: "team2", Name: "web7"}})
			close(read)
		}()
		select {
		case <-read:
		case <-time.After(time.Minute):
			t.Error("an object cannot be read before a policy has been compared with others")
		}
		return true
	})
}

// TestWhatIsNoLongerClaimedIsNotFound follows an object through its changes.
func TestWhatIsNoLongerClaimedIsNotFound(t *testing.T) {
	watched := many()
	deployments := watched.kinds[schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}]
	by := map[string]string{policyv1alpha1.LabelPropagationPolicyID: "an-id"}
	object := func(labels map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team0", Name: "web0", Labels: labels}}
	}
	deployments.Update(object(nil))
	if claimed := watched.ClaimedObjects(by); len(claimed) != 9 {
		t.Errorf("%d objects are claimed after one was let go, want 9", len(claimed))
	}
	deployments.Update(object(by))
	deployments.Delete(object(nil))
	if claimed := watched.ClaimedObjects(by); len(claimed) != 9 {
		t.Errorf("%d objects are claimed after one was deleted, want 9", len(claimed))
	}
}
