// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/native"
)

// TestNothingIsSentToWhatIsNoCluster has a binding whose author wrote the names of
// namespaces into it.
func TestNothingIsSentToWhatIsNoCluster(t *testing.T) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(template), &object.Object); err != nil {
		t.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace, b.Name = "shop", "web-deployment"
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u"}
	for _, name := range []string{"accepted", "joined-before", "dialled", "kube-system", "asks"} {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name})
	}
	b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Namespace: "shop", Name: "db", Clusters: []workv1alpha2.TargetCluster{{Name: "victim"}}}}
	clusters := view.NewFleet(
		view.Cluster{Name: "accepted", Accepted: true}, view.Cluster{Name: "joined-before", Joined: true},
		view.Cluster{Name: "dialled", Mode: view.Push}, view.Cluster{Name: "asks", Mode: view.Pull},
	)
	works, problems, err := RenderWorks(WorkSource{Binding: b, Object: object, Chain: interpret.Chain{native.NewKubernetesKinds()}, Fleet: clusters})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"accepted": true, "joined-before": true, "dialled": true,
		"kube-system": false, "victim": false, "asks": false, // anybody with a bootstrap token may ask
	} {
		if sent := works[name] != nil; sent != want || errors.Is(problems[name], ErrNoCluster) == want {
			t.Errorf("%s: a work is made in the namespace: %t, want %t; the problem is %v", name, sent, want, problems[name])
		}
		work, problem, err := NamespaceWork(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, nil, clusters, name)
		if sent := work != nil; sent != want || errors.Is(problem, ErrNoCluster) == want || err != nil {
			t.Errorf("%s: the work of the binding's namespace is made there: %t, want %t; the problem is %v (%v)", name, sent, want, problem, err)
		}
	}
}

// TestTargetsAreBounded has a binding that names more clusters for those that refer to it than a
// hub has.
func TestTargetsAreBounded(t *testing.T) {
	spec := &workv1alpha2.ResourceBindingSpec{Replicas: 3, Clusters: []workv1alpha2.TargetCluster{{Name: "zz-chosen", Replicas: 1}}}
	for snapshot := range 4 {
		one := workv1alpha2.BindingSnapshot{Clusters: []workv1alpha2.TargetCluster{{Name: "zz-chosen"}}}
		for n := range targetsMax / 2 {
			one.Clusters = append(one.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprintf("c%d-%d", snapshot, n)})
		}
		spec.RequiredBy = append(spec.RequiredBy, one)
	}
	targets := BindingTargets(spec)
	if len(targets) != targetsMax+1 {
		t.Errorf("the object is sent to %d clusters, want the chosen one and %d", len(targets), targetsMax)
	}
	if last := targets[len(targets)-1]; last.Name != "zz-chosen" || last.Replicas != 1 {
		t.Errorf("the one that was chosen is not among them: %v", last)
	}
	if !slices.ContainsFunc(targets, func(c workv1alpha2.TargetCluster) bool { return c.Name == "c0-0" && c.Replicas == 3 }) {
		t.Error("the first of the others is not among them")
	}
	names := map[string]bool{}
	for name := range TargetNames(spec) {
		names[name] = true
	}
	if slices.ContainsFunc(targets, func(c workv1alpha2.TargetCluster) bool { return !names[c.Name] }) || len(names) != 2*targetsMax+1 {
		t.Errorf("of the %d clusters some are not among %d names", len(targets), len(names))
	}
}
