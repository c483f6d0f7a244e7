// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/cluster/karmadauid"
)

func connectionOf(change ...func(*fleetv1alpha1.ClusterConnection)) *fleetv1alpha1.ClusterConnection {
	c := &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "one", ResourceVersion: "7", Generation: 99, Labels: map[string]string{"a": "1"}, Annotations: map[string]string{"of": "the-connection"}},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePull, Region: "eu"},
		Cluster: &fleetv1alpha1.ClusterProjection{
			UID: "u", ID: "i", Generation: 3, Accepted: true, Annotations: map[string]string{"of": "the-cluster"},
			Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestAConnectionShowsAsACluster(t *testing.T) {
	got := translate.ClusterFromConnection(connectionOf())
	want := metav1.ObjectMeta{
		Name: "one", UID: karmadauid.ClusterUID("u"), ResourceVersion: "7", Generation: 3, Labels: map[string]string{"a": "1"},
		Annotations: map[string]string{"of": "the-cluster"}, Finalizers: []string{v1alpha1.Finalizer},
	}
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v1alpha1.ClusterSpec{
		ID: "i", SyncMode: v1alpha1.Pull, Region: "eu", ResourceModels: translate.DefaultModels(),
		Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}},
	}, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if got := translate.ClusterFromConnection(connectionOf(func(c *fleetv1alpha1.ClusterConnection) { c.Cluster = nil })); got != nil {
		t.Errorf("the connection of no ManagedCluster shows as %v", got)
	}
}

func TestReadyIsInKarmadasWords(t *testing.T) {
	at := metav1.NewTime(time.Unix(1e9, 0))
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "why", LastTransitionTime: at}
	}
	available := func(status metav1.ConditionStatus) func(*fleetv1alpha1.ClusterConnection) {
		return func(c *fleetv1alpha1.ClusterConnection) {
			c.Cluster.Conditions = []metav1.Condition{condition(clusterv1.ManagedClusterConditionAvailable, status)}
		}
	}
	unreachable := func(c *fleetv1alpha1.ClusterConnection) {
		c.Spec.SyncMode = fleetv1alpha1.SyncModePush
		c.Status.Conditions = []metav1.Condition{condition(fleetv1alpha1.ClusterConnectionConditionConnected, metav1.ConditionFalse)}
	}
	lacking := func(c *fleetv1alpha1.ClusterConnection) {
		unreachable(c)
		c.Status.Conditions[0].Reason = fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing
	}
	waiting := func(c *fleetv1alpha1.ClusterConnection) {
		c.Spec.SyncMode = fleetv1alpha1.SyncModePush
		c.Cluster.AwaitedSecrets = []fleetv1alpha1.AwaitedSecret{{Copy: fleetv1alpha1.DefaultSecretName, RequestedAt: at, Message: "create it"}}
	}
	credential := func(reason string) func(*fleetv1alpha1.ClusterConnection) {
		return func(c *fleetv1alpha1.ClusterConnection) {
			found := condition(fleetv1alpha1.ClusterConnectionConditionCredentialsValid, metav1.ConditionFalse)
			found.Reason = reason
			c.Status.Conditions = append(c.Status.Conditions, found)
		}
	}
	for name, test := range map[string]struct {
		change []func(*fleetv1alpha1.ClusterConnection)
		want   string
	}{
		"PushWaits": {[]func(*fleetv1alpha1.ClusterConnection){waiting}, "False ClusterNotReachable create it"},
		"PushMissing": {
			[]func(*fleetv1alpha1.ClusterConnection){unreachable, credential(fleetv1alpha1.ClusterConnectionReasonSecretMissing), waiting},
			"False ClusterNotReachable create it",
		},
		"PushHasAnother": {
			[]func(*fleetv1alpha1.ClusterConnection){unreachable, credential(fleetv1alpha1.ClusterConnectionReasonUnauthorized), waiting},
			"False ClusterNotReachable why",
		},
		"Ready":     {[]func(*fleetv1alpha1.ClusterConnection){available(metav1.ConditionTrue)}, "True ClusterReady why"},
		"NotReady":  {[]func(*fleetv1alpha1.ClusterConnection){available(metav1.ConditionFalse)}, "False ClusterNotReady why"},
		"Silent":    {[]func(*fleetv1alpha1.ClusterConnection){available(metav1.ConditionUnknown)}, "Unknown ClusterStatusUnknown why"},
		"Push":      {[]func(*fleetv1alpha1.ClusterConnection){available(metav1.ConditionUnknown), unreachable}, "False ClusterNotReachable why"},
		"PushFirst": {[]func(*fleetv1alpha1.ClusterConnection){unreachable}, "False ClusterNotReachable why"},
		"PushLacks": {[]func(*fleetv1alpha1.ClusterConnection){lacking}, "False ClusterNotReady why"},
		"PushLost":  {[]func(*fleetv1alpha1.ClusterConnection){available(metav1.ConditionTrue), lacking}, "False ClusterNotReady why"},
		"New":       {nil, "Unknown ClusterStatusUnknown The cluster has not reported its state yet"},
		"NotAccepted": {
			[]func(*fleetv1alpha1.ClusterConnection){available(metav1.ConditionTrue), func(c *fleetv1alpha1.ClusterConnection) { c.Cluster.Accepted = false }},
			"Unknown ClusterStatusUnknown The hub does not accept the cluster",
		},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := translate.ClusterFromConnection(connectionOf(test.change...)).Status.Conditions
			if len(conditions) != 1 {
				t.Fatalf("conditions are %v, want Ready only", conditions)
			}
			c := conditions[0]
			if got := string(c.Status) + " " + c.Reason + " " + c.Message; c.Type != v1alpha1.ClusterConditionReady || got != test.want {
				t.Errorf("%s is %q, want %q", c.Type, got, test.want)
			}
		})
	}
}

