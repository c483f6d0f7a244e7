// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/propagation/override"
)

// uncountedMax is how many bytes more etcd may have of a work than it counts for.
const uncountedMax = 4 << 10

// TestWorksCountAsEtcdStoresThem has a tenant choose what the hub writes into works besides the object: lists
// of the keys that it has, and records of overrides, in characters that JSON writes in up to six bytes each.
func TestWorksCountAsEtcdStoresThem(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := []string{"a", `"`, `\`, "<", "\u2028", "\x01", "é"}
	for range 200 {
		text := strings.Repeat(texts[random.IntN(len(texts))], 1+random.IntN(30_000))
		annotations, labels := map[string]string{}, map[string]string{}
		for n := range random.IntN(400) {
			key := fmt.Sprintf("%s.%d/%s", strings.Repeat("k", random.IntN(249)), n, strings.Repeat("l", 63))
			annotations[key], labels[key] = "", ""
		}
		s := source(t, 1, annotations)
		s.Object.SetLabels(labels)
		s.Binding.SetNamespace("shop")
		s.Binding.SetName("web-deployment")
		record := policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "record"}}
		record.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
			AnnotationsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpRemove, Value: map[string]string{"absent": text}}},
		}}}
		var err error
		if s.Overrides, err = override.SelectPolicies(s.Object, nil, []policyv1alpha1.OverridePolicy{record}); err != nil {
			t.Fatal(err)
		}
		works, problems, err := RenderWorks(s)
		if err != nil || works["a"] == nil {
			t.Fatalf("rendering: %v, %v", problems, err)
		}
		stored, err := json.Marshal(works["a"])
		if err != nil {
			t.Fatal(err)
		}
		if counts := allowance.WorkBytes(works["a"]); counts < int64(len(stored)-uncountedMax) {
			t.Fatalf("a work of %d bytes with %d keys and an override of %d times %q counts as %d", len(stored), len(labels), len(text), text[:1], counts)
		}
	}
}
