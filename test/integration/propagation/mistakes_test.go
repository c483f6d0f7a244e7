// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestWhatAMistakeTakesFromTheHubStaysInTheClusters loses much of the hub at once:
// all clusters, all bindings, the definition of bindings, and that of policies.
func TestWhatAMistakeTakesFromTheHubStaysInTheClusters(t *testing.T) {
	w := harness.NewWorldOfMembers(t, servers, 2)
	clk := &harness.Later{}
	w.Options.Clock = clk
	w.StartControllers()
	s := w.OpenShop("api")
	want := s.DeclaredOn("member1", "member2")
	w.BecomesDeclared(want, nil)
	before := w.RememberSent()

	clusters := &clusterv1.ManagedClusterList{}
	if err := w.List(t.Context(), clusters); err != nil {
		t.Fatal(err)
	}
	for i := range clusters.Items {
		w.Remove(&clusters.Items[i])
	}
	last := w.CreateNewcomer("last", clusters.Items[len(clusters.Items)-1].Name)
	w.IsPlaced(last, metav1.ConditionFalse) // the last of the clusters is known to be gone
	w.StaysSent(before)
	for i := range clusters.Items {
		clusters.Items[i].ResourceVersion = ""
		w.CreateAll(&clusters.Items[i])
	}
	w.IsPlaced(last, metav1.ConditionTrue)
	w.HasClusters("web-deployment", "member1", "member2") // as is decided long before the clusters are settled
	clk.By.Add(int64(fleet.Settling))                     // what a cluster has that came is not touched until then
	w.StaysSent(before)
	w.Remove(last)
	w.BecomesDeclared(want, before)

	bindings := &workv1alpha2.ResourceBindingList{}
	if err := w.List(t.Context(), bindings); err != nil {
		t.Fatal(err)
	}
	for _, deleted := range append(each(bindings.Items), bindings.Items) { // one alone, and all at once
		w.RemakeBindings(deleted)
		w.StaysSent(before)
		w.BecomesDeclared(want, before)
	}

	// One that nobody claims goes with its definition only.
	w.Remove(s.Policy)
	w.StaysSent(before)
	w.Undefine("work.karmada.io_resourcebindings.yaml")
	w.Undefine("policy.karmada.io_propagationpolicies.yaml")
	w.StaysSent(before)
	w.StopControllers()
	w.Define("policy.karmada.io_propagationpolicies.yaml", "work.karmada.io_resourcebindings.yaml")
	w.StartControllers()
	again := harness.Policy("shop", s.Policy.Spec.Placement)
	again.Spec.PropagateDeps = true
	w.CreateAll(again)
	w.BecomesDeclared(want, before)
	w.StaysSent(before)
}

// each returns slices of one binding.
func each(bindings []workv1alpha2.ResourceBinding) [][]workv1alpha2.ResourceBinding {
	return slices.Collect(slices.Chunk(bindings, 1))
}

// TestADefinitionThatGoes deletes the definition of objects that were sent, while
// no controller runs. What was sent stays for as long as it may come back.
func TestADefinitionThatGoes(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	w.StopControllers()
	clk := &harness.Later{}
	w.Options.Clock = clk
	file := w.DefineWidgets()
	w.StartControllers()
	one := widget("one")
	p := harness.Policy("widgets", policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: one.GetAPIVersion(), Kind: one.GetKind()}
	w.CreateAll(one, p)
	want := harness.Declared{"Widget/one": {"member1"}}
	w.BecomesDeclared(want, nil)
	before := w.RememberSent()

	w.StopControllers()
	w.Remove(w.Definition(file))
	w.StartControllers()
	w.StaysSent(before)
	w.ElapseUntil(clk, harness.Declared{})

	w.StopControllers()
	w.Define(file)
	w.StartControllers()
	w.CreateAll(widget("one"))
	w.BecomesDeclared(want, nil)

	// The same while the controllers run: they see the objects go.
	w.Remove(w.Definition(file))
	w.ElapseUntil(clk, harness.Declared{})
}

// TestAnObjectThatWasMadeAnew deletes an object and makes another one of the name,
// while no controller runs: what was sent of the first one goes, as it is
// another.
func TestAnObjectThatWasMadeAnew(t *testing.T) {
	w := harness.NewWorldOfMembers(t, servers, 2)
	w.StartControllers()
	s := w.OpenShop("api")
	w.BecomesDeclared(s.DeclaredOn("member1", "member2"), nil)
	before := w.RememberSent()
	w.StopControllers()
	page := s.Page.DeepCopy()
	w.Remove(s.Web)
	w.Remove(s.Page)
	page.ResourceVersion, page.UID = "", ""
	web := harness.Deployment("web", 1)
	web.Spec.Template = s.Web.Spec.Template
	w.CreateAll(page, web)
	w.StartControllers()
	w.BecomesDeclared(s.DeclaredOn("member1", "member2"), before)
}

// widget returns an object of a kind that users have defined.
func widget(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("example.io/v1")
	object.SetKind("Widget")
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	return object
}