func TestConditionsOfOthersAreKeptBesideOurs(t *testing.T) {
	condition := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason}
	}
	connection := connectionOf(func(c *fleetv1alpha1.ClusterConnection) {
		c.Status.Conditions = []metav1.Condition{
			condition("Connected", "ours"), condition("CompleteAPIEnablements", "ours"),
			condition("CompleteResourceSummary", "ours"), condition("Kept", "old"), condition("Removed", "old"),
		}
	})
	got := translate.MergeConditions(connection, []metav1.Condition{
		condition("Ready", "forged"), condition("Connected", "forged"), condition("CompleteResourceSummary", "forged"), condition("Kept", "new"), condition("Added", "new"),
	})
	want := []metav1.Condition{
		condition("Connected", "ours"), condition("CompleteAPIEnablements", "ours"), condition("CompleteResourceSummary", "ours"),
		condition("Kept", "new"), condition("Added", "new"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// TestAClusterIsStoredAsItReadsBack stores Clusters and compares what is shown
// afterwards.
func TestAClusterIsStoredAsItReadsBack(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Cluster){
		"Nothing": func(*v1alpha1.Cluster) {},
		"Push": func(c *v1alpha1.Cluster) {
			c.Spec.SyncMode, c.Spec.APIEndpoint, c.Spec.ProxyURL = v1alpha1.Push, "https://a", "http://p"
			c.Spec.ProxyHeader = map[string]string{"h": "v"}
			c.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: "one", Name: "cluster-connection"}
		},
		"SecretElsewhere": func(c *v1alpha1.Cluster) {
			c.Spec.SecretRef = &v1alpha1.LocalSecretReference{Namespace: "other", Name: "s"}
			c.Spec.ImpersonatorSecretRef = &v1alpha1.LocalSecretReference{Namespace: "one", Name: "own"}
		},
		"Metadata": func(c *v1alpha1.Cluster) {
			c.Labels, c.Annotations, c.Generation = map[string]string{"b": "2"}, nil, 4
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}}
		},
		"Taints": func(c *v1alpha1.Cluster) {
			c.Spec.Taints = []corev1.Taint{{Key: "new", Effect: corev1.TaintEffectNoExecute}}
		},
		"NoModels": func(c *v1alpha1.Cluster) { c.Spec.ResourceModels = nil },
		"Models": func(c *v1alpha1.Cluster) {
			c.Spec.ResourceModels = []v1alpha1.ResourceModel{{Ranges: []v1alpha1.ResourceModelRange{{Name: "cpu", Max: resource.MustParse("9223372036854775807")}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			connection := connectionOf()
			want := translate.ClusterFromConnection(connection)
			change(want)
			if err := translate.StoreCluster(connection, want, "id"); err != nil {
				t.Fatal(err)
			}
			got := translate.ClusterFromConnection(connection)
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })); diff != "" {
				t.Errorf("the Cluster after it was stored (-want +got):\n%s", diff)
			}
			if connection.Annotations["of"] != "the-connection" || connection.Cluster.UID != "u" {
				t.Errorf("the connection is %+v, want that its own metadata stays", connection)
			}
		})
	}
}

