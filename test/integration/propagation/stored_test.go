// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestAWorkIsWrittenOnceWhateverAnOverrideAdds has an override add what API servers store in another
// form. The work is as it is wanted when it was created, and when it was changed: it is not written again.
func TestAWorkIsWrittenOnceWhateverAnOverrideAdds(t *testing.T) {
	writes := &atomic.Int64{}
	w := harness.NewWorld(t, servers, 1, func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet && strings.Contains(request.URL.Path, "/namespaces/member1/manifestworks") {
				writes.Add(1)
			}
			return next.RoundTrip(request)
		})
	})
	add := func(path, value string) policyv1alpha1.PlaintextOverrider {
		return policyv1alpha1.PlaintextOverrider{Path: path, Operator: policyv1alpha1.OverriderOpAdd, Value: policyv1alpha1.JSON{Raw: []byte(value)}}
	}
	override := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	override.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{
		add("/metadata/finalizers", "[]"), add("/metadata/ownerReferences", "[]"), add("/metadata/annotations", `{"none":null}`),
		add("/spec/none", `{"none":null}`), add("/spec/template/spec/containers/0/none", `{"none":null}`), add("/spec/list", `[null,{"none":null},-0.0]`),
	}}}}
	web := harness.Deployment("web", 1)
	w.CreateAll(override, harness.Policy("web", policyv1alpha1.Placement{}), web)
	w.RunsOn("web", map[string]int32{"member1": 1})
	count := func() string { return fmt.Sprint(writes.Load()) }
	w.BecomesQuiet(count)
	created := writes.Load()
	if created == 0 {
		t.Fatal("the test does not see what is written")
	}

	w.ChangeObject(web, func() { web.Spec.Template.Spec.Containers[0].Image = "nginx:1.28" })
	w.HasImages("web", "1 1.28 x1")
	w.BecomesQuiet(count)

	before := writes.Load()
	if before == created {
		t.Error("the test does not see what is changed")
	}
	w.ChangeObject(override, func() {
		plain := &override.Spec.OverrideRules[0].Overriders.Plaintext
		*plain = append(*plain, add("/metadata/x", `"y"`))
	})
	w.BindingSays("web-deployment", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, `unknown field "x"`)
	w.BecomesQuiet(count)
	if after := writes.Load(); after != before {
		t.Errorf("%d writes of what is a mistake", after-before)
	}
}
