// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

// TestFactsAreSlim: a member fills the metadata of its claims as it likes, which the agent of all
// members kept at five times their bytes.
func TestFactsAreSlim(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "2", GenerateName: "a-", Finalizers: []string{"f"}, Labels: map[string]string{clusterv1.LabelSpokeOnly: ""}}
	kept := metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "2", Labels: map[string]string{clusterv1.LabelSpokeOnly: ""}}
	for i := range 1000 {
		metav1.SetMetaDataLabel(&meta, fmt.Sprint(i), "")
		metav1.SetMetaDataAnnotation(&meta, fmt.Sprint(i), "")
	}
	for _, test := range []struct{ whole, want any }{
		{
			&clusterv1alpha1.ClusterClaim{ObjectMeta: meta, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "v"}},
			&clusterv1alpha1.ClusterClaim{ObjectMeta: kept, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "v"}},
		},
		{
			&aboutv1alpha1.ClusterProperty{ObjectMeta: meta, Spec: aboutv1alpha1.ClusterPropertySpec{Value: "v"}},
			&aboutv1alpha1.ClusterProperty{ObjectMeta: kept, Spec: aboutv1alpha1.ClusterPropertySpec{Value: "v"}},
		},
		{
			&clusterv1alpha1.ClusterClaim{Spec: clusterv1alpha1.ClusterClaimSpec{Value: strings.Repeat("v", 1<<20)}},
			&clusterv1alpha1.ClusterClaim{Spec: clusterv1alpha1.ClusterClaimSpec{Value: strings.Repeat("v", factBytesMax)}},
		},
		{
			&aboutv1alpha1.ClusterProperty{Spec: aboutv1alpha1.ClusterPropertySpec{Value: strings.Repeat("v", 1<<20)}},
			&aboutv1alpha1.ClusterProperty{Spec: aboutv1alpha1.ClusterPropertySpec{Value: strings.Repeat("v", factBytesMax)}},
		},
		{"something else", "something else"},
	} {
		got, err := slimFact(test.whole)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%T: %v, -want +got:\n%s", test.whole, err, diff)
		}
	}
}
