// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/webhook/advice"
)

func TestClusterNamesAreNamespacesThatAreNobodyElses(t *testing.T) {
	cases := map[string]struct {
		reason string
		name   string
		want   string // part of the error; "" for none
	}{
		"a plain name is fine":                                {name: "cluster1"},
		"a name of 63 characters is fine":                     {name: strings.Repeat("a", 63)},
		"a name that only begins like a reserved one is fine": {name: "kubernetes-prod"},
		"a name of OpenShift is fine without its namespace":   {name: "openshift-prod"},
		"a name with dots is no namespace":                    {name: "a.b", want: "must not contain dots"},
		"a name of 64 characters is no namespace":             {name: strings.Repeat("a", 64), want: "must be no more than 63"},
		"a name with capitals is no namespace":                {name: "Cluster1", want: "lower case"},
		"Kubernetes keeps its Leases in kube-system":          {name: "kube-system", want: "for Kubernetes"},
		"the kubelets' heartbeats are in kube-node-lease":     {name: "kube-node-lease", want: "for Kubernetes"},
		"the default namespace is everybody's":                {name: "default", want: "for Kubernetes"},
		"the operators' namespace is reserved":                {name: "open-cluster-management", want: "the fleet's own components"},
		"the hub's namespace is reserved":                     {name: "open-cluster-management-hub", want: "register the cluster under another name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { expect(t, checkClusterName(tc.name), tc.want) })
	}
}

func TestExistingNamespacesAreNotGivenAwaySilently(t *testing.T) {
	namespace := func(labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	}
	cases := map[string]struct {
		cluster     string
		namespace   *corev1.Namespace
		wantWarning string
		want        string
	}{
		"no namespace is the usual case":       {cluster: "c1"},
		"the cluster's own namespace is fine":  {cluster: "c1", namespace: namespace(map[string]string{clusterv1.LabelClusterName: "c1"})},
		"another namespace makes a warning":    {cluster: "argocd", namespace: namespace(nil), wantWarning: "its agent may write Leases"},
		"a namespace of OpenShift is refused":  {cluster: "openshift-etcd", namespace: namespace(nil), want: "that OpenShift uses"},
		"unless it was made for the cluster":   {cluster: "openshift-prod", namespace: namespace(map[string]string{clusterv1.LabelClusterName: "openshift-prod"})},
		"a free name of OpenShift is accepted": {cluster: "openshift-prod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			warning, err := checkNamespace(tc.cluster, tc.namespace)
			expect(t, err, tc.want)
			if !strings.Contains(warning, tc.wantWarning) || (tc.wantWarning == "") != (warning == "") {
				t.Errorf("got warning %q, want one with %q", warning, tc.wantWarning)
			}
		})
	}
}

func TestTaintsGetTheirTimeFromTheHub(t *testing.T) {
	now := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	before := metav1.NewTime(now.Add(-time.Hour))
	taint := func(value string, added metav1.Time) clusterv1.Taint {
		return clusterv1.Taint{Key: "k", Value: value, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: added}
	}
	cases := map[string]struct {
		reason    string
		old       []clusterv1.Taint
		taints    []clusterv1.Taint
		want      []clusterv1.Taint
		wantError string
		advice    string
	}{
		"a new taint gets the time": {
			taints: []clusterv1.Taint{taint("v", metav1.Time{})}, want: []clusterv1.Taint{taint("v", now)},
		},
		"an unchanged taint keeps its time": {
			old: []clusterv1.Taint{taint("v", before)}, taints: []clusterv1.Taint{taint("v", before)}, want: []clusterv1.Taint{taint("v", before)},
		},
		"an unchanged taint without a time keeps the stored one": {
			reason: "kubectl apply sends what stands in the file",
			old:    []clusterv1.Taint{taint("v", before)}, taints: []clusterv1.Taint{taint("v", metav1.Time{})}, want: []clusterv1.Taint{taint("v", before)},
		},
		"a taint with another value gets a new time": {
			reason: "kubectl edit sends the old time along",
			old:    []clusterv1.Taint{taint("v", before)}, taints: []clusterv1.Taint{taint("w", before)}, want: []clusterv1.Taint{taint("w", now)},
		},
		"a time of the user's is refused on a new taint": {
			taints: []clusterv1.Taint{taint("v", before)}, wantError: `It is not allowed to set TimeAdded of Taint "k".`,
			advice: `the hub sets timeAdded of taints: remove it from the taint "k" with effect NoSelect`,
		},
		"a time of the user's is refused on an old taint": {
			reason: "tolerations with a limit count from it",
			old:    []clusterv1.Taint{taint("v", before)}, taints: []clusterv1.Taint{taint("v", now)}, wantError: `It is not allowed to set TimeAdded of Taint "k".`,
			advice: "the hub sets timeAdded of taints",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := stampTaints(tc.old, tc.taints, now)
			expect(t, err, tc.wantError)
			if got := strings.Join(advice.WarningsFor(err), ""); tc.advice == "" != (got == "") || !strings.Contains(got, tc.advice) {
				t.Errorf("got advice %q, want one with %q", got, tc.advice)
			}
			if err == nil {
				if diff := cmp.Diff(tc.want, tc.taints); diff != "" {
					t.Errorf("%s\ntaints (-want +got):\n%s", tc.reason, diff)
				}
			}
		})
	}
}

