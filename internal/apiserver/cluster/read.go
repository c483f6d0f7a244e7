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

// clusterReader reads Clusters.
type clusterReader struct{ connections connectionStore }

// getConnection returns the ClusterConnection of a Cluster.
func (r clusterReader) getConnection(ctx context.Context, name string, o metav1.GetOptions) (*fleetv1alpha1.ClusterConnection, error) {
	connection, err := r.connections.Get(ctx, name, o)
	if err != nil {
		return nil, translateHubError(err, name)
	}
	if connection.Cluster == nil {
		return nil, notFoundError(name)
	}
	return connection, nil
}

// Get implements rest.Getter. Without a resource version the hub answers with
// what is stored, so "not found" is true.
func (r clusterReader) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	connection, err := r.getConnection(ctx, name, *o)
	if err != nil {
		return nil, err
	}
	return translate.ClusterFromConnection(connection), nil
}

// List implements rest.Lister. Versions, pages and selectors are the hub's; a
// page may be shorter than its limit by ClusterConnections of no ManagedCluster.
func (r clusterReader) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	options, err := stored.HubListOptions(o)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.ClusterList{Items: []v1alpha1.Cluster{}}
	list.ListMeta, err = r.connections.List(ctx, options, func(from *fleetv1alpha1.ClusterConnection) {
		if cluster := translate.ClusterFromConnection(from); cluster != nil {
			list.Items = append(list.Items, *cluster)
		}
	})
	if err != nil {
		return nil, translateHubError(err, "")
	}
	return list, nil
}

// Watch implements rest.Watcher.
func (r clusterReader) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	options, err := stored.HubListOptions(o)
	if err != nil {
		return nil, err
	}
	options.Watch = true
	events, err := r.connections.Watch(ctx, options)
	if err != nil {
		return nil, translateHubError(err, "")
	}
	view := &watchView{hidden: sets.New[string]()}
	return watch.Filter(events, view.translateEvent), nil
}

// watchView is what one watcher sees. It knows by name which ClusterConnections are no
// Clusters, so that one which becomes a Cluster is added for the watcher.
type watchView struct{ hidden sets.Set[string] }

// translateEvent returns an event of a ClusterConnection as one of its Cluster, and whether
// there is one.
func (v *watchView) translateEvent(event watch.Event) (watch.Event, bool) {
	connection, ok := event.Object.(*fleetv1alpha1.ClusterConnection)
	if !ok {
		if status, failed := event.Object.(*metav1.Status); failed {
			event.Object = clusterView().TranslateStatus(status)
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
	cluster := translate.ClusterFromConnection(connection)
	if cluster == nil {
		return v.hideEvent(event, connection)
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

// hideEvent says that a Cluster is gone when its ClusterConnection stops being one.
// Whether it was one is not known if the watch began later.
func (v *watchView) hideEvent(event watch.Event, connection *fleetv1alpha1.ClusterConnection) (watch.Event, bool) {
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