func TestAClusterWaitsForTheSecretsToWhichItRefersAsBefore(t *testing.T) {
	ref := func(name string) *v1alpha1.LocalSecretReference {
		return &v1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: name}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Cluster)
		want   []string
	}{
		"another field":        {func(c *v1alpha1.Cluster) { c.Spec.Provider = "acme" }, []string{"cluster-connection", "cluster-impersonator"}},
		"another Secret":       {func(c *v1alpha1.Cluster) { c.Spec.SecretRef = ref("other") }, []string{"cluster-impersonator"}},
		"another impersonator": {func(c *v1alpha1.Cluster) { c.Spec.ImpersonatorSecretRef = ref("other") }, []string{"cluster-connection"}},
		"none":                 {func(c *v1alpha1.Cluster) { c.Spec.SecretRef, c.Spec.ImpersonatorSecretRef = nil, nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			connection := connectionOf(func(c *fleetv1alpha1.ClusterConnection) {
				c.Cluster.SecretRef = &fleetv1alpha1.NamespacedSecretReference{Namespace: "karmada-cluster", Name: "one"}
				c.Cluster.ImpersonatorSecretRef = &fleetv1alpha1.NamespacedSecretReference{Namespace: "karmada-cluster", Name: "two"}
				c.Cluster.AwaitedSecrets = []fleetv1alpha1.AwaitedSecret{{Copy: "cluster-connection"}, {Copy: "cluster-impersonator"}}
			})
			cluster := translate.ClusterFromConnection(connection)
			test.change(cluster)
			if err := translate.StoreCluster(connection, cluster, "id"); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, awaited := range connection.Cluster.AwaitedSecrets {
				got = append(got, awaited.Copy)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what is waited for (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWriteSaysWhatTheManagedClusterBecomes(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	for name, test := range map[string]struct {
		pending *fleetv1alpha1.ClusterIntent
		change  func(*v1alpha1.Cluster)
		want    *fleetv1alpha1.ClusterIntent
	}{
		"Nothing": {change: func(c *v1alpha1.Cluster) { c.Spec.Region = "us" }},
		"Labels": {
			change: func(c *v1alpha1.Cluster) { c.Labels = map[string]string{"b": "2"} },
			want:   &fleetv1alpha1.ClusterIntent{ID: "id", Labels: map[string]string{"b": "2"}, RemovedLabels: []string{"a"}},
		},
		"Taints": {
			change: func(c *v1alpha1.Cluster) { c.Spec.Taints = []corev1.Taint{taint("n", "", corev1.TaintEffectNoExecute)} },
			want: &fleetv1alpha1.ClusterIntent{
				ID: "id", Taints: []corev1.Taint{taint("n", "", corev1.TaintEffectNoExecute)}, RemovedTaints: []corev1.Taint{taint("k", "v", corev1.TaintEffectNoSchedule)},
			},
		},
		"LaterCounts": {
			pending: &fleetv1alpha1.ClusterIntent{ID: "earlier", Accept: true, Labels: map[string]string{"a": "1", "x": "1"}, RemovedLabels: []string{"b"}},
			change:  func(c *v1alpha1.Cluster) { c.Labels = map[string]string{"b": "2"} },
			want:    &fleetv1alpha1.ClusterIntent{ID: "id", Accept: true, Labels: map[string]string{"x": "1", "b": "2"}, RemovedLabels: []string{"a"}},
		},
		"TaintComesBack": {
			pending: &fleetv1alpha1.ClusterIntent{ID: "earlier", RemovedTaints: []corev1.Taint{taint("n", "", corev1.TaintEffectNoExecute)}},
			change: func(c *v1alpha1.Cluster) {
				c.Spec.Taints = append(c.Spec.Taints, taint("n", "", corev1.TaintEffectNoExecute))
			},
			want: &fleetv1alpha1.ClusterIntent{ID: "id", Taints: []corev1.Taint{taint("n", "", corev1.TaintEffectNoExecute)}},
		},
		"Delete": {
			change: func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{} },
			want:   &fleetv1alpha1.ClusterIntent{ID: "id", Delete: true},
		},
		"Force": {
			pending: &fleetv1alpha1.ClusterIntent{ID: "earlier", Delete: true},
			change:  func(c *v1alpha1.Cluster) { c.DeletionTimestamp, c.Finalizers = &metav1.Time{}, nil },
			want:    &fleetv1alpha1.ClusterIntent{ID: "id", Delete: true, Force: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			connection := connectionOf(func(c *fleetv1alpha1.ClusterConnection) { c.Cluster.Intent = test.pending })
			cluster := translate.ClusterFromConnection(connection)
			test.change(cluster)
			if err := translate.StoreCluster(connection, cluster, "id"); err != nil {
				t.Fatal(err)
			}
			got := connection.Cluster.Intent
			if got != nil && len(got.RemovedLabels) == 0 {
				got.RemovedLabels = nil
			}
			if got != nil && len(got.RemovedTaints) == 0 {
				got.RemovedTaints = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("intent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheStatusIsWhatTheAgentReports(t *testing.T) {
	one, two := resource.MustParse("1"), resource.MustParse("2")
	connection := connectionOf(func(c *fleetv1alpha1.ClusterConnection) {
		c.Status.KubernetesVersion = "v1.36.3"
		c.Status.APIEnablements = []fleetv1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []fleetv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}}}
		c.Status.NodeSummary = &fleetv1alpha1.NodeSummary{TotalNum: 3, ReadyNum: 2}
		c.Status.ResourceSummary = &fleetv1alpha1.ResourceSummary{
			Allocatable: fleetv1alpha1.ResourceList{"cpu": two}, Allocating: fleetv1alpha1.ResourceList{"cpu": one}, Allocated: fleetv1alpha1.ResourceList{"memory": one},
			AllocatableModelings: []fleetv1alpha1.AllocatableModeling{{Grade: 1, Count: 2}},
		}
		c.Status.Conditions = []metav1.Condition{{Type: "CompleteResourceSummary", ObservedGeneration: 7}}
	})
	got := translate.ClusterFromConnection(connection).Status
	if got.RemedyActions != nil || len(got.Conditions) != 2 || got.Conditions[1] != (metav1.Condition{Type: "CompleteResourceSummary"}) {
		t.Errorf("conditions are %v and remedyActions %v, want Ready, that of the agent without a generation of its own, and no actions", got.Conditions, got.RemedyActions)
	}
	got.Conditions = nil
	if diff := cmp.Diff(v1alpha1.ClusterStatus{
		KubernetesVersion: "v1.36.3",
		APIEnablements:    []v1alpha1.APIEnablement{{GroupVersion: "apps/v1", Resources: []v1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}}},
		NodeSummary:       &v1alpha1.NodeSummary{TotalNum: 3, ReadyNum: 2},
		ResourceSummary: &v1alpha1.ResourceSummary{
			Allocatable: corev1.ResourceList{"cpu": two}, Allocating: corev1.ResourceList{"cpu": one}, Allocated: corev1.ResourceList{"memory": one},
			AllocatableModelings: []v1alpha1.AllocatableModeling{{Grade: 1, Count: 2}},
		},
	}, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestAClusterIsWhereItsNodesAreUnlessSomebodySaysOtherwise(t *testing.T) {
	connection := connectionOf(func(c *fleetv1alpha1.ClusterConnection) {
		c.Spec.Region = ""
		c.Status.Provider, c.Status.Region, c.Status.Zones = "aws", "us", []string{"us-1"}
	})
	cluster := translate.ClusterFromConnection(connection)
	if diff := cmp.Diff([]any{"aws", "us", []string{"us-1"}}, []any{cluster.Spec.Provider, cluster.Spec.Region, cluster.Spec.Zones}); diff != "" {
		t.Errorf("what the agent reports (-want +got):\n%s", diff)
	}
	cluster.Spec.Provider, cluster.Spec.Zones = "acme", []string{"a"}
	if err := translate.StoreCluster(connection, cluster, "id"); err != nil {
		t.Fatal(err)
	}
	want := []any{"acme", "", []string{"a"}}
	if diff := cmp.Diff(want, []any{connection.Spec.Provider, connection.Spec.Region, connection.Spec.Zones}); diff != "" {
		t.Errorf("what is stored is what changed (-want +got):\n%s", diff)
	}
	cluster = translate.ClusterFromConnection(connection)
	if diff := cmp.Diff([]any{"acme", "us", []string{"a"}}, []any{cluster.Spec.Provider, cluster.Spec.Region, cluster.Spec.Zones}); diff != "" {
		t.Errorf("after it was written (-want +got):\n%s", diff)
	}
	cluster.Spec.Provider, cluster.Spec.Zones = "", nil
	translate.LocateCluster(cluster, connection)
	if err := translate.StoreCluster(connection, cluster, "id"); err != nil {
		t.Fatal(err)
	}
	if connection.Spec.Provider != "" || connection.Spec.Zones != nil {
		t.Errorf("provider %q and zones %v are stored, want that they follow the nodes again", connection.Spec.Provider, connection.Spec.Zones)
	}
	if cluster = translate.ClusterFromConnection(connection); cluster.Spec.Provider != "aws" || len(cluster.Spec.Zones) != 1 {
		t.Errorf("spec is %+v, want what the agent reports again", cluster.Spec)
	}
}

func TestAPullClusterIsWhereItsAgentSaysUnlessSomebodySaysOtherwise(t *testing.T) {
	const reported, written = "https://reported.example.com", "https://written.example.com"
	for name, test := range map[string]struct {
		stored, want string
		change       func(*v1alpha1.Cluster)
	}{
		"Reported":      {"", "", func(*v1alpha1.Cluster) {}},
		"SentBack":      {"", "", func(c *v1alpha1.Cluster) { c.Spec.Region = "us" }},
		"Written":       {"", written, func(c *v1alpha1.Cluster) { c.Spec.APIEndpoint = written }},
		"Kept":          {reported, reported, func(c *v1alpha1.Cluster) { c.Spec.Region = "us" }},
		"Removed":       {written, "", func(c *v1alpha1.Cluster) { c.Spec.APIEndpoint = "" }},
		"CreatedAsPush": {"", reported, func(c *v1alpha1.Cluster) { c.Spec.SyncMode = v1alpha1.Push }},
	} {
		t.Run(name, func(t *testing.T) {
			connection := connectionOf(func(c *fleetv1alpha1.ClusterConnection) {
				c.Spec.APIEndpoint, c.Cluster.APIEndpoint = test.stored, reported
			})
			cluster := translate.ClusterFromConnection(connection)
			shown := reported
			if test.stored != "" {
				shown = test.stored
			}
			if cluster.Spec.APIEndpoint != shown {
				t.Errorf("it is shown at %q, want %q", cluster.Spec.APIEndpoint, shown)
			}
			test.change(cluster)
			translate.LocateCluster(cluster, connection)
			if err := translate.StoreCluster(connection, cluster, "id"); err != nil {
				t.Fatal(err)
			}
			if connection.Spec.APIEndpoint != test.want {
				t.Errorf("%q is stored, want %q", connection.Spec.APIEndpoint, test.want)
			}
		})
	}
	push := connectionOf(func(c *fleetv1alpha1.ClusterConnection) {
		c.Spec.SyncMode, c.Cluster.APIEndpoint = fleetv1alpha1.SyncModePush, reported
	})
	if got := translate.ClusterFromConnection(push).Spec.APIEndpoint; got != "" {
		t.Errorf("a Push cluster shows %q, which only an agent said: nobody may connect to that", got)
	}
}
