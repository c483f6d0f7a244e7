// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// Kinds of bindings.
const (
	kindBinding        = "ResourceBinding"
	kindClusterBinding = "ClusterResourceBinding"
)

// ObjectFacts are what the hub says of an object, as far as the user may read it.
type ObjectFacts struct {
	Ref workv1alpha2.ObjectReference
	// Template is the object; nil if it is not on the hub or, as hidden says, may not
	// be read.
	Template        *unstructured.Unstructured
	Policies        []policyv1alpha1.PropagationPolicy
	ClusterPolicies []policyv1alpha1.ClusterPropagationPolicy
	// Binding is nil if there is none.
	Binding *BindingObject
	// Peers are the bindings of the namespace, if the object is kept together with
	// others, or apart.
	Peers []workv1alpha2.Binding
	Works []workv1.ManifestWork
	// NamespaceWorks bring the namespace of the object to clusters.
	NamespaceWorks []workv1.ManifestWork
	Clusters       []clusterv1.ManagedCluster
	// Absent are the overrides and PriorityClasses that policies which select the
	// object name, and that do not exist.
	Absent []string
	// Refused is the Event that says why the hub does not let a policy claim the object; nil
	// if there is none, or a policy claims it.
	Refused *corev1.Event
	// Unserved says that the hub does not send objects of the kind from there.
	Unserved bool
	// Unread says what the user may not read, and what follows from that.
	Unread []string

	// Known are who say what objects mean.
	Known *interpreters.KnownInterpreters
	// Connections are those that may be read, by the names of the clusters.
	Connections map[string]*fleetv1alpha1.ClusterConnection

	hidden, worksHidden, clustersHidden bool
}

// BindingObject is a ResourceBinding or a ClusterResourceBinding.
type BindingObject struct {
	metav1.ObjectMeta

	Kind   string
	Spec   workv1alpha2.ResourceBindingSpec
	Status workv1alpha2.ResourceBindingStatus
}

// Reader reads what there is to know. Client knows all kinds of the hub.
type Reader struct {
	Client client.Client
	Now    func() time.Time
}

// ReadObject reads what there is to know about an object and its way. The object has
// to be there and readable.
func (r Reader) ReadObject(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*ObjectFacts, error) {
	f := &ObjectFacts{Ref: workv1alpha2.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: namespace, Name: name}}
	f.Template = &unstructured.Unstructured{}
	f.Template.SetGroupVersionKind(kind)
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, f.Template); err != nil {
		return nil, err
	}
	return f, r.readRelated(ctx, f)
}

// ReadBinding reads what there is to know about a binding, without a namespace a
// ClusterResourceBinding, and its object. The binding has to be there and
// readable.
func (r Reader) ReadBinding(ctx context.Context, namespace, name string) (*ObjectFacts, error) {
	f := &ObjectFacts{}
	var err error
	if f.Binding, err = r.getBinding(ctx, namespace, name); err != nil {
		return nil, err
	}
	f.Ref = f.Binding.Spec.Resource
	template := &unstructured.Unstructured{}
	template.SetAPIVersion(f.Ref.APIVersion)
	template.SetKind(f.Ref.Kind)
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: f.Ref.Namespace, Name: f.Ref.Name}, template)
	switch {
	case err == nil:
		f.Template = template
	case apierrors.IsForbidden(err):
		f.hidden = true
		f.Unread = append(f.Unread, fmt.Sprintf("%s (its policies are not looked at here)", qualifiedName(f.Ref.Kind, f.Ref.Namespace, f.Ref.Name)))
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return nil, err
	}
	return f, r.readRelated(ctx, f)
}

// readRelated reads what belongs to the object.
func (r Reader) readRelated(ctx context.Context, f *ObjectFacts) error {
	if f.Template != nil {
		known, unread, err := interpreters.ReadInterpreters(ctx, r.Client, r.Now)
		if err != nil {
			return err
		}
		if f.Known = known; unread != "" {
			f.Unread = append(f.Unread, unread)
		}
		if err := r.readPolicies(ctx, f); err != nil {
			return err
		}
		if err := r.readAbsentNeeds(ctx, f); err != nil {
			return err
		}
	}
	if f.Binding == nil {
		if err := r.findBinding(ctx, f); err != nil {
			return err
		}
	}
	if f.Binding == nil {
		return errors.Join(r.readServedScope(ctx, f), r.readRefusal(ctx, f))
	}
	if err := r.readWorks(ctx, f); err != nil {
		return err
	}
	if err := r.readPeers(ctx, f); err != nil {
		return err
	}
	clusters, err := hub.ListAllPages(ctx, r.Client, func(l *clusterv1.ManagedClusterList) []clusterv1.ManagedCluster { return l.Items })
	f.Clusters = clusters
	f.clustersHidden = err != nil
	if err != nil {
		return f.recordUnread(err, "ManagedClusters", "only clusters that were chosen are listed here")
	}
	f.Connections, err = hub.ConnectionsByName(ctx, r.Client)
	return err
}

// readPeers reads the bindings of the namespace, if they matter.
func (r Reader) readPeers(ctx context.Context, f *ObjectFacts) error {
	if f.Binding.Spec.WorkloadAffinityGroups == nil {
		return nil
	}
	found, err := r.listBindings(ctx, f.Binding.Namespace)
	for _, b := range found {
		f.Peers = append(f.Peers, b.asBinding())
	}
	return f.recordUnread(err, "lists of bindings", "the workloads to be together with or apart from do not count here")
}

// recordUnread notes that the user may not read something. Other errors are returned.
func (f *ObjectFacts) recordUnread(err error, what, consequence string) error {
	if err == nil || !apierrors.IsForbidden(err) {
		return err
	}
	f.Unread = append(f.Unread, fmt.Sprintf("%s (%s)", what, consequence))
	return nil
}

