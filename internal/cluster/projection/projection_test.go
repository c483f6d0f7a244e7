// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func at(second int) metav1.Time { return metav1.NewTime(time.Unix(int64(1_000_000+second), 0)) }

// member is a ManagedCluster with a bit of everything.
func member(changes ...func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: "east", UID: "uid", ResourceVersion: "100", CreationTimestamp: at(0), Labels: map[string]string{"zone": "a"},
		},
		Spec: clusterv1.ManagedClusterSpec{Taints: []clusterv1.Taint{{Key: "gpu", Effect: clusterv1.TaintEffectNoSelectIfNew, TimeAdded: at(1)}}},
		Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "Fine", LastTransitionTime: at(2),
		}}},
	}
	for _, change := range changes {
		change(mc)
	}
	return mc
}

// mirrored is the ClusterConnection of that.
func mirrored(changes ...func(*fleetv1alpha1.ClusterConnection)) *fleetv1alpha1.ClusterConnection {
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{
		Name: "east", Annotations: map[string]string{fleetv1alpha1.AnnotationClusterID: "id"},
	}}
	RefreshMirror(connection, member())
	for _, change := range changes {
		change(connection)
	}
	return connection
}

func TestANewMirror(t *testing.T) {
	added := at(1)
	want := &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{
			Name: "east", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{fleetv1alpha1.AnnotationClusterID: "id"},
		},
		Cluster: &fleetv1alpha1.ClusterProjection{
			UID: "uid", ID: "id", ResourceVersion: "100", CreationTimestamp: at(0), Generation: 1,
			Taints:     []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &added}},
			Conditions: member().Status.Conditions,
		},
	}
	if diff := cmp.Diff(want, mirrored()); diff != "" {
		t.Errorf("the mirror (-want +got):\n%s", diff)
	}
}

func TestWhatChangesAMirror(t *testing.T) {
	type changed struct{ generation, version, labels bool }
	own := func(c *fleetv1alpha1.ClusterConnection) {
		c.Cluster.Generation, c.Cluster.Annotations = 7, map[string]string{"mine": "yes"}
		c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{Accept: true}
	}
	deleted := at(9)
	cases := map[string]struct {
		change func(*clusterv1.ManagedCluster)
		want   changed
	}{
		"a heartbeat":              {func(mc *clusterv1.ManagedCluster) { mc.Spec.LeaseDurationSeconds = 5 }, changed{}},
		"an annotation":            {func(mc *clusterv1.ManagedCluster) { mc.Annotations = map[string]string{"a": "b"} }, changed{}},
		"a report":                 {func(mc *clusterv1.ManagedCluster) { mc.Status.Version.Kubernetes = "v1.99.0" }, changed{}},
		"a condition's generation": {func(mc *clusterv1.ManagedCluster) { mc.Status.Conditions[0].ObservedGeneration = 9 }, changed{}},
		"a label":                  {func(mc *clusterv1.ManagedCluster) { mc.Labels["zone"] = "b" }, changed{labels: true, version: true}},
		"a condition":              {func(mc *clusterv1.ManagedCluster) { mc.Status.Conditions[0].Message = "bad" }, changed{version: true}},
		"acceptance":               {func(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = true }, changed{version: true}},
		"deletion":                 {func(mc *clusterv1.ManagedCluster) { mc.DeletionTimestamp = &deleted }, changed{version: true}},
		"a taint":                  {func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints[0].Value = "v" }, changed{version: true, generation: true}},
		"a taint's time":           {func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints[0].TimeAdded = at(5) }, changed{version: true}},
		"no taints":                {func(mc *clusterv1.ManagedCluster) { mc.Spec.Taints = nil }, changed{version: true, generation: true}},
		"an address": {func(mc *clusterv1.ManagedCluster) {
			mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://b"}}
		}, changed{version: true, generation: true}},
		"a CA": {func(mc *clusterv1.ManagedCluster) {
			mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{CABundle: []byte("ca")}}
		}, changed{}},
		"a second name": {func(mc *clusterv1.ManagedCluster) {
			mc.Status.Conditions[0].Type = clusterv1.ManagedClusterConditionDuplicateIdentity
		}, changed{version: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			connection := mirrored(own)
			after := member(tc.change, func(mc *clusterv1.ManagedCluster) { mc.ResourceVersion = "101" })
			RefreshMirror(connection, after)
			got := changed{
				generation: connection.Cluster.Generation == 8, version: connection.Cluster.ResourceVersion == "101",
				labels: connection.Labels["zone"] == "b",
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if connection.Cluster.Annotations["mine"] != "yes" || connection.Cluster.Intent == nil {
				t.Errorf("what is the Cluster's own is lost: %+v", connection.Cluster)
			}
			if matters := tc.want != (changed{}); MirrorsDiffer(member(), after) != matters {
				t.Errorf("the change counts for the controller: %t, want %t", !matters, matters)
			}
			again := connection.DeepCopy()
			if RefreshMirror(again, after); !cmp.Equal(again, connection) {
				t.Errorf("a right mirror changes:\n%s", cmp.Diff(connection, again))
			}
		})
	}
}

