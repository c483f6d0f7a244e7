// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/apiserver/stored"
)

// reader reads Clusters.
type reader struct{ connections connections }

// connection returns the ClusterConnection of a Cluster.
func (r reader) connection(ctx context.Context, name string, o metav1.GetOptions) (*fleetv1alpha1.ClusterConnection, error) {
	connection, err := r.connections.Get(ctx, name, o)
	if err != nil {
		return nil, problem(err, name)
	}
	if connection.Cluster == nil {
		return nil, notFound(name)
	}
	return connection, nil
}

// Get implements rest.Getter. Without a resource version the hub answers with
// what is stored, so "not found" is true.
func (r reader) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	connection, err := r.connection(ctx, name, *o)
	if err != nil {
		return nil, err
	}
	return translate.Cluster(connection), nil
}

// List implements rest.Lister. Versions, pages and selectors are the hub's; a
// page may be shorter than its limit by ClusterConnections of no ManagedCluster.
func (r reader) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	options, err := stored.ListOptions(o)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.ClusterList{Items: []v1alpha1.Cluster{}}
	list.ListMeta, err = r.connections.List(ctx, options, func(from *fleetv1alpha1.ClusterConnection) {
		if cluster := translate.Cluster(from); cluster != nil {
			list.Items = append(list.Items, *cluster)
		}
	})
	if err != nil {
		return nil, problem(err, "")
	}
	return list, nil
}

// Watch implements rest.Watcher.
func (r reader) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	options, err := stored.ListOptions(o)
	if err != nil {
		return nil, err
	}
	options.Watch = true
	events, err := r.connections.Watch(ctx, options)
	if err != nil {
		return nil, problem(err, "")
	}
	view := &view{hidden: sets.New[string]()}
	return watch.Filter(events, view.see), nil
}

// view is what one watcher sees. It knows by name which ClusterConnections are no
// Clusters, so that one which becomes a Cluster is added for the watcher.
type view struct{ hidden sets.Set[string] }

// see returns an event of a ClusterConnection as one of its Cluster, and whether
// there is one.
func (v *view) see(event watch.Event) (watch.Event, bool) {
	connection, ok := event.Object.(*fleetv1alpha1.ClusterConnection)
	if !ok {
		if status, failed := event.Object.(*metav1.Status); failed {
			event.Object = shown().Describe(status)
		}
		return event, true
	}
	if event.Type == watch.Bookmark {
		event.Object = &v1alpha1.Cluster{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster"},
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: connection.ResourceVersion, Annotations: connection.Annotations},
		}
		return event, true
	}
	cluster := translate.Cluster(connection)
	if cluster == nil {
		return v.hide(event, connection)
	}
	if v.hidden.Has(connection.Name) {
		v.hidden.Delete(connection.Name)
		if event.Type == watch.Modified {
			event.Type = watch.Added
		}
	}
	event.Object = cluster
	return event, true
}

// hide says that a Cluster is gone when its ClusterConnection stops being one.
// Whether it was one is not known if the watch began later.
func (v *view) hide(event watch.Event, connection *fleetv1alpha1.ClusterConnection) (watch.Event, bool) {
	known := v.hidden.Has(connection.Name)
	if event.Type == watch.Deleted {
		v.hidden.Delete(connection.Name)
		return event, false
	}
	v.hidden.Insert(connection.Name)
	if known || event.Type == watch.Added {
		return event, false
	}
	return watch.Event{Type: watch.Deleted, Object: &v1alpha1.Cluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Name: connection.Name, ResourceVersion: connection.ResourceVersion},
	}}, true
}