func (r Reader) readPolicies(ctx context.Context, f *ObjectFacts) error {
	var err error
	if f.Ref.Namespace != "" {
		f.Policies, err = hub.ListAllPages(ctx, r.Client, func(l *policyv1alpha1.PropagationPolicyList) []policyv1alpha1.PropagationPolicy { return l.Items }, client.InNamespace(f.Ref.Namespace))
		if err := f.recordUnread(notPropagating(err), "PropagationPolicies of namespace "+f.Ref.Namespace, "they do not count here"); err != nil {
			return err
		}
	}
	f.ClusterPolicies, err = hub.ListAllPages(ctx, r.Client, func(l *policyv1alpha1.ClusterPropagationPolicyList) []policyv1alpha1.ClusterPropagationPolicy {
		return l.Items
	})
	return f.recordUnread(notPropagating(err), "ClusterPropagationPolicies", "they do not count here")
}

// notPropagating explains the error of a hub without the kinds of policies.
func notPropagating(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return exit.Next(errors.New("the hub sends no objects to clusters by policies: it does not serve PropagationPolicies"),
		"Turn on feature gate Propagation of its ClusterManager. Without, \"capstan get works\" lists what is in the clusters.")
}

// findBinding looks for the binding of the object: by the name that it has, unless
// objects of different groups have the same kind and name, or else among all.
func (r Reader) findBinding(ctx context.Context, f *ObjectFacts) error {
	usual := claims.BindingNames(schema.FromAPIVersionAndKind(f.Ref.APIVersion, f.Ref.Kind), f.Ref.Name)[0]
	b, err := r.getBinding(ctx, f.Ref.Namespace, usual)
	if err == nil && b.isOf(f.Ref) {
		f.Binding = b
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return f.recordUnread(err, "bindings", "only the policies are looked at here")
	}
	bindings, err := r.listBindings(ctx, f.Ref.Namespace)
	if i := slices.IndexFunc(bindings, func(b *BindingObject) bool { return b.isOf(f.Ref) }); i >= 0 {
		f.Binding = bindings[i]
	}
	return f.recordUnread(err, "lists of bindings", "one with an unusual name is not found here")
}

// isOf reports whether the binding is that of an object, in whatever version.
func (b *BindingObject) isOf(object workv1alpha2.ObjectReference) bool {
	group := func(apiVersion string) string {
		version, _ := schema.ParseGroupVersion(apiVersion) // what it cannot parse has no group
		return version.Group
	}
	is := b.Spec.Resource
	return is.Kind == object.Kind && is.Namespace == object.Namespace && is.Name == object.Name && group(is.APIVersion) == group(object.APIVersion)
}

func (r Reader) getBinding(ctx context.Context, namespace, name string) (*BindingObject, error) {
	if namespace == "" {
		b := &workv1alpha2.ClusterResourceBinding{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: name}, b)
		return ofCluster(b), notPropagating(err)
	}
	b := &workv1alpha2.ResourceBinding{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b)
	return ofNamespace(b), notPropagating(err)
}

func (r Reader) listBindings(ctx context.Context, namespace string) ([]*BindingObject, error) {
	var found []*BindingObject
	if namespace == "" {
		list, err := hub.ListAllPages(ctx, r.Client, func(l *workv1alpha2.ClusterResourceBindingList) []workv1alpha2.ClusterResourceBinding { return l.Items })
		for i := range list {
			found = append(found, ofCluster(&list[i]))
		}
		return found, err
	}
	list, err := hub.ListAllPages(ctx, r.Client, func(l *workv1alpha2.ResourceBindingList) []workv1alpha2.ResourceBinding { return l.Items }, client.InNamespace(namespace))
	for i := range list {
		found = append(found, ofNamespace(&list[i]))
	}
	return found, err
}

func ofNamespace(b *workv1alpha2.ResourceBinding) *BindingObject {
	return &BindingObject{ObjectMeta: b.ObjectMeta, Kind: kindBinding, Spec: b.Spec, Status: b.Status}
}

func ofCluster(b *workv1alpha2.ClusterResourceBinding) *BindingObject {
	return &BindingObject{ObjectMeta: b.ObjectMeta, Kind: kindClusterBinding, Spec: b.Spec, Status: b.Status}
}

// readWorks reads the works of the binding: of all clusters, or of those that were
// chosen if the user may read no more.
func (r Reader) readWorks(ctx context.Context, f *ObjectFacts) error {
	label := workv1alpha2.LabelResourceBindingID
	if f.Binding.Kind == kindClusterBinding {
		label = workv1alpha2.LabelClusterResourceBindingID
	}
	id := f.Binding.Labels[label]
	if id == "" {
		return nil
	}
	items := func(l *workv1.ManifestWorkList) []workv1.ManifestWork { return l.Items }
	of := client.MatchingLabels{label: id}
	works, err := hub.ListAllPages(ctx, r.Client, items, of)
	if !apierrors.IsForbidden(err) {
		f.Works = works
		if err != nil || f.Ref.Namespace == "" {
			return err
		}
		f.NamespaceWorks, err = hub.ListAllPages(ctx, r.Client, items, client.MatchingLabels{deliver.LabelNamespace: f.Ref.Namespace})
		return err
	}
	for _, target := range f.Binding.targetClusters() {
		works, err := hub.ListAllPages(ctx, r.Client, items, of, client.InNamespace(target.Name))
		if err := f.recordUnread(err, "ManifestWorks of namespace "+target.Name, "only what the binding reports about the cluster is shown here"); err != nil {
			return err
		}
		f.worksHidden = f.worksHidden || err != nil
		f.Works = append(f.Works, works...)
	}
	return nil
}
