// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"encoding/json"
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

// rendered returns the only work of a binding.
func rendered(t *testing.T, spec string) *workv1.ManifestWork {
	t.Helper()
	b, object := &workv1alpha2.ResourceBinding{}, &unstructured.Unstructured{}
	b.Namespace, b.Name = "shop", "web-deployment"
	b.Labels = map[string]string{workv1alpha2.LabelResourceBindingID: "an-id"}
	for text, into := range map[string]any{spec: &b.Spec, template: &object.Object} {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	works, problems, err := RenderWorks(WorkSource{Binding: b, Object: object, Fleet: accepted("a", "b"), Chain: interpret.Chain{native.NewKubernetesKinds()}})
	if err != nil || len(problems) > 0 || len(works) != 1 {
		t.Fatal(works, problems, err)
	}
	for _, work := range works {
		return work
	}
	return nil
}

// TestWhoSuspendsAWorkLetsItGoOn has a binding that suspends a work, or somebody who
// suspends this one, and then the binding say something else.
func TestWhoSuspendsAWorkLetsItGoOn(t *testing.T) {
	const (
		silent    = "{clusters: [{name: a}]}"
		suspended = "{clusters: [{name: a}], suspension: {dispatching: true}}"
		taken     = "{clusters: [{name: a}], suspension: {dispatching: false}}"
		another   = "{clusters: [{name: a}], suspension: {dispatchingOnClusters: {clusterNames: [b]}}}"
	)
	for name, test := range map[string]struct{ before, user, after, want string }{
		"a field that is gone":            {suspended, "", silent, ""},
		"a field that says no":            {suspended, "", taken, "false"},
		"another cluster":                 {suspended, "", another, "false"},
		"suspended now":                   {silent, "", suspended, "true"},
		"somebody did, the binding never": {silent, "true", silent, "true"},
		"somebody did, and the binding":   {silent, "true", suspended, "true"},
		"somebody did not, the binding":   {suspended, "false", suspended, "true"},
	} {
		t.Run(name, func(t *testing.T) {
			is := rendered(t, test.before)
			if test.user != "" {
				is.Annotations[workv1.AnnotationSuspendDispatching] = test.user
			}
			kept, err := SlimWork(is.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			changes, err := CompareWorks(map[string]*workv1.ManifestWork{"a": rendered(t, test.after)}, []workv1.ManifestWork{*kept.(*workv1.ManifestWork)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, change := range changes.Changed {
				patch(t, is, change)
			}
			if got := is.Annotations[workv1.AnnotationSuspendDispatching]; got != test.want {
				t.Errorf("the work says %q, want %q", got, test.want)
			}
		})
	}
}

// patch changes the annotations of a work as the API server does.
func patch(t *testing.T, is *workv1.ManifestWork, change WorkChange) {
	t.Helper()
	text, err := change.MergePatch()
	if err != nil {
		t.Fatal(err)
	}
	body := struct {
		Metadata struct{ Annotations map[string]*string }
	}{}
	if err := json.Unmarshal(text, &body); err != nil {
		t.Fatal(err)
	}
	for key, value := range body.Metadata.Annotations {
		if value != nil {
			is.Annotations[key] = *value
		}
	}
	maps.DeleteFunc(is.Annotations, func(key, _ string) bool { value, is := body.Metadata.Annotations[key]; return is && value == nil })
}

// TestTheObjectOfAWorkIsItsFirst has a definition, which brings a role along.
func TestTheObjectOfAWorkIsItsFirst(t *testing.T) {
	b := &workv1alpha2.ClusterResourceBinding{}
	b.Name, b.Labels = "greetings.example.com-customresourcedefinition", map[string]string{workv1alpha2.LabelClusterResourceBindingID: "an-id"}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a"}}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "greetings.example.com", "uid": "u"},
		"spec": map[string]any{"group": "example.com", "names": map[string]any{"plural": "greetings"}},
	}}
	works, _, err := RenderWorks(WorkSource{Binding: b, Object: definition, Fleet: accepted("a"), Chain: interpret.Chain{native.NewKubernetesKinds()}})
	if err != nil || len(works["a"].Spec.Workload.Manifests) != 2 {
		t.Fatal(works, err)
	}
	if of, ok := TemplateOf(works["a"]); !ok || of.Kind != "CustomResourceDefinition" || of.Name != "greetings.example.com" || of.UID != "u" {
		t.Errorf("the work is of %+v, %t", of, ok)
	}
}

// TestAClusterThatIsDeletedGetsNoWork has a binding that cannot do without it.
func TestAClusterThatIsDeletedGetsNoWork(t *testing.T) {
	b, object := &workv1alpha2.ResourceBinding{}, &unstructured.Unstructured{}
	b.Namespace, b.Name = "shop", "web-deployment"
	b.Labels = map[string]string{workv1alpha2.LabelResourceBindingID: "an-id"}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a"}, {Name: "b"}}
	if err := yaml.UnmarshalStrict([]byte(template), &object.Object); err != nil {
		t.Fatal(err)
	}
	source := WorkSource{Binding: b, Object: object, Fleet: accepted("a", "b"), Chain: interpret.Chain{native.NewKubernetesKinds()}}
	before, _, err := RenderWorks(source)
	if err != nil || len(before) != 2 {
		t.Fatal(before, err)
	}
	source.Fleet = source.Fleet.WithClusters([]view.Cluster{{Name: "b", Accepted: true, Deleting: true}}, nil)
	wanted, problems, err := RenderWorks(source)
	if err != nil {
		t.Fatal(err)
	}
	for name, present := range map[string][]workv1.ManifestWork{"there": {*before["a"], *before["b"]}, "gone": {*before["a"]}} {
		for i := range present {
			slim, err := SlimWork(&present[i])
			if err != nil {
				t.Fatal(err)
			}
			present[i] = *slim.(*workv1.ManifestWork) //nolint:forcetypeassert // it is one
		}
		changes, err := CompareWorks(wanted, present, problems)
		if err != nil || !changes.IsEmpty() {
			t.Errorf("its work is %s: %+v, %v", name, changes, err)
		}
	}
}

// TestAMemberDoesNotSayWhatAWorkHas has a member write to its work the hash that stands in the
// cache for what a work has, so that it would count as right for ever.
func TestAMemberDoesNotSayWhatAWorkHas(t *testing.T) {
	work := func(data string) *workv1.ManifestWork {
		one := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: "web"}}
		one.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"data":"` + data + `"}`)}}}
		return one
	}
	wanted := work("of the hub")
	hash, err := hashOf(wanted)
	if err != nil {
		t.Fatal(err)
	}
	forged := work("of the member")
	forged.Annotations = map[string]string{annotationContent: hash}
	for range 2 { // caches may show an object again to their transform
		slim, err := SlimWork(forged)
		if err != nil {
			t.Fatal(err)
		}
		forged = slim.(*workv1.ManifestWork) //nolint:forcetypeassert // it is one
	}
	if has, err := WorkHasContent(forged, wanted); has || err != nil || len(forged.Spec.Workload.Manifests) > 0 {
		t.Errorf("it counts as right: %t (%v), with %d manifests", has, err, len(forged.Spec.Workload.Manifests))
	}
}
