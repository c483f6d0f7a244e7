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

// Facts are what the hub says of an object, as far as the user may read it.
type Facts struct {
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
	Known *interpreters.Known
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

// Object reads what there is to know about an object and its way. The object has
// to be there and readable.
func (r Reader) Object(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*Facts, error) {
	f := &Facts{Ref: workv1alpha2.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: namespace, Name: name}}
	f.Template = &unstructured.Unstructured{}
	f.Template.SetGroupVersionKind(kind)
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, f.Template); err != nil {
		return nil, err
	}
	return f, r.rest(ctx, f)
}

// Binding reads what there is to know about a binding, without a namespace a
// ClusterResourceBinding, and its object. The binding has to be there and
// readable.
func (r Reader) Binding(ctx context.Context, namespace, name string) (*Facts, error) {
	f := &Facts{}
	var err error
	if f.Binding, err = r.binding(ctx, namespace, name); err != nil {
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
		f.Unread = append(f.Unread, fmt.Sprintf("%s (its policies are not looked at here)", spell(f.Ref.Kind, f.Ref.Namespace, f.Ref.Name)))
	case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return nil, err
	}
	return f, r.rest(ctx, f)
}

// rest reads what belongs to the object.
func (r Reader) rest(ctx context.Context, f *Facts) error {
	if f.Template != nil {
		known, unread, err := interpreters.Read(ctx, r.Client, r.Now)
		if err != nil {
			return err
		}
		if f.Known = known; unread != "" {
			f.Unread = append(f.Unread, unread)
		}
		if err := r.policies(ctx, f); err != nil {
			return err
		}
		if err := r.absent(ctx, f); err != nil {
			return err
		}
	}
	if f.Binding == nil {
		if err := r.find(ctx, f); err != nil {
			return err
		}
	}
	if f.Binding == nil {
		return errors.Join(r.served(ctx, f), r.refused(ctx, f))
	}
	if err := r.works(ctx, f); err != nil {
		return err
	}
	if err := r.peers(ctx, f); err != nil {
		return err
	}
	clusters, err := hub.List(ctx, r.Client, func(l *clusterv1.ManagedClusterList) []clusterv1.ManagedCluster { return l.Items })
	f.Clusters = clusters
	f.clustersHidden = err != nil
	if err != nil {
		return f.unread(err, "ManagedClusters", "only clusters that were chosen are listed here")
	}
	f.Connections, err = hub.Connections(ctx, r.Client)
	return err
}

// peers reads the bindings of the namespace, if they matter.
func (r Reader) peers(ctx context.Context, f *Facts) error {
	if f.Binding.Spec.WorkloadAffinityGroups == nil {
		return nil
	}
	found, err := r.bindings(ctx, f.Binding.Namespace)
	for _, b := range found {
		f.Peers = append(f.Peers, b.object())
	}
	return f.unread(err, "lists of bindings", "the workloads to be together with or apart from do not count here")
}

// unread notes that the user may not read something. Other errors are returned.
func (f *Facts) unread(err error, what, consequence string) error {
	if err == nil || !apierrors.IsForbidden(err) {
		return err
	}
	f.Unread = append(f.Unread, fmt.Sprintf("%s (%s)", what, consequence))
	return nil
}

func (r Reader) policies(ctx context.Context, f *Facts) error {
	var err error
	if f.Ref.Namespace != "" {
		f.Policies, err = hub.List(ctx, r.Client, func(l *policyv1alpha1.PropagationPolicyList) []policyv1alpha1.PropagationPolicy { return l.Items }, client.InNamespace(f.Ref.Namespace))
		if err := f.unread(notPropagating(err), "PropagationPolicies of namespace "+f.Ref.Namespace, "they do not count here"); err != nil {
			return err
		}
	}
	f.ClusterPolicies, err = hub.List(ctx, r.Client, func(l *policyv1alpha1.ClusterPropagationPolicyList) []policyv1alpha1.ClusterPropagationPolicy {
		return l.Items
	})
	return f.unread(notPropagating(err), "ClusterPropagationPolicies", "they do not count here")
}

