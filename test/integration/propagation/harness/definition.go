// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
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

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// CreateNewcomer creates a Deployment for one cluster, by a policy of its own.
func (w World) CreateNewcomer(name, cluster string) *appsv1.Deployment {
	w.Helper()
	d, p := Deployment(name, 1), Policy(name, OnClusters(cluster))
	p.Spec.ResourceSelectors[0].Name = name
	w.CreateAll(p, d)
	return d
}

// IsPlaced waits until a Deployment has a cluster, or it is said that there is none.
func (w World) IsPlaced(d *appsv1.Deployment, want metav1.ConditionStatus) {
	w.Helper()
	w.Eventually(fmt.Sprintf("the clusters of %s are chosen: %s", d.Name, want), func() error {
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

// HasClusters waits until a binding has exactly these clusters.
func (w World) HasClusters(binding string, want ...string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%s has the clusters %v", binding, want), func() error {
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

// RemakeBindings deletes bindings, and waits until they are made anew.
func (w World) RemakeBindings(bindings []workv1alpha2.ResourceBinding) {
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
	w.Eventually("the bindings are made anew", func() error {
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

// Undefine deletes a definition of the hub, as soon as what it defines is gone.
func (w World) Undefine(file string) {
	w.Helper()
	w.Remove(w.Definition(file))
}

// Define puts definitions of the hub back.
func (w World) Define(files ...string) {
	w.Helper()
	var paths []string
	for _, file := range files {
		paths = append(paths, pathOf(file))
	}
	if _, err := envtest.InstallCRDs(w.Config, envtest.CRDInstallOptions{Paths: paths, MaxTime: patience}); err != nil {
		w.Fatal(err)
	}
}

// Definition returns a definition of the hub as it is in its file.
func (w World) Definition(file string) *unstructured.Unstructured {
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

// Later is a clock that can be put forward.
type Later struct {
	clock.RealClock

	By atomic.Int64
}

// Now implements clock.PassiveClock.
func (l *Later) Now() time.Time { return l.RealClock.Now().Add(time.Duration(l.By.Load())) }

// Since implements clock.PassiveClock.
func (l *Later) Since(then time.Time) time.Duration { return l.Now().Sub(then) }

// ElapseUntil has the time pass, five minutes at a time, until exactly this is sent: nobody
// tells when the controllers have looked for the first time.
func (w World) ElapseUntil(clk *Later, want Declared) {
	w.Helper()
	w.Eventually("what was sent goes with the time", func() error {
		clk.By.Add(int64(5 * time.Minute))
		return w.DiffersFrom(want)
	})
	w.BecomesDeclared(want, nil)
}

// DefineWidgets defines the kind, and returns the file that does.
func (w World) DefineWidgets() (file string) {
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
	w.Define(file)
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
