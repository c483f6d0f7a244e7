// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// readableBinding is a Binding that a client knows.
type readableBinding interface {
	workv1alpha2.Binding
	client.Object
}

// boundWorkload is an object of the hub with its binding.
type boundWorkload struct {
	kind            schema.GroupVersionKind
	namespace, name string
	binding         readableBinding
}

// String returns the object as people call it, such as Deployment shop/web.
func (w *boundWorkload) String() string {
	if w.namespace == "" {
		return w.kind.Kind + " " + w.name
	}
	return w.kind.Kind + " " + w.namespace + "/" + w.name
}

func (w *boundWorkload) objectReference() appsv1alpha1.ObjectReference {
	version, kind := w.kind.ToAPIVersionAndKind()
	return appsv1alpha1.ObjectReference{APIVersion: version, Kind: kind, Namespace: w.namespace, Name: w.name}
}

// findWorkloads reads the bindings of the objects.
func (c *rebalanceCommand) findWorkloads(ctx context.Context, kindName string, names []string) ([]*boundWorkload, error) {
	kinds, err := c.session.ConnectAny()
	if err != nil {
		return nil, err
	}
	c.reader = kinds.Client
	if c.client, err = c.session.ConnectHub(); err != nil {
		return nil, err
	}
	rebalancers := schema.GroupKind{Group: appsv1alpha1.GroupName, Kind: "WorkloadRebalancer"}
	if _, err := kinds.Client.RESTMapper().RESTMapping(rebalancers); meta.IsNoMatchError(err) {
		return nil, exit.Next(fmt.Errorf("the hub serves no WorkloadRebalancers"), "Its feature gate Propagation turns them on: see docs/spec/operator/clustermanager.md.")
	} else if err != nil {
		return nil, err
	}
	mapping, err := kinds.FindMapping(kindName)
	if err != nil {
		return nil, err
	}
	found := make([]*boundWorkload, 0, len(names))
	for _, name := range names {
		w := &boundWorkload{kind: mapping.GroupVersionKind, name: name}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			w.namespace = c.session.NamespaceOf(c.namespace)
		}
		if w.binding, err = bindingOf(ctx, c.reader, w); err != nil {
			return nil, err
		}
		if w.binding == nil {
			return nil, explainAbsent(ctx, c.reader, w)
		}
		found = append(found, w)
	}
	return found, nil
}

// bindingOf reads the binding of an object by the names that it may have; nil is
// none.
func bindingOf(ctx context.Context, c client.Reader, w *boundWorkload) (readableBinding, error) {
	for _, name := range claims.BindingNames(w.kind, w.name) {
		var b readableBinding = &workv1alpha2.ResourceBinding{}
		if w.namespace == "" {
			b = &workv1alpha2.ClusterResourceBinding{}
		}
		err := c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, b)
		if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		of := b.BindingSpec().Resource
		is := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind() == w.kind.GroupKind() && of.Namespace == w.namespace && of.Name == w.name
		if is && b.GetDeletionTimestamp().IsZero() {
			return b, nil
		}
	}
	return nil, nil //nolint:nilnil // documented
}

// explainAbsent explains that an object has no binding.
func explainAbsent(ctx context.Context, c client.Reader, w *boundWorkload) error {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(w.kind)
	kind := strings.ToLower(w.kind.Kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: w.name}, object)
	if apierrors.IsNotFound(err) {
		return exit.Next(fmt.Errorf("there is no %s", w), "\"kubectl get %s -A\" lists those that exist.", kind)
	}
	where := ""
	if w.namespace != "" {
		where = " -n " + w.namespace
	}
	return exit.Next(fmt.Errorf("%s has no binding: no policy sends it to clusters", w), "\"capstan explain %s %s%s\" tells why.", kind, w.name, where)
}

// readFleet reads the fleet as far as the user may.
func (c *rebalanceCommand) readFleet(ctx context.Context) (fleet *view.Fleet, unread []string, err error) {
	clusters, err := hub.ListAllPages(ctx, c.client, func(l *clusterv1.ManagedClusterList) []clusterv1.ManagedCluster { return l.Items })
	if apierrors.IsForbidden(err) {
		return nil, []string{"ManagedClusters (which clusters would be chosen is not shown here)"}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	connections, err := hub.ConnectionsByName(ctx, c.client)
	if err != nil {
		return nil, nil, err
	}
	all := make([]view.Cluster, 0, len(clusters))
	for i := range clusters {
		all = append(all, view.FromClusterWithRoom(&clusters[i], connections[clusters[i].Name]))
	}
	whole := view.NewFleet(all...)
	return &whole, nil, nil
}
