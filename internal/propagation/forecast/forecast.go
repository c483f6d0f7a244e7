// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/scope"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// PolicySet are those of the hub at one time.
type PolicySet struct {
	Propagation      []policyv1alpha1.Policy
	ClusterOverrides []policyv1alpha1.ClusterOverridePolicy
	Overrides        []policyv1alpha1.OverridePolicy
}

// HubState is what the hub decides by.
type HubState struct {
	// Present are the policies that there are, and Planned those that there would be.
	Present, Planned PolicySet

	Fleet view.Fleet
	// Blind says that the clusters are not known, so that none can be chosen.
	Blind bool
	Chain interpret.Chain
	// Priorities are the values of PriorityClasses by name.
	Priorities map[string]int32
	// At is the time of the decisions.
	At time.Time

	// Peers are the bindings among which those of workloads are that are kept together
	// or apart. Each decision of this world takes its place among them.
	Peers []workv1alpha2.Binding

	// Hub says what is left alone on a hub that runs what is applied to it.
	Hub scope.Hub

	// selections are those of the planned policies, which may have the UIDs and
	// generations of the present ones.
	selections claims.Selections
	// assumed is what decisions of this world take of the room of clusters.
	assumed map[string]view.Amounts
}

// Subject is an object of the hub.
type Subject struct {
	// Now is the object as it is, nil if there is none, and Then as it would be.
	Now, Then *unstructured.Unstructured
	// Binding is nil if there is none.
	Binding workv1alpha2.Binding
	// NamespaceLabels are those of its namespace.
	NamespaceLabels map[string]string
}

// ObjectForecast is what would become of an object.
type ObjectForecast struct {
	// Now is the policy that has claimed the object, and Then the one that would;
	// nil is none.
	Now, Then policyv1alpha1.Policy
	// Clusters are those that have a copy or would get one, in the order of names.
	Clusters []ClusterForecast
	// Notes say what else matters. Problems are mistakes of the user's that keep the
	// object, or some cluster, from what is asked for.
	Notes, Problems []string
}

// ClusterForecast is what would become of the object in one cluster.
type ClusterForecast struct {
	Name string
	// Now is what the cluster gets as things are, and Then what it would get; nil is
	// nothing.
	Now, Then *ObjectCopy
	// Reason says why it would lose its copy, or why it would not get what it is
	// to have.
	Reason string
}

// ObjectCopy is the object as a cluster gets it.
type ObjectCopy struct {
	Replicas int32
	// Object is nil if its overrides cannot be applied.
	Object *unstructured.Unstructured
	// Overrides are the policies that make it another one than that of the hub.
	Overrides []string
}

// ForecastObject says what would become of an object. Decisions for one object after the other
// see what those before have taken of the room of clusters.
func (w *HubState) ForecastObject(s Subject) ObjectForecast {
	f := &forecast{HubState: w, Subject: s}
	if f.Binding != nil {
		f.after = deepcopy.CopyObject(f.Binding)
	}
	f.forecastDecisions()
	return ObjectForecast{
		Now: f.now, Then: f.then, Clusters: f.forecastClusters(), Notes: f.notes, Problems: sets.List(sets.New(f.problems...)),
	}
}

// WouldClaim returns the policy that would claim an object of which only the metadata
// is known, with or without policies that take objects over.
func (w *HubState) WouldClaim(object selector.Object, preempts bool) policyv1alpha1.Policy {
	return w.selections.ChoosePolicy(object, object, w.Planned.Propagation, preempts)
}

// HasChanges reports whether anything would be another one than it is.
func (o ObjectForecast) HasChanges() bool {
	if claims.PolicyDisplayName(o.Now) != claims.PolicyDisplayName(o.Then) {
		return true
	}
	for _, c := range o.Clusters {
		if c.ChangeKind() != Same {
			return true
		}
	}
	return false
}
