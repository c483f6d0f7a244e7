// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ocm

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	theirclusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	theiroperatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	theirworkclient "open-cluster-management.io/api/client/work/clientset/versioned"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// typedClient is what their clients for all kinds have in common.
type typedClient[T client.Object] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// statusClient is what their clients for kinds with a status have besides.
type statusClient[T client.Object] interface {
	UpdateStatus(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
}

func TestTheirClientsWorkOnOurDefinitions(t *testing.T) {
	_, config := env.Start(t, func(environment *envtest.Environment) {
		for _, definition := range ourDefinitions(t) {
			environment.CRDs = append(environment.CRDs, definition)
		}
	})
	operators, err := theiroperatorclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	clusters, err := theirclusterclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	works, err := theirworkclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mine := ourClient(t, config)

	exercise(t, "ClusterManager", operators.OperatorV1().ClusterManagers(), mine)
	exercise(t, "Klusterlet", operators.OperatorV1().Klusterlets(), mine)
	exercise(t, "ManagedCluster", clusters.ClusterV1().ManagedClusters(), mine)
	exercise(t, "ManagedClusterSet", clusters.ClusterV1beta2().ManagedClusterSets(), mine)
	exercise(t, "ManagedClusterSetBinding", clusters.ClusterV1beta2().ManagedClusterSetBindings("default"), mine)
	exercise(t, "ClusterClaim", clusters.ClusterV1alpha1().ClusterClaims(), mine)
	exercise(t, "ManifestWork", works.WorkV1().ManifestWorks("default"), mine)
	exercise(t, "AppliedManifestWork", works.WorkV1().AppliedManifestWorks(), mine)
}

// ourClient returns a client that knows our types.
func ourClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(operatorv1.AddToScheme, clusterv1.AddToScheme, clusterv1beta2.AddToScheme, clusterv1alpha1.AddToScheme, workv1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// exercise lets their client write the sample of a kind, in all ways that
// there are, and our client read it; and the other way round.
func exercise[T client.Object](t *testing.T, name string, theirs typedClient[T], ours client.Client) {
	t.Run(name, func(t *testing.T) {
		ctx := t.Context()
		want := sample(t, name).Object
		watcher, err := theirs.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		defer watcher.Stop()

		object := kinds()[name].theirs().(T)
		decodeStrictly(t, 0, encode(t, want), object)
		created, err := theirs.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		expect.NextEvent(t, watcher, watch.Added)
		seen := kinds()[name].ours()
		readByUs := func(part string) {
			t.Helper()
			if err := ours.Get(ctx, client.ObjectKeyFromObject(created), seen); err != nil {
				t.Fatalf("get by our client: %v", err)
			}
			if diff := cmp.Diff(tree(t, encode(t, want[part])), tree(t, encode(t, fields(t, seen)[part]))); diff != "" {
				t.Errorf("%s as our client reads it (-written +read):\n%s", part, diff)
			}
		}
		readByUs("spec")

		if want["status"] != nil {
			decodeStrictly(t, 0, encode(t, map[string]any{"status": want["status"]}), created)
			if _, err := theirs.(statusClient[T]).UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("update status: %v", err)
			}
			expect.NextEvent(t, watcher, watch.Modified)
			readByUs("status")
		}

		writeByUs(t, ours, seen, theirs, watcher)
		if err := theirs.Delete(ctx, created.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete: %v", err)
		}
		expect.NextEvent(t, watcher, watch.Deleted)
	})
}

// writeByUs lets our client change an object, and theirs read it and change it
// again.
func writeByUs[T client.Object](t *testing.T, ours client.Client, object client.Object, theirs typedClient[T], watcher watch.Interface) {
	t.Helper()
	ctx := t.Context()
	object.SetLabels(map[string]string{"example.com/written-by": "us"})
	if err := ours.Update(ctx, object); err != nil {
		t.Fatalf("update by our client: %v", err)
	}
	watched := expect.NextEvent(t, watcher, watch.Modified)
	got, err := theirs.Get(ctx, object.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	for reader, read := range map[string]any{"watch": watched, "get": got} {
		want, have := fields(t, object), fields(t, read)
		for _, part := range []string{"spec", "status"} {
			if diff := cmp.Diff(want[part], have[part]); diff != "" {
				t.Errorf("%s as their %s reads it (-written +read):\n%s", part, reader, diff)
			}
		}
	}
	got.SetAnnotations(map[string]string{"example.com/updated-by": "them"})
	if _, err := theirs.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("update: %v", err)
	}
	expect.NextEvent(t, watcher, watch.Modified)
	patched, err := theirs.Patch(ctx, object.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/patched-by":"them"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("patch: %v", err)
	}
	expect.NextEvent(t, watcher, watch.Modified)
	if diff := cmp.Diff(map[string]string{"example.com/written-by": "us", "example.com/patched-by": "them"}, patched.GetLabels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// fields returns the outermost fields of an object.
func fields(t *testing.T, object any) map[string]any {
	t.Helper()
	return tree(t, encode(t, object)).(map[string]any)
}

func TestSamplesHaveEveryField(t *testing.T) {
	for name, definition := range ourDefinitions(t) {
		schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			missing := missingFields(name+"."+part, property(schema.Properties, part), sample(t, name).Object[part])
			slices.Sort(missing)
			for _, path := range slices.Compact(missing) {
				t.Errorf("testdata: no object has %s", path)
			}
		}
	}
}
