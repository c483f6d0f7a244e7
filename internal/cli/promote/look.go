// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// unservedKindError says what to do if the hub has no such kind.
func (p *promotionRun) unservedKindError(ctx context.Context, name string, err error) error {
	var known *exit.Error
	if !errors.As(err, &known) || strings.Contains(err.Error(), "may be any of") {
		return err
	}
	plural := strings.ToLower(name)
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if p.there.Client.Get(ctx, client.ObjectKey{Name: plural}, definition) == nil {
		plural = definition.Name
	} else {
		plural = "NAME"
	}
	return &exit.Error{Err: known.Err, Next: fmt.Sprintf(
		"To promote a kind that only the cluster has, install its definition on the hub first: \"kubectl get crd %s -o yaml\" in the cluster shows it. %s", plural, known.Next)}
}

// checkPropagation finds out whether the hub sends objects to clusters at all.
func (p *promotionRun) checkPropagation(ctx context.Context) error {
	policies := schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: "PropagationPolicy"}
	_, err := p.reads.RESTMapper().RESTMapping(policies)
	if meta.IsNoMatchError(err) {
		return exit.Next(errors.New("the hub serves no PropagationPolicies"), "Its feature gate Propagation turns them on: see docs/spec/operator/clustermanager.md.")
	}
	if err != nil {
		return err
	}
	own, err := p.namedAsNamespace(ctx)
	if err != nil {
		return err
	}
	if why := claims.ReservedReason(p.kind.GroupVersionKind.GroupKind(), &metav1.ObjectMeta{Namespace: p.namespace, Name: p.name}, own); why != "" {
		return errors.New(why)
	}
	return nil
}

// namedAsNamespace returns the cluster that has the name of the object's namespace, as
// that may be the cluster's; nothing if there is none.
func (p *promotionRun) namedAsNamespace(ctx context.Context) (view.Fleet, error) {
	if p.namespace == "" {
		return view.Fleet{}, nil
	}
	cluster := &clusterv1.ManagedCluster{}
	err := p.reads.Get(ctx, client.ObjectKey{Name: p.namespace}, cluster)
	if apierrors.IsNotFound(err) {
		return view.Fleet{}, nil
	}
	return view.NewFleet(view.FromCluster(cluster, nil)), err
}

// checkIdentity finds out whether the kubeconfig leads to the cluster.
func (p *promotionRun) checkIdentity(ctx context.Context) error {
	cluster := &clusterv1.ManagedCluster{}
	connection := &fleetv1alpha1.ClusterConnection{}
	err := p.reads.Get(ctx, client.ObjectKey{Name: p.cluster}, cluster)
	if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
		return exit.Next(fmt.Errorf("there is no cluster %q", p.cluster), "\"capstan get clusters\" lists those that exist.")
	}
	if err != nil {
		return err
	}
	if err := p.reads.Get(ctx, client.ObjectKey{Name: p.cluster}, connection); err != nil {
		connection = nil // what the cluster says of itself is enough
	}
	identity, err := p.there.Identify(ctx)
	if err != nil {
		return err
	}
	if id := view.FromCluster(cluster, connection).KnownIdentity(); id != "" && id != identity.UID {
		return exit.Next(fmt.Errorf("the kubeconfig leads to the cluster %s, but %q is the cluster %s", identity.UID, p.cluster, id),
			"Give the kubeconfig or the context of %q.", p.cluster)
	}
	return nil
}

// readInterpreters reads who says what objects mean on the hub: what they refer to.
func (p *promotionRun) readInterpreters(ctx context.Context) error {
	known, unread, err := interpreters.ReadInterpreters(ctx, p.reads, p.session.Clock.Now)
	if err != nil {
		return err
	}
	if p.chain = known.Chain(); unread != "" && p.dependencies {
		fmt.Fprintf(p.session.ErrOut, "You may not read %s.\n", unread)
	}
	if text := known.UnaskedNote(p.kind.GroupVersionKind, interpreters.InterpretDependency); text != "" && p.dependencies {
		fmt.Fprintln(p.session.ErrOut, text)
	}
	return nil
}

// emptyObject returns an empty object of a kind.
func emptyObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// promotedObjectName is the object as people call it.
func (p *promotionRun) promotedObjectName() string {
	if p.namespace == "" {
		return p.kind.GroupVersionKind.Kind + " " + p.name
	}
	return p.kind.GroupVersionKind.Kind + " " + p.namespace + "/" + p.name
}