func TestALaterNameOfAClusterHasNoIdentity(t *testing.T) {
	twin := func(mc *clusterv1.ManagedCluster) {
		mc.Status.Conditions = append(mc.Status.Conditions, metav1.Condition{
			Type: clusterv1.ManagedClusterConditionDuplicateIdentity, Status: metav1.ConditionTrue, Reason: clusterv1.ManagedClusterReasonAlreadyJoined,
		})
	}
	connection := mirrored()
	RefreshMirror(connection, member(twin))
	if connection.Cluster.ID != "" || len(connection.Cluster.Conditions) != 2 {
		t.Errorf("the twin is %q with the conditions %v", connection.Cluster.ID, connection.Cluster.Conditions)
	}
	RefreshMirror(connection, member())
	if connection.Cluster.ID != "id" {
		t.Errorf("the only one is %q", connection.Cluster.ID)
	}
	unverified := &fleetv1alpha1.ClusterConnection{Status: fleetv1alpha1.ClusterConnectionStatus{ID: "of another one"}}
	if RefreshMirror(unverified, member()); unverified.Cluster.ID != "" {
		t.Errorf("an agent says that its cluster is %q, and is believed", unverified.Cluster.ID)
	}
}

func TestAClusterOfAnEarlierLife(t *testing.T) {
	connection := mirrored(func(c *fleetv1alpha1.ClusterConnection) {
		c.Cluster.Generation, c.Cluster.Annotations = 7, map[string]string{"mine": "yes"}
		c.Cluster.Intent = &fleetv1alpha1.ClusterIntent{Delete: true}
		c.Cluster.AwaitedSecrets = []fleetv1alpha1.AwaitedSecret{{Copy: fleetv1alpha1.DefaultSecretName}}
	})
	reborn := member(func(mc *clusterv1.ManagedCluster) { mc.UID, mc.ResourceVersion = "other", "99" })
	if !IsAhead(connection, reborn) {
		t.Error("a ManagedCluster that may be an earlier one is believed")
	}
	RefreshMirror(connection, reborn)
	if c := connection.Cluster; c.UID != "other" || c.Generation != 1 || c.Annotations != nil || c.Intent != nil || c.AwaitedSecrets != nil {
		t.Errorf("the new one inherits: %+v", c)
	}
}

func TestAhead(t *testing.T) {
	for version, want := range map[string]bool{"99": true, "100": false, "101": false, "1000": false, "": false} {
		mc := member(func(mc *clusterv1.ManagedCluster) { mc.ResourceVersion = version })
		if got := IsAhead(mirrored(), mc); got != want {
			t.Errorf("a mirror of 100 is ahead of %q: %t", version, got)
		}
	}
	if IsAhead(&fleetv1alpha1.ClusterConnection{}, member()) {
		t.Error("there is no mirror, and it is ahead")
	}
}
