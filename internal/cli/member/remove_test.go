// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// TestALabelDoesNotGetANamespaceDeleted has people in the member who may label namespaces, and
// make accounts, and lose none by that when the cluster leaves.
func TestALabelDoesNotGetANamespaceDeleted(t *testing.T) {
	push := PushInstallation{Cluster: "member1", Hub: "1234", Namespace: "capstan-cluster"}
	namespace := func(name string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{fleetv1alpha1.LabelPushCluster: ""}}}
	}
	account := func(place, name string, labels map[string]string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: place, Name: name, UID: types.UID(place + "/" + name), Labels: labels}}
	}
	ours := account("capstan-cluster", push.Account().Name, push.Labels())
	others := PushInstallation{Cluster: "member2", Hub: "1234"}
	for name, test := range map[string]struct {
		has  []client.Object
		want []string
	}{
		"its own namespace": {has: []client.Object{namespace("capstan-cluster"), ours}, want: []string{"Namespace capstan-cluster", "ServiceAccount capstan-member1"}},
		"its own, and another cluster's": {
			has:  []client.Object{namespace("capstan-cluster"), ours, account("capstan-cluster", "capstan-member2", others.Labels())},
			want: []string{"ServiceAccount capstan-member1"},
		},
		"one that was there before": {
			has:  []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capstan-cluster"}}, ours},
			want: []string{"ServiceAccount capstan-member1"},
		},
		"one with the label":                             {has: []client.Object{namespace("capstan-cluster"), namespace("shop"), ours}, want: []string{"Namespace capstan-cluster", "ServiceAccount capstan-member1"}},
		"one with the label, after the cluster has left": {has: []client.Object{namespace("shop")}},
		"one with the label, and an account with labels": {
			has:  []client.Object{namespace("capstan-cluster"), namespace("shop"), ours, account("shop", "shop", push.Labels())},
			want: []string{"Namespace capstan-cluster", "ServiceAccount capstan-member1", "ServiceAccount shop"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(test.has...).Build()
			remains, err := push.ListRemains(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, object := range remains {
				got = append(got, object.Kind+" "+object.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("what is to be removed differs (-want +got):\n%s", diff)
			}
		})
	}
}
