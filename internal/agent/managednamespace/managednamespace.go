// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package managednamespace reconciles the namespaces on the member that the
// cluster's ManagedClusterSets request.
//
// It creates and labels them and tells the hub how that went. It never deletes
// a namespace: one that no set wants any more keeps everything but the label's
// value.
package managednamespace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch;create;update;patch

const (
	// repairEvery is the time after which namespaces are looked at though nothing
	// is known to have changed.
	repairEvery = 5 * time.Minute
	// conflictPause is the time until a status that somebody else wrote meanwhile
	// is written.
	conflictPause = 100 * time.Millisecond
	// labelNameMax is the length of the part of a label's key after the slash.
	labelNameMax = 63

	wanted   = "true"
	unwanted = "false"
)

// NamespacePart keeps the namespaces of each cluster.
type NamespacePart struct {
	// Failed is told of what failed; it is tried again. May be nil.
	Failed func(ctx context.Context, err error)
}

// Name implements fleet.Part.
func (p *NamespacePart) Name() string { return "managednamespace" }

// Engage implements fleet.Part.
func (p *NamespacePart) Engage(ctx context.Context, c *fleet.Connection) error {
	r := &namespaceReconciler{
		cluster: string(c.Name), label: NamespaceLabelKey(c.HubHost),
		hub: c.Hub.GetClient(), member: c.Spoke.GetClient(), reader: c.Spoke.GetAPIReader(),
	}
	loop := fleet.NewLoop(r.reconcileNamespaces)
	loop.Failed = p.Failed
	informer, err := c.Hub.GetCache().GetInformer(ctx, &clusterv1.ManagedCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { loop.Kick() },
		UpdateFunc: func(before, after any) {
			was, _ := before.(*clusterv1.ManagedCluster)
			is, _ := after.(*clusterv1.ManagedCluster)
			if was == nil || is == nil || !equality.Semantic.DeepEqual(was.Status.ManagedNamespaces, is.Status.ManagedNamespaces) {
				loop.Kick()
			}
		},
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	c.GoSynced(ctx, func() { loop.Start(ctx) }, registration.HasSyncedChecker())
	return nil
}

// NamespaceLabelKey returns the key of the label that a hub's sets put on namespaces.
func NamespaceLabelKey(hubHost string) string {
	return clusterv1.LabelManagedNamespacePrefix + workv1.HubHash(hubHost)[:labelNameMax]
}

// namespaceReconciler creates and labels the namespaces of one cluster.
type namespaceReconciler struct {
	cluster string
	label   string
	hub     client.Client
	member  client.Client
	reader  client.Reader // not cached
	// released is true once no namespace has the label that should not.
	released bool
}

// reconcileNamespaces creates on the member the namespaces that the hub requests.
func (r *namespaceReconciler) reconcileNamespaces(ctx context.Context) (time.Duration, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := r.hub.Get(ctx, client.ObjectKey{Name: r.cluster}, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("reading ManagedCluster %q: %w", r.cluster, err)
	}
	before := mc.DeepCopy()
	want := map[string]error{}
	var failed error
	for i := range mc.Status.ManagedNamespaces {
		entry := &mc.Status.ManagedNamespaces[i]
		err, done := want[entry.Name]
		if !done {
			err = r.ensureNamespace(ctx, entry.Name)
			want[entry.Name] = err
			r.released = false
		}
		if err != nil {
			failed = err
		}
		setNamespaceCondition(entry, err)
	}
	if !r.released {
		if err := r.releaseUnwanted(ctx, want); err != nil {
			failed = err
		} else {
			r.released = len(want) == 0
		}
	}
	if err := conditions.PatchStatus(ctx, r.hub, before, mc); apierrors.IsConflict(err) {
		return conflictPause, failed // the cache is behind
	} else if err != nil {
		return 0, err
	}
	if len(want) == 0 {
		return 0, failed
	}
	return repairEvery, failed
}

// ensureNamespace makes a namespace that has the label.
func (r *namespaceReconciler) ensureNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{}
	err := r.reader.Get(ctx, client.ObjectKey{Name: name}, ns)
	switch {
	case apierrors.IsNotFound(err):
		ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{r.label: wanted}}}
		if err := r.member.Create(ctx, ns); err != nil {
			return fmt.Errorf("creating namespace %q: %w", name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading namespace %q: %w", name, err)
	case ns.Labels[r.label] == wanted:
		return nil
	}
	return r.setLabel(ctx, ns, wanted)
}

// releaseUnwanted takes the mark off those namespaces that no set wants any more.
func (r *namespaceReconciler) releaseUnwanted(ctx context.Context, want map[string]error) error {
	list := &corev1.NamespaceList{}
	if err := r.reader.List(ctx, list, client.MatchingLabels{r.label: wanted}); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range list.Items {
		if _, still := want[list.Items[i].Name]; still {
			continue
		}
		if err := r.setLabel(ctx, &list.Items[i], unwanted); err != nil {
			return err
		}
	}
	return nil
}

func (r *namespaceReconciler) setLabel(ctx context.Context, ns *corev1.Namespace, value string) error {
	before := ns.DeepCopy()
	metav1.SetMetaDataLabel(&ns.ObjectMeta, r.label, value)
	if err := r.member.Patch(ctx, ns, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("labelling namespace %q: %w", ns.Name, err)
	}
	return nil
}

// setNamespaceCondition puts how it went into the entry.
func setNamespaceCondition(entry *clusterv1.ClusterSetManagedNamespaceConfig, err error) {
	condition := metav1.Condition{
		Type: clusterv1.ManagedNamespaceConditionAvailable, Status: metav1.ConditionTrue,
		Reason: clusterv1.ManagedNamespaceReasonApplied, Message: "the namespace exists",
	}
	if err != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason = clusterv1.ManagedNamespaceReasonApplyFailed
		condition.Message = err.Error()
	}
	conditions.SetCondition(&entry.Conditions, 0, condition)
}
