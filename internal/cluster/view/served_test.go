// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func serving(complete bool, kinds ...string) *fleetv1alpha1.ClusterConnection {
	connection := &fleetv1alpha1.ClusterConnection{}
	served := fleetv1alpha1.APIEnablement{GroupVersion: "apps/v1"}
	for _, kind := range kinds {
		served.Resources = append(served.Resources, fleetv1alpha1.APIResource{Kind: kind})
	}
	connection.Status.APIEnablements = []fleetv1alpha1.APIEnablement{served}
	status := metav1.ConditionFalse
	if complete {
		status = metav1.ConditionTrue
	}
	connection.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements, Status: status}}
	return connection
}

func TestLacks(t *testing.T) {
	for name, test := range map[string]struct {
		served           ServedKinds
		apiVersion, kind string
		want             bool
	}{
		"it serves the kind":        {ServedBy(serving(true, "DaemonSet", "Deployment")), "apps/v1", "Deployment", false},
		"it does not":               {ServedBy(serving(true, "Deployment")), "apps/v1", "DaemonSet", true},
		"it serves another version": {ServedBy(serving(true, "Deployment")), "apps/v2", "Deployment", true},
		"a longer kind":             {ServedBy(serving(true, "DeploymentList")), "apps/v1", "Deployment", true},
		"a shorter version":         {ServedBy(serving(true, "Deployment")), "s/v1", "Deployment", true},
		"the list is not complete":  {ServedBy(serving(false, "Deployment")), "apps/v1", "DaemonSet", false},
		"there is no list":          {ServedBy(&fleetv1alpha1.ClusterConnection{}), "apps/v1", "DaemonSet", false},
		"there is no connection":    {ServedBy(nil), "apps/v1", "DaemonSet", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.served.LacksKind(test.apiVersion, test.kind); got != test.want {
				t.Errorf("lacks: %t, want %t", got, test.want)
			}
		})
	}
	if one, other := ServedBy(serving(true, "Deployment")), ServedBy(serving(true, "Deployment")); one != other {
		t.Error("two clusters of one version do not serve the same")
	}
}

// TestALongGroupVersionIsNotRepeated has an agent report a group and version of 10,000
// bytes with 1,000 kinds, which are 10 MB with the one before each of the others.
func TestALongGroupVersionIsNotRepeated(t *testing.T) {
	connection := serving(true, "Deployment")
	hostile := fleetv1alpha1.APIEnablement{GroupVersion: strings.Repeat("x", 10_000)}
	for i := range 1000 {
		hostile.Resources = append(hostile.Resources, fleetv1alpha1.APIResource{Kind: fmt.Sprint(i)})
	}
	connection.Status.APIEnablements = append(connection.Status.APIEnablements, hostile)
	served := ServedBy(connection)
	if n := len(served.kinds.Value()); n > kindsBytesMax {
		t.Errorf("the list of kinds has %d bytes, want up to %d", n, kindsBytesMax)
	}
	if served.LacksKind("apps/v1", "Deployment") || served.LacksKind("apps/v1", "DaemonSet") {
		t.Error("a list that was cut says what the cluster lacks")
	}
}

func TestRoomOf(t *testing.T) {
	quantities := func(pods, cpu string) fleetv1alpha1.ResourceList {
		return fleetv1alpha1.ResourceList{"pods": resource.MustParse(pods), "cpu": resource.MustParse(cpu)}
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	connection.Status.ResourceSummary = &fleetv1alpha1.ResourceSummary{
		Allocatable: quantities("110", "8"), Allocated: quantities("10", "2500m"), Allocating: quantities("1", "1"),
		AllocatableModelings: []fleetv1alpha1.AllocatableModeling{{Grade: 1, Count: 2}, {Grade: 2}, {Grade: 3, Count: 1}, {Grade: 77, Count: 1}},
	}
	const gib = 1000 << 30 // in thousandths
	want := &FreeRoom{
		Free:   Amounts{"pods": 99_000, "cpu": 4500},
		Grades: []Grade{{Nodes: 2, Least: Amounts{"cpu": 1000, "memory": 4 * gib}}, {Nodes: 1, Least: Amounts{"cpu": 4000, "memory": 32 * gib}}},
	}
	if diff := cmp.Diff(want, FromClusterWithRoom(nil, connection).Room); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	connection.Status.ResourceSummary.AllocatableModelings = nil
	if room := RoomOf(connection); room == nil || room.Grades != nil {
		t.Errorf("without counts of grades the room is %+v", room)
	}
	connection.Status.ResourceSummary.Allocatable = nil
	if room := RoomOf(connection); room != nil {
		t.Errorf("of a cluster that reports nothing the room is %+v", room)
	}
	if FromCluster(nil, connection).Room != nil {
		t.Error("Of reads the room")
	}
}