// readFromCluster reads the object from the cluster.
func (p *promotionRun) readFromCluster(ctx context.Context) error {
	live := emptyObject(p.kind.GroupVersionKind)
	err := p.there.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.name}, live)
	switch {
	case meta.IsNoMatchError(err):
		return exit.Next(fmt.Errorf("cluster %s does not serve %s", p.cluster, p.kind.GroupVersionKind), "The hub has the kind in this version: the cluster needs it in the same one.")
	case apierrors.IsNotFound(err):
		return exit.Next(fmt.Errorf("there is no %s in cluster %s", p.promotedObjectName(), p.cluster), "\"kubectl get %s -A\" in the cluster lists those that exist.", p.kind.Resource.GroupResource())
	case err != nil:
		return p.there.ExplainError(fmt.Errorf("read %s from cluster %s: %w", p.promotedObjectName(), p.cluster, err))
	case live.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is being deleted in cluster %s", p.promotedObjectName(), p.cluster)
	}
	if err := p.checkAnswer(live, p.kind.GroupVersionKind, p.namespace, p.name); err != nil {
		return err
	}
	if kind := secretType(live); kind != "" {
		return exit.Next(fmt.Errorf("%s is a Secret of type %s: on the hub, Kubernetes would turn it into a credential for the hub", p.promotedObjectName(), kind),
			"Create what it is for on the hub instead.")
	}
	if owner := metav1.GetControllerOf(live); owner != nil {
		return exit.Next(fmt.Errorf("%s is created by %s %s in cluster %s", p.promotedObjectName(), owner.Kind, owner.Name, p.cluster), "Promote that instead.")
	}
	if live.GetLabels()[workv1alpha2.LabelManaged] == "true" {
		annotations := live.GetAnnotations()
		return exit.Next(fmt.Errorf("%s is already promoted: cluster %s gets it from a hub, by Work %s/%s", p.promotedObjectName(), p.cluster,
			annotations[workv1alpha2.AnnotationWorkNamespace], annotations[workv1alpha2.AnnotationWorkName]),
			"\"%s\" on that hub shows why it is there.", p.followUpCommand())
	}
	for _, owner := range live.GetOwnerReferences() {
		if owner.Kind == "AppliedManifestWork" {
			return exit.Next(fmt.Errorf("%s in cluster %s is delivered by a ManifestWork (%s)", p.promotedObjectName(), p.cluster, owner.Name),
				"Take it out of that work first, with deleteOption.propagationPolicy: Orphan, so that it stays.")
		}
	}
	p.uid = live.GetUID()
	p.plan = promotionPlan{template: pruneTemplate(p.chain, live), there: map[*unstructured.Unstructured]bool{}}
	return nil
}

// checkAnswer checks that an object which the cluster has sent is what it was asked for: it
// is created on the hub with the rights of whoever promotes, and a cluster is not to
// choose what. A list is asked for by an empty name.
func (p *promotionRun) checkAnswer(live *unstructured.Unstructured, kind schema.GroupVersionKind, namespace, name string) error {
	if live.GroupVersionKind() == kind && live.GetNamespace() == namespace && (name == "" || live.GetName() == name) {
		return nil
	}
	return exit.Next(fmt.Errorf("cluster %s was asked for %s %q in namespace %q, and answers with %s %q in namespace %q: nothing is promoted",
		p.cluster, kind.Kind, name, namespace, live.GetKind(), live.GetName(), live.GetNamespace()),
		"Its API server, or a proxy in front of it, misbehaves: find out why before trusting anything else from it.")
}

// secretType returns the type of a Secret of which Kubernetes makes a credential, "" if
// it is none.
func secretType(o *unstructured.Unstructured) string {
	kind, _, _ := unstructured.NestedString(o.Object, "type")
	if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Secret"}) &&
		slices.Contains([]corev1.SecretType{corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken}, corev1.SecretType(kind)) {
		return kind
	}
	return ""
}

// followUpCommand is the command that follows the object.
func (p *promotionRun) followUpCommand() string {
	text := fmt.Sprintf("capstan explain %s %s", p.kind.Resource.GroupResource(), p.name)
	if p.namespace != "" {
		text += " -n " + p.namespace
	}
	return text
}

// pruneTemplate returns an object of a cluster as it is on the hub.
func pruneTemplate(chain interpret.Chain, live *unstructured.Unstructured) *unstructured.Unstructured {
	pruned := chain.PruneObject(live)
	annotations := pruned.GetAnnotations()
	for _, own := range []string{corev1.LastAppliedConfigAnnotation, "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"} {
		delete(annotations, own)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	pruned.SetAnnotations(annotations)
	return pruned
}

// onHub finds out whether the object is already on the hub, and whether it may be
// taken for that.
func (p *promotionRun) onHub(ctx context.Context) error {
	found := emptyObject(p.kind.GroupVersionKind)
	err := p.reads.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: p.name}, found)
	if apierrors.IsNotFound(err) {
		return p.planNamespace(ctx)
	}
	if err != nil {
		return err
	}
	if claims.HasClaimMarks(found) {
		return exit.Next(fmt.Errorf("%s is already on the hub, and %s claims it", p.promotedObjectName(), claimingPolicy(found)),
			"If it is the same object, add cluster %s to that policy, with conflictResolution: Overwrite: that promotes it. \"%s\" tells where it is.", p.cluster, p.followUpCommand())
	}
	if !equalContent(p.chain, p.plan.template, found) {
		return exit.Next(fmt.Errorf("%s is already on the hub, and differs from the one in cluster %s", p.promotedObjectName(), p.cluster),
			"Promoting it would change what runs in the cluster: make them equal, or delete the one on the hub, which no policy sends anywhere.")
	}
	p.plan.there[p.plan.template] = true
	p.plan.objects = append(p.plan.objects, p.plan.template)
	return nil
}

// claimingPolicy names the policy that claims an object.
func claimingPolicy(object client.Object) string {
	annotations := object.GetAnnotations()
	if name := annotations[policyv1alpha1.AnnotationPropagationPolicyName]; name != "" {
		return "PropagationPolicy " + annotations[policyv1alpha1.AnnotationPropagationPolicyNamespace] + "/" + name
	}
	return "ClusterPropagationPolicy " + annotations[policyv1alpha1.AnnotationClusterPropagationPolicyName]
}

// planNamespace makes the namespace of the object a part of the plan, unless the hub has it.
func (p *promotionRun) planNamespace(ctx context.Context) error {
	defer func() { p.plan.objects = append(p.plan.objects, p.plan.template) }()
	if p.namespace == "" {
		return nil
	}
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err := p.reads.Get(ctx, client.ObjectKey{Name: p.namespace}, found)
	if !apierrors.IsNotFound(err) {
		return err
	}
	namespace := emptyObject(kind)
	namespace.SetName(p.namespace)
	p.plan.objects = append(p.plan.objects, namespace)
	return nil
}
