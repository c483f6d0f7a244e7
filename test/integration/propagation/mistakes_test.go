// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
)

// TestWhatAMistakeTakesFromTheHubStaysInTheClusters loses much of the hub at once:
// all clusters, all bindings, the definition of bindings, and that of policies.
func TestWhatAMistakeTakesFromTheHubStaysInTheClusters(t *testing.T) {
	w := newWorldOfMembers(t, 2)
	clk := &later{}
	w.options.Clock = clk
	w.start()
	s := w.open("api")
	want := s.on("member1", "member2")
	w.become(want, nil)
	before := w.remember()

	clusters := &clusterv1.ManagedClusterList{}
	if err := w.List(t.Context(), clusters); err != nil {
		t.Fatal(err)
	}
	for i := range clusters.Items {
		w.remove(&clusters.Items[i])
	}
	last := w.newcomer("last", clusters.Items[len(clusters.Items)-1].Name)
	w.placed(last, metav1.ConditionFalse) // the last of the clusters is known to be gone
	w.stay(before)
	for i := range clusters.Items {
		clusters.Items[i].ResourceVersion = ""
		w.create(&clusters.Items[i])
	}
	w.placed(last, metav1.ConditionTrue)
	w.chosen("web-deployment", "member1", "member2") // as is decided long before the clusters are settled
	clk.by.Add(int64(fleet.Settling))                // what a cluster has that came is not touched until then
	w.stay(before)
	w.remove(last)
	w.become(want, before)

	bindings := &workv1alpha2.ResourceBindingList{}
	if err := w.List(t.Context(), bindings); err != nil {
		t.Fatal(err)
	}
	for _, deleted := range append(each(bindings.Items), bindings.Items) { // one alone, and all at once
		w.remade(deleted)
		w.stay(before)
		w.become(want, before)
	}

	// One that nobody claims goes with its definition only.
	w.remove(s.policy)
	w.stay(before)
	w.undefine("work.karmada.io_resourcebindings.yaml")
	w.undefine("policy.karmada.io_propagationpolicies.yaml")
	w.stay(before)
	w.stop()
	w.define("policy.karmada.io_propagationpolicies.yaml", "work.karmada.io_resourcebindings.yaml")
	w.start()
	again := policy("shop", s.policy.Spec.Placement)
	again.Spec.PropagateDeps = true
	w.create(again)
	w.become(want, before)
	w.stay(before)
}

// newcomer creates a Deployment for one cluster, by a policy of its own.
func (w world) newcomer(name, cluster string) *appsv1.Deployment {
	w.Helper()
	d, p := deployment(name, 1), policy(name, onClusters(cluster))
	p.Spec.ResourceSelectors[0].Name = name
	w.create(p, d)
	return d
}

// placed waits until a Deployment has a cluster, or it is said that there is none.
func (w world) placed(d *appsv1.Deployment, want metav1.ConditionStatus) {
	w.Helper()
	w.eventually(fmt.Sprintf("the clusters of %s are chosen: %s", d.Name, want), func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: d.Namespace, Name: d.Name + "-deployment"}, b); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionScheduled)
		if c == nil || c.Status != want {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// chosen waits until a binding has exactly these clusters.
func (w world) chosen(binding string, want ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s has the clusters %v", binding, want), func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: binding}, b); err != nil {
			return err
		}
		var got []string
		for _, target := range b.Spec.Clusters {
			got = append(got, target.Name)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

// each returns slices of one binding.
func each(bindings []workv1alpha2.ResourceBinding) [][]workv1alpha2.ResourceBinding {
	return slices.Collect(slices.Chunk(bindings, 1))
}

// remade deletes bindings, and waits until they are made anew.
func (w world) remade(bindings []workv1alpha2.ResourceBinding) {
	w.Helper()
	deleted := map[string]types.UID{}
	for i := range bindings {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(&bindings[i]), b); err != nil {
			w.Fatal(err)
		}
		if err := w.Delete(w.Context(), b); err != nil {
			w.Fatal(err)
		}
		deleted[b.Name] = b.UID
	}
	w.eventually("the bindings are made anew", func() error {
		for name, uid := range deleted {
			b := &workv1alpha2.ResourceBinding{}
			err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, b)
			if err != nil || b.UID == uid {
				return fmt.Errorf("%s is not: %w", name, err)
			}
		}
		return nil
	})
}

