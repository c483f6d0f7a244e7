// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

const clusters, works = "v1alpha1.cluster.karmada.io", "v1alpha1.work.karmada.io"

func hub() manifests.Hub { return manifests.Hub{Name: "cluster-manager", CABundle: []byte("new")} }

type change func(*unstructured.Unstructured)

// apiService returns an APIService of the hub, as it was made at some time.
func apiService(name string, changes ...change) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"service":  map[string]any{"namespace": "open-cluster-management-hub", "name": "apiserver"},
		"caBundle": base64.StdEncoding.EncodeToString([]byte("old")),
	}}}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	u.SetName(name)
	u.SetUID(types.UID(name))
	u.SetLabels(map[string]string{operatorv1.LabelCreatedByClusterManager: "cluster-manager"})
	for _, change := range changes {
		change(u)
	}
	return u
}

func labelled(labels map[string]string) change {
	return func(u *unstructured.Unstructured) { u.SetLabels(labels) }
}

// spec replaces the spec; nil is that of an API that the hub's API server serves itself.
func spec(spec map[string]any) change {
	return func(u *unstructured.Unstructured) { u.Object["spec"] = spec }
}

func service(namespace, name string) change {
	return spec(map[string]any{"service": map[string]any{"namespace": namespace, "name": name}})
}

// says adds a condition.
func says(condition, status, reason, message string) change {
	return func(u *unstructured.Unstructured) {
		all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		all = append(all, map[string]any{"type": condition, "status": status, "reason": reason, "message": message})
		u.Object["status"] = map[string]any{"conditions": all}
	}
}

// target returns a hub that has these APIServices, and fails when the one is read.
func target(fails string, has ...client.Object) *install.Target {
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(has...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			switch {
			case key.Name == fails:
				return apierrors.NewInternalError(errors.New("no leader"))
			case !slices.ContainsFunc(has, func(one client.Object) bool { return one.GetName() == key.Name }):
				return apierrors.NewNotFound(schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, key.Name)
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	return &install.Target{Client: c, Live: c}
}

// recorder returns what applies nothing, but notes what it is to.
func recorder(t *testing.T, applied *[]string) func(context.Context, *install.Target, ...render.Object) error {
	return func(_ context.Context, _ *install.Target, objects ...render.Object) error {
		t.Helper()
		for _, object := range objects {
			u, err := render.ToUnstructured(object)
			expect.NoError(t, err)
			*applied = append(*applied, u.GetName())
		}
		return nil
	}
}

func TestWhatBelongsToOthersIsLeftAloneAndNamed(t *testing.T) {
	const unseen = "the hub's API server has not processed it yet"
	automanaged := map[string]string{"kube-aggregator.kubernetes.io/automanaged": "onstart"}
	cases := map[string]struct {
		has     []client.Object
		want    []status.APIService
		applied []string
	}{
		"a hub that has none": {nil, []status.APIService{{Name: clusters, Trouble: unseen}, {Name: works, Trouble: unseen}}, []string{clusters, works}},
		"ours, as the API server finds them": {
			[]client.Object{
				apiService(clusters, says("Available", "True", "Passed", "all checks passed")),
				apiService(works, says("Available", "False", "MissingEndpoints", "no endpoints")),
			},
			[]status.APIService{{Name: clusters, Available: true, Trouble: "Passed: all checks passed"}, {Name: works, Trouble: "MissingEndpoints: no endpoints"}},
			[]string{clusters, works},
		},
		"ours, of which nothing is known": {
			[]client.Object{apiService(clusters), apiService(works, says("Other", "True", "Passed", ""), says("Available", "Unknown", "Starting", "wait"))},
			[]status.APIService{{Name: clusters, Trouble: unseen}, {Name: works, Trouble: "Starting: wait"}},
			[]string{clusters, works},
		},
		"ours, and it is not said why": {
			[]client.Object{apiService(works, func(u *unstructured.Unstructured) {
				u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "False"}}}
			})},
			[]status.APIService{{Name: clusters, Trouble: unseen}, {Name: works, Trouble: "Unknown: the hub's API server does not say why"}},
			[]string{clusters, works},
		},
		"one of Karmada's own, which answers": {
			[]client.Object{apiService(clusters, labelled(nil), service("karmada-system", "karmada-aggregated-apiserver"), says("Available", "True", "Passed", "all checks passed"))},
			[]status.APIService{{Name: clusters, Foreign: `Service "karmada-system/karmada-aggregated-apiserver"`, Trouble: unseen}, {Name: works, Trouble: unseen}},
			[]string{works},
		},
		"one of another hub of ours": {
			[]client.Object{apiService(clusters, labelled(map[string]string{operatorv1.LabelCreatedByClusterManager: "other"}), service("other-hub", "apiserver"))},
			[]status.APIService{{Name: clusters, Foreign: `Service "other-hub/apiserver"`, Trouble: unseen}, {Name: works, Trouble: unseen}},
			[]string{works},
		},
		"definitions of the groups": {
			[]client.Object{apiService(clusters, labelled(automanaged), spec(nil)), apiService(works, labelled(automanaged), spec(nil))},
			[]status.APIService{
				{Name: clusters, Foreign: "a CustomResourceDefinition of this group", Trouble: unseen},
				{Name: works, Foreign: "a CustomResourceDefinition of this group", Trouble: unseen},
			},
			nil,
		},
		"one that the API server serves": {
			[]client.Object{apiService(works, labelled(map[string]string{}), spec(nil))},
			[]status.APIService{{Name: clusters, Trouble: unseen}, {Name: works, Foreign: "the hub's API server itself", Trouble: unseen}},
			[]string{clusters},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var applied []string
			got, err := InstallAPIServices(t.Context(), target("", tc.has...), hub(), recorder(t, &applied))
			expect.NoError(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("what is known of them, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.applied, applied); diff != "" {
				t.Errorf("what is applied, -want +got:\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeReadIsNotApplied(t *testing.T) {
	var applied []string
	_, err := InstallAPIServices(t.Context(), target(clusters), hub(), recorder(t, &applied))
	if !apierrors.IsInternalError(err) || len(applied) > 0 {
		t.Errorf("error %v, applied %v: it may belong to others", err, applied)
	}
}

func TestTheBundlesThatAreInUse(t *testing.T) {
	encoded := func(text string) change {
		return spec(map[string]any{"caBundle": text})
	}
	cases := map[string]struct {
		has   []client.Object
		fails string
		want  []string
		wrong bool
	}{
		"there are none":                  {nil, "", nil, false},
		"not what they are to be":         {[]client.Object{apiService(clusters), apiService(works)}, "", []string{"old", "old"}, false},
		"not those of others":             {[]client.Object{apiService(clusters, labelled(nil)), apiService(works)}, "", []string{"old"}, false},
		"one of ours that verifies none":  {[]client.Object{apiService(clusters, spec(nil))}, "", []string{""}, false},
		"one that is no base64":           {[]client.Object{apiService(clusters, encoded("-----BEGIN"))}, "", nil, true},
		"no matter of those of others":    {[]client.Object{apiService(clusters, labelled(nil), encoded("-----BEGIN"))}, "", nil, false},
		"one that cannot be read is some": {[]client.Object{apiService(clusters)}, works, nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			bundles, err := TrustedCABundles(t.Context(), target(tc.fails, tc.has...), hub())
			if (err != nil) != tc.wrong {
				t.Errorf("error %v, want one: %t", err, tc.wrong)
			}
			var got []string
			for _, bundle := range bundles {
				got = append(got, string(bundle))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("bundles, -want +got:\n%s", diff)
			}
		})
	}
}
