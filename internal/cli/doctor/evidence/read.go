// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// requestTimeout bounds each request.
const requestTimeout = 4 * time.Second

// newEvidenceClient returns a client for a configuration. It asks for nothing by itself:
// which kinds there are is part of what is to be found out.
func newEvidenceClient(config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	config.QPS = -1
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	err := errors.Join(
		admissionv1.AddToScheme(scheme), appsv1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme), operatorv1.AddToScheme(scheme), workv1.AddToScheme(scheme), workv1alpha1.AddToScheme(scheme),
	)
	if err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: newRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", config.Host, err)
	}
	return c, nil
}

func newRESTMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(version schema.GroupVersion, scope meta.RESTScope, kinds ...string) {
		for _, kind := range kinds {
			m.Add(version.WithKind(kind), scope)
		}
	}
	add(admissionv1.SchemeGroupVersion, meta.RESTScopeRoot, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
	add(apiService().GroupVersion(), meta.RESTScopeRoot, apiService().Kind)
	add(appsv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Deployment")
	add(certificatesv1.SchemeGroupVersion, meta.RESTScopeRoot, "CertificateSigningRequest")
	add(coordinationv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Lease")
	add(corev1.SchemeGroupVersion, meta.RESTScopeRoot, "Namespace")
	add(corev1.SchemeGroupVersion, meta.RESTScopeNamespace, "Secret", "ConfigMap", "Pod", "ServiceAccount")
	add(rbacv1.SchemeGroupVersion, meta.RESTScopeRoot, "ClusterRole", "ClusterRoleBinding")
	add(rbacv1.SchemeGroupVersion, meta.RESTScopeNamespace, "Role", "RoleBinding")
	add(clusterv1.GroupVersion, meta.RESTScopeRoot, "ManagedCluster")
	add(clusterv1beta1.GroupVersion, meta.RESTScopeNamespace, "Placement")
	add(fleetv1alpha1.GroupVersion, meta.RESTScopeRoot, "ClusterConnection")
	add(operatorv1.GroupVersion, meta.RESTScopeRoot, "ClusterManager", "Klusterlet")
	add(workv1.GroupVersion, meta.RESTScopeNamespace, "ManifestWork")
	add(workv1alpha1.GroupVersion, meta.RESTScopeNamespace, "ManifestWorkReplicaSet")
	add(workv1.GroupVersion, meta.RESTScopeRoot, "AppliedManifestWork")
	return m
}

// readObject reads the object that has the namespace and name of the given one.
func readObject[T client.Object](ctx context.Context, c client.Client, object T) Reading[T] {
	switch err := c.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case apierrors.IsNotFound(err):
		return Reading[T]{}
	case err != nil:
		return Reading[T]{Err: err}
	}
	return Reading[T]{Value: object, Found: true}
}

// readList reads a list. A kind that the API server does not know is not there.
func readList[T client.ObjectList](ctx context.Context, c client.Client, list T, options ...client.ListOption) Reading[T] {
	return listResult(list, c.List(ctx, list, options...))
}

// listConnections reads the connections of all clusters.
func listConnections(ctx context.Context, c client.Client) Reading[*fleetv1alpha1.ClusterConnectionList] {
	return listResult(hub.ListConnections(ctx, c))
}

// listResult tells what became of reading a list.
func listResult[T client.ObjectList](list T, err error) Reading[T] {
	switch {
	case apierrors.IsNotFound(err):
		return Reading[T]{}
	case err != nil:
		return Reading[T]{Err: err}
	}
	return Reading[T]{Value: list, Found: true}
}

// objectMetaFor returns the marks of an object.
func objectMetaFor(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// readWorkload reads a Deployment and the pods with the labels.
func readWorkload(ctx context.Context, c client.Client, namespace, name string, labels client.MatchingLabels) Workload {
	w := Workload{Namespace: namespace, Name: name}
	runParallel(
		func() {
			w.Deployment = readObject(ctx, c, &appsv1.Deployment{ObjectMeta: objectMetaFor(namespace, name)})
		},
		func() { w.Pods = readList(ctx, c, &corev1.PodList{}, client.InNamespace(namespace), labels) },
	)
	return w
}

// findObjects finds out which of the objects are there. Those of kinds that are not
// in the mapper are left out.
func findObjects(ctx context.Context, c client.Client, wanted []render.Object) []ObjectPresence {
	found := make([]ObjectPresence, len(wanted))
	tasks := make([]func(), 0, len(wanted))
	for i := range wanted {
		tasks = append(tasks, func() { found[i] = findObject(ctx, c, wanted[i]) })
	}
	runParallel(tasks...)
	return found
}

func findObject(ctx context.Context, c client.Client, wanted render.Object) ObjectPresence {
	full, err := render.ToUnstructured(wanted)
	if err != nil {
		return ObjectPresence{Reading: Reading[struct{}]{Err: err}}
	}
	o := ObjectPresence{Kind: full.GetKind(), Namespace: full.GetNamespace(), Name: full.GetName()}
	live := &metav1.PartialObjectMetadata{ObjectMeta: objectMetaFor(o.Namespace, o.Name)}
	live.SetGroupVersionKind(full.GroupVersionKind())
	reading := readObject(ctx, c, live)
	o.Reading = Reading[struct{}]{Found: reading.Found, Err: reading.Err}
	return o
}

// runParallel does all tasks at the same time and waits for them.
func runParallel(tasks ...func()) {
	var group sync.WaitGroup
	for _, task := range tasks {
		group.Go(task)
	}
	group.Wait()
}