// notPropagating explains the error of a hub without the kinds of policies.
func notPropagating(err error) error {
	if !meta.IsNoMatchError(err) {
		return err
	}
	return exit.Next(errors.New("the hub sends no objects to clusters by policies: it does not serve PropagationPolicies"),
		"Turn on feature gate Propagation of its ClusterManager. Without, \"capstan get works\" lists what is in the clusters.")
}

// find looks for the binding of the object: by the name that it has, unless
// objects of different groups have the same kind and name, or else among all.
func (r Reader) find(ctx context.Context, f *Facts) error {
	usual := claims.BindingNames(schema.FromAPIVersionAndKind(f.Ref.APIVersion, f.Ref.Kind), f.Ref.Name)[0]
	b, err := r.binding(ctx, f.Ref.Namespace, usual)
	if err == nil && b.isOf(f.Ref) {
		f.Binding = b
		return nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return f.unread(err, "bindings", "only the policies are looked at here")
	}
	bindings, err := r.bindings(ctx, f.Ref.Namespace)
	if i := slices.IndexFunc(bindings, func(b *BindingObject) bool { return b.isOf(f.Ref) }); i >= 0 {
		f.Binding = bindings[i]
	}
	return f.unread(err, "lists of bindings", "one with an unusual name is not found here")
}

// isOf tells whether the binding is that of an object, in whatever version.
func (b *BindingObject) isOf(object workv1alpha2.ObjectReference) bool {
	group := func(apiVersion string) string {
		version, _ := schema.ParseGroupVersion(apiVersion) // what it cannot parse has no group
		return version.Group
	}
	is := b.Spec.Resource
	return is.Kind == object.Kind && is.Namespace == object.Namespace && is.Name == object.Name && group(is.APIVersion) == group(object.APIVersion)
}

func (r Reader) binding(ctx context.Context, namespace, name string) (*BindingObject, error) {
	if namespace == "" {
		b := &workv1alpha2.ClusterResourceBinding{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: name}, b)
		return ofCluster(b), notPropagating(err)
	}
	b := &workv1alpha2.ResourceBinding{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b)
	return ofNamespace(b), notPropagating(err)
}

func (r Reader) bindings(ctx context.Context, namespace string) ([]*BindingObject, error) {
	var found []*BindingObject
	if namespace == "" {
		list, err := hub.List(ctx, r.Client, func(l *workv1alpha2.ClusterResourceBindingList) []workv1alpha2.ClusterResourceBinding { return l.Items })
		for i := range list {
			found = append(found, ofCluster(&list[i]))
		}
		return found, err
	}
	list, err := hub.List(ctx, r.Client, func(l *workv1alpha2.ResourceBindingList) []workv1alpha2.ResourceBinding { return l.Items }, client.InNamespace(namespace))
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

// works reads the works of the binding: of all clusters, or of those that were
// chosen if the user may read no more.
func (r Reader) works(ctx context.Context, f *Facts) error {
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
	works, err := hub.List(ctx, r.Client, items, of)
	if !apierrors.IsForbidden(err) {
		f.Works = works
		if err != nil || f.Ref.Namespace == "" {
			return err
		}
		f.NamespaceWorks, err = hub.List(ctx, r.Client, items, client.MatchingLabels{deliver.LabelNamespace: f.Ref.Namespace})
		return err
	}
	for _, target := range f.Binding.targets() {
		works, err := hub.List(ctx, r.Client, items, of, client.InNamespace(target.Name))
		if err := f.unread(err, "ManifestWorks of namespace "+target.Name, "what the binding says of the cluster is all that is said here"); err != nil {
			return err
		}
		f.worksHidden = f.worksHidden || err != nil
		f.Works = append(f.Works, works...)
	}
	return nil
}