func TestAddressesOfClustersAreHTTPS(t *testing.T) {
	cases := map[string]struct {
		reason string
		old    []clusterv1.ClientConfig
		url    string
		want   string
	}{
		"https is fine":                       {url: "https://api.example.com:6443"},
		"http is refused":                     {url: "http://api.example.com", want: `url "http://api.example.com" is invalid in client configs`},
		"an address without a scheme, too":    {url: "127.0.0.1:8001", want: `url "127.0.0.1:8001" is invalid in client configs`},
		"a name alone is refused":             {url: "api.example.com:6443", want: `url "api.example.com:6443" is invalid in client configs`},
		"https without a host is refused":     {url: "https://:6443", want: `url "https://:6443" is invalid in client configs`},
		"an empty address is refused":         {url: "", want: `url "" is invalid in client configs`},
		"an address that was there may stay":  {old: []clusterv1.ClientConfig{{URL: "http://old"}}, url: "http://old", reason: "or the cluster could not be deleted"},
		"what cannot be an address is refuse": {url: "https://[::1", want: `url "https://[::1" is invalid in client configs`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkClientConfigs(tc.old, []clusterv1.ClientConfig{{URL: tc.url}})
			expect(t, err, tc.want)
			if err == nil {
				return
			}
			if err.Error() != tc.want {
				t.Errorf("got %q: clients compare the whole of it, want %q", err, tc.want)
			}
			want := fmt.Sprintf("spec.managedClusterClientConfigs[0].url is %q, want an address like https://api.example.com:6443", tc.url)
			if diff := cmp.Diff([]string{want}, advice.WarningsFor(err)); diff != "" {
				t.Errorf("the advice (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMovingBetweenSetsNeedsBothSets(t *testing.T) {
	in := func(set string) *clusterv1.ManagedCluster {
		cluster := &clusterv1.ManagedCluster{}
		if set != "" {
			cluster.Labels = map[string]string{clusterv1.LabelClusterSet: set}
		}
		return cluster
	}
	cases := map[string]struct {
		reason     string
		old        *clusterv1.ManagedCluster
		cluster    *clusterv1.ManagedCluster
		defaulting bool
		want       []string
	}{
		"a new cluster enters its set":         {cluster: in("a"), want: []string{"a"}},
		"a new cluster without a set needs no": {cluster: in("")},
		"staying needs nothing":                {old: in("a"), cluster: in("a")},
		"moving leaves one and enters another": {old: in("a"), cluster: in("b"), want: []string{"a", "b"}},
		"leaving needs the set":                {old: in("a"), cluster: in(""), want: []string{"a"}},
		"a new cluster enters the default set": {cluster: in("default"), defaulting: true, want: []string{"default"}},
		"being put into the default set is free": {
			reason: "the agent of a cluster from before the gate must be able to write its cluster",
			old:    in(""), cluster: in("default"), defaulting: true,
		},
		"but not without the gate":                       {old: in(""), cluster: in("default"), want: []string{"default"}},
		"leaving all sets means entering the default":    {old: in("a"), cluster: in("default"), defaulting: true, want: []string{"a", "default"}},
		"a cluster without a set can lose a finalizer":   {old: in(""), cluster: in(""), defaulting: true},
		"an old cluster enters another set with a right": {old: in(""), cluster: in("b"), defaulting: true, want: []string{"b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, setsChanged(tc.old, tc.cluster, tc.defaulting), cmp.Transformer("nil", func(s []string) string { return strings.Join(s, ",") })); diff != "" {
				t.Errorf("%s\nsets (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBindingsAreNamedAfterTheirSet(t *testing.T) {
	binding := &clusterv1beta2.ManagedClusterSetBinding{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	binding.Spec.ClusterSet = "a"
	expect(t, checkClusterSetBinding(binding), "")
	binding.Spec.ClusterSet = "b"
	expect(t, checkClusterSetBinding(binding), `the binding is named "a" but binds the set "b": give it the name of the set`)
}

// expect fails the test if the error has not the part, or is one although
// there is no part.
func expect(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case part == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case part != "" && err == nil:
		t.Errorf("got no error, want one with %q", part)
	case part != "" && !strings.Contains(err.Error(), part):
		t.Errorf("got error %q, want one with %q", err, part)
	}
}
