// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// reader reads a hub on which Deployment shop/web is bound to paris and rome, by
// a binding of this name. The user may not do what the function forbids.
func reader(t *testing.T, binding string, forbids func(object runtime.Object, namespace string) bool) Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme), workv1.AddToScheme(scheme),
		policyv1alpha1.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme), configv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	of := map[string]string{workv1alpha2.LabelResourceBindingID: "id"}
	resource := workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	inner := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}},
		&policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}},
		&policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}},
		&workv1alpha2.ResourceBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: binding, Labels: of},
			Spec:       workv1alpha2.ResourceBindingSpec{Resource: resource, Clusters: []workv1alpha2.TargetCluster{{Name: "paris"}, {Name: "rome"}}},
		},
		&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "w", Labels: of}},
		&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "w", Labels: of}},
		&workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "rome", Name: "other"}},
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}},
	).Build()
	deny := func(object runtime.Object, namespace string) error {
		if forbids != nil && forbids(object, namespace) {
			return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("not you"))
		}
		return nil
	}
	return Reader{Now: time.Now, Client: interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return errors.Join(deny(object, key.Namespace), c.Get(ctx, key, object, options...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			given := client.ListOptions{}
			if err := deny(list, given.ApplyOptions(options).Namespace); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	})}
}

// read tells in short what was found.
func read(t *testing.T, r Reader) string {
	t.Helper()
	f, err := r.ReadObject(t.Context(), appsv1.SchemeGroupVersion.WithKind("Deployment"), "shop", "web")
	if err != nil {
		return "error: " + err.Error()
	}
	var parts []string
	if f.Binding != nil {
		parts = append(parts, f.Binding.Name)
	}
	for i := range f.Policies {
		parts = append(parts, f.Policies[i].Name)
	}
	for i := range f.ClusterPolicies {
		parts = append(parts, f.ClusterPolicies[i].Name)
	}
	for i := range f.Works {
		parts = append(parts, f.Works[i].Namespace+"/"+f.Works[i].Name)
	}
	for i := range f.Clusters {
		parts = append(parts, f.Clusters[i].Name)
	}
	for _, what := range f.Unread {
		parts = append(parts, "not "+what)
	}
	return strings.Join(parts, "; ")
}

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		binding string
		forbids func(runtime.Object, string) bool
		want    string
	}{
		"all":                     {"web-deployment", nil, "web-deployment; own; all; paris/w; rome/w; paris"},
		"the binding has another": {"web-deployment.apps", nil, "web-deployment.apps; own; all; paris/w; rome/w; paris"},
		"no policies of clusters": {
			"web-deployment", func(o runtime.Object, _ string) bool {
				_, is := o.(*policyv1alpha1.ClusterPropagationPolicyList)
				return is
			},
			"web-deployment; own; paris/w; rome/w; paris; not ClusterPropagationPolicies (they do not count here)",
		},
		"works of one namespace": {
			"web-deployment", func(o runtime.Object, namespace string) bool {
				_, is := o.(*workv1.ManifestWorkList)
				return is && namespace != "rome"
			},
			"web-deployment; own; all; rome/w; paris; not ManifestWorks of namespace paris (only what the binding reports about the cluster is shown here)",
		},
		"no clusters": {
			"web-deployment", func(o runtime.Object, _ string) bool { _, is := o.(*clusterv1.ManagedClusterList); return is },
			"web-deployment; own; all; paris/w; rome/w; not ManagedClusters (only clusters that were chosen are listed here)",
		},
		"no customizations": {
			"web-deployment", func(o runtime.Object, _ string) bool {
				_, is := o.(*configv1alpha1.ResourceInterpreterCustomizationList)
				return is
			},
			"web-deployment; own; all; paris/w; rome/w; paris; not ResourceInterpreterCustomizations (kinds are interpreted here as without them)",
		},
		"no bindings": {
			"web-deployment", func(o runtime.Object, _ string) bool { _, is := o.(*workv1alpha2.ResourceBinding); return is },
			"own; all; not bindings (only the policies are looked at here)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, read(t, reader(t, test.binding, test.forbids))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadByTheBinding(t *testing.T) {
	r := reader(t, "web-deployment", nil)
	f, err := r.ReadBinding(t.Context(), "shop", "web-deployment")
	if err != nil || f.Template == nil || f.Template.GetName() != "web" || len(f.Works) != 2 {
		t.Errorf("got %+v, %v", f, err)
	}
	hidden := reader(t, "web-deployment", func(o runtime.Object, _ string) bool {
		return o.GetObjectKind().GroupVersionKind().Kind == "Deployment"
	})
	f, err = hidden.ReadBinding(t.Context(), "shop", "web-deployment")
	if err != nil || f.Template != nil || len(f.Unread) != 1 || len(f.Works) != 2 {
		t.Errorf("got %+v, %v", f, err)
	}
	if summary := BuildTrace(f, noon).Summary; summary != "0 of 2 chosen clusters have it as desired" {
		t.Errorf("the summary is %q", summary)
	}
}