// undefine deletes a definition of the hub, as soon as what it defines is gone.
func (w world) undefine(file string) {
	w.Helper()
	w.remove(w.definition(file))
}

// define puts definitions of the hub back.
func (w world) define(files ...string) {
	w.Helper()
	var paths []string
	for _, file := range files {
		paths = append(paths, pathOf(file))
	}
	if _, err := envtest.InstallCRDs(w.config, envtest.CRDInstallOptions{Paths: paths, MaxTime: patience}); err != nil {
		w.Fatal(err)
	}
}

func (w world) definition(file string) *unstructured.Unstructured {
	w.Helper()
	text, err := os.ReadFile(pathOf(file))
	if err != nil {
		w.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		w.Fatalf("reading %s: %v", file, err)
	}
	return object
}

// later is a clock that can be put forward.
type later struct {
	clock.RealClock

	by atomic.Int64
}

// Now implements clock.PassiveClock.
func (l *later) Now() time.Time { return l.RealClock.Now().Add(time.Duration(l.by.Load())) }

// Since implements clock.PassiveClock.
func (l *later) Since(then time.Time) time.Duration { return l.Now().Sub(then) }

// TestADefinitionThatGoes deletes the definition of objects that were sent, while
// no controller runs. What was sent stays for as long as it may come back.
func TestADefinitionThatGoes(t *testing.T) {
	w := newWorld(t, 1)
	w.stop()
	clk := &later{}
	w.options.Clock = clk
	file := w.widgets()
	w.start()
	one := widget("one")
	p := policy("widgets", policyv1alpha1.Placement{})
	p.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: one.GetAPIVersion(), Kind: one.GetKind()}
	w.create(one, p)
	want := declared{"Widget/one": {"member1"}}
	w.become(want, nil)
	before := w.remember()

	w.stop()
	w.remove(w.definition(file))
	w.start()
	w.stay(before)
	w.elapse(clk, declared{})

	w.stop()
	w.define(file)
	w.start()
	w.create(widget("one"))
	w.become(want, nil)

	// The same while the controllers run: they see the objects go.
	w.remove(w.definition(file))
	w.elapse(clk, declared{})
}

// elapse has the time pass, five minutes at a time, until exactly this is sent: nobody
// tells when the controllers have looked for the first time.
func (w world) elapse(clk *later, want declared) {
	w.Helper()
	w.eventually("what was sent goes with the time", func() error {
		clk.by.Add(int64(5 * time.Minute))
		return w.exact(want)
	})
	w.become(want, nil)
}

// TestAnObjectThatWasMadeAnew deletes an object and makes another one of the name,
// while no controller runs: what was sent of the first one goes, as it is
// another.
func TestAnObjectThatWasMadeAnew(t *testing.T) {
	w := newWorldOfMembers(t, 2)
	w.start()
	s := w.open("api")
	w.become(s.on("member1", "member2"), nil)
	before := w.remember()
	w.stop()
	page := s.page.DeepCopy()
	w.remove(s.web)
	w.remove(s.page)
	page.ResourceVersion, page.UID = "", ""
	web := deployment("web", 1)
	web.Spec.Template = s.web.Spec.Template
	w.create(page, web)
	w.start()
	w.become(s.on("member1", "member2"), before)
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

// widgets defines the kind, and returns the file that does.
func (w world) widgets() (file string) {
	w.Helper()
	file = filepath.Join(w.TempDir(), "widgets.yaml")
	definition := []byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.io}
spec:
  group: example.io
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
	if err := os.WriteFile(file, definition, 0o600); err != nil {
		w.Fatal(err)
	}
	w.define(file)
	w.Cleanup(func() { _ = os.Remove(file) })
	return file
}

// pathOf returns where a definition is: one of the hub, or another one.
func pathOf(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(definitions, file)
}
