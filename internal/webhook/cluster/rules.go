// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/webhook/advice"
)

// taintSilent adds the taint of a cluster whose agent the hub does not hear of,
// as it is when a cluster is new. The old one is nil then. From there on the
// controller that watches over the agent keeps the taint.
func taintSilent(old *clusterv1.ManagedCluster, taints []clusterv1.Taint) []clusterv1.Taint {
	if old != nil {
		available := meta.FindStatusCondition(old.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
		if available != nil && available.Status != metav1.ConditionUnknown {
			return taints
		}
	}
	silent := clusterv1.Taint{Key: clusterv1.TaintUnreachable, Effect: clusterv1.TaintEffectNoSelect}
	if slices.ContainsFunc(taints, func(t clusterv1.Taint) bool { return t.Key == silent.Key && t.Effect == silent.Effect }) {
		return taints
	}
	return append(taints, silent)
}

// taintID is what makes a taint the same taint as before.
type taintID struct {
	key    string
	value  string
	effect clusterv1.TaintEffect
}

// stampTaints sets the time of each taint that is new or changed to now and
// keeps the others' times. A time that comes from the user is an error; the
// time of the taint with the same key and effect does not count as such, as it
// comes along when a taint's value is edited.
func stampTaints(old, taints []clusterv1.Taint, now metav1.Time) error {
	type edited struct {
		key    string
		effect clusterv1.TaintEffect
		added  int64 // in seconds, as it is stored
	}
	added := map[taintID]metav1.Time{}
	times := map[edited]bool{}
	for _, t := range old {
		added[taintID{t.Key, t.Value, t.Effect}] = t.TimeAdded
		times[edited{t.Key, t.Effect, t.TimeAdded.Unix()}] = true
	}
	for i := range taints {
		t := &taints[i]
		before, unchanged := added[taintID{t.Key, t.Value, t.Effect}]
		same := unchanged && t.TimeAdded.Equal(&before) || times[edited{t.Key, t.Effect, t.TimeAdded.Unix()}]
		if !t.TimeAdded.IsZero() && !same {
			return &advice.AdvisedError{
				Text:   fmt.Sprintf("It is not allowed to set TimeAdded of Taint %q.", t.Key),
				Advice: fmt.Sprintf("the hub sets timeAdded of taints: remove it from the taint %q with effect %s", t.Key, t.Effect),
			}
		}
		if unchanged {
			t.TimeAdded = before
		} else {
			t.TimeAdded = now
		}
	}
	return nil
}

// checkClientConfigs returns what is wrong with the addresses of a cluster.
// Those that it had before are not looked at: an address from before this rule
// must not keep the cluster from being changed.
func checkClientConfigs(old, configs []clusterv1.ClientConfig) error {
	known := sets.New[string]()
	for _, c := range old {
		known.Insert(c.URL)
	}
	for i, c := range configs {
		if known.Has(c.URL) {
			continue
		}
		address, err := url.Parse(c.URL)
		if err != nil || address.Scheme != "https" || address.Hostname() == "" {
			return &advice.AdvisedError{
				Text:   fmt.Sprintf("url %q is invalid in client configs", c.URL),
				Advice: fmt.Sprintf("spec.managedClusterClientConfigs[%d].url is %q, want an address like https://api.example.com:6443", i, c.URL),
			}
		}
	}
	return nil
}

// setsChanged returns the sets that a cluster leaves and enters, for each of
// which the user needs the right to. With defaulting on, a cluster from before that
// enters the default set with any change at all, so nobody needs a right for it.
func setsChanged(old, cluster *clusterv1.ManagedCluster, defaulting bool) []string {
	before := ""
	after := cluster.Labels[clusterv1.LabelClusterSet]
	if old != nil {
		before = old.Labels[clusterv1.LabelClusterSet]
		if before == "" && after == clusterv1.DefaultClusterSet && defaulting {
			return nil
		}
	}
	if before == after {
		return nil
	}
	return slices.DeleteFunc([]string{before, after}, func(set string) bool { return set == "" })
}

// becomesAccepted reports whether the change accepts the cluster. Refusing one
// is nobody's privilege.
func becomesAccepted(old, cluster *clusterv1.ManagedCluster) bool {
	return cluster.Spec.HubAcceptsClient && (old == nil || !old.Spec.HubAcceptsClient)
}

// remembersJoin reports whether the change says otherwise how the cluster joined. The hub
// writes that to know again whom it let in: who could write it would choose whom the hub
// takes for the agent of the cluster, and by removing it that the next one is taken.
func remembersJoin(old, cluster *clusterv1.ManagedCluster) bool {
	if old == nil {
		old = &clusterv1.ManagedCluster{}
	}
	for _, key := range clusterv1.JoinAnnotations() {
		before, was := old.Annotations[key]
		if after, is := cluster.Annotations[key]; is != was || after != before {
			return true
		}
	}
	return false
}

// checkClusterSetBinding returns what is wrong with a binding. That the names agree
// makes one binding of a set in a namespace, and the name in an access review
// that of the set.
func checkClusterSetBinding(binding *clusterv1beta2.ManagedClusterSetBinding) error {
	if binding.Name == binding.Spec.ClusterSet {
		return nil
	}
	return fmt.Errorf("the binding is named %q but binds the set %q: give it the name of the set", binding.Name, binding.Spec.ClusterSet)
}
