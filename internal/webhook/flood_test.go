// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	bootstrapUser = "system:bootstrap:abcdef"
	// maxUnaccepted is the limit of the hub of this test.
	maxUnaccepted = 3
)

// bootstrapRules are what a bootstrap token may do with clusters.
func bootstrapRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: []string{"create", "get", "list", "watch"}},
		{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclustersets/join"}, Verbs: []string{"create"}},
	}
}

// TestABootstrapTokenHasSoManyClustersThatWait has a bootstrap token create clusters that nobody accepts.
func TestABootstrapTokenHasSoManyClustersThatWait(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	registrar := h.userClient(t, "registrar")
	token := h.userClient(t, bootstrapUser)
	named := func(i int) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("flood-%d", i)}}
	}
	waits := func(c *clusterv1.ManagedCluster) string {
		if _, labelled := c.Labels[clusterv1.LabelAwaitingAcceptance]; labelled {
			t.Errorf("cluster %q has a label that nobody who compares labels expects", c.Name)
		}
		return c.Annotations[clusterv1.AnnotationAwaitingAcceptance]
	}
	const mark = "60eb7619d7e264a8" // of the token
	for i, sent := range []map[string]string{nil, {clusterv1.AnnotationAwaitingAcceptance: "0000000000000000"}, {clusterv1.AnnotationAwaitingAcceptance: ""}} {
		c := named(i)
		c.Annotations, c.Labels = maps.Clone(sent), maps.Clone(sent)
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.AnnotationRegisteredByAcceptor, "true")
		expect.NoError(t, token.Create(t.Context(), c))
		if _, has := c.Annotations[clusterv1.AnnotationRegisteredByAcceptor]; has {
			t.Errorf("cluster %d of a bootstrap token says that somebody has registered it who may accept it", i)
		}
		if got := waits(c); got != mark {
			t.Errorf("with %v sent, cluster %d has the annotation %q, want %q", sent, i, got, mark)
		}
	}
	byAcceptor := func(c *clusterv1.ManagedCluster) string {
		return c.Annotations[clusterv1.AnnotationRegisteredByAcceptor]
	}
	tooMany := func(i int) {
		t.Helper()
		refused(t, token.Create(t.Context(), named(i)), apierrors.IsForbidden, `3 clusters of user "system:bootstrap:abcdef" wait for acceptance, and there may not be more: `+
			`accept or delete some of them, which "kubectl get managedclusters -o jsonpath='{.items[?(@.metadata.annotations.fleet\.capstan\.io/awaiting-acceptance=="`+mark+`")].metadata.name}'" lists`)
	}
	tooMany(3)
	if err := token.Create(t.Context(), named(2)); !apierrors.IsAlreadyExists(err) {
		t.Errorf("an agent that registers again gets %v, want that its cluster is there", err)
	}

	// Another user is not affected, and one who may change clusters cannot make them count for less.
	another := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "of-another"}}
	expect.NoError(t, registrar.Create(t.Context(), another))
	its := another.Annotations[clusterv1.AnnotationAwaitingAcceptance]
	for _, sent := range []map[string]string{nil, {clusterv1.AnnotationAwaitingAcceptance: "0000000000000000"}} {
		another.Labels = map[string]string{clusterv1.LabelClusterSet: clusterv1.DefaultClusterSet}
		maps.Copy(another.Labels, sent)
		another.Annotations = sent
		expect.NoError(t, registrar.Update(t.Context(), another))
		if got := another.Annotations[clusterv1.AnnotationAwaitingAcceptance]; got != its || its == "" {
			t.Errorf("a user changes the annotation to %q, want %q", got, its)
		}
		if want := map[string]string{clusterv1.LabelClusterSet: clusterv1.DefaultClusterSet}; !maps.Equal(another.Labels, want) {
			t.Errorf("a user changes the labels to %v, want %v", another.Labels, want)
		}
	}
	expect.NoError(t, registrar.Delete(t.Context(), another))

	first := named(0)
	expect.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(first), first))
	first.Spec.HubAcceptsClient = true
	expect.NoError(t, admin.Update(t.Context(), first))
	if got, has := first.Annotations[clusterv1.AnnotationAwaitingAcceptance]; has {
		t.Errorf("an accepted cluster has the annotation %q", got)
	}
	// The webhooks see a moment later that it was accepted.
	var refusal error
	if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		refusal = token.Create(ctx, named(4))
		return refusal == nil, nil
	}); err != nil {
		t.Errorf("after one of the clusters was accepted, no other may wait: %v", refusal)
	}
	tooMany(5)
	for i := range maxUnaccepted + 1 {
		c := named(10 + i)
		if err := admin.Create(t.Context(), c); err != nil || byAcceptor(c) != "true" {
			t.Errorf("cluster %d of an administrator: %v, registered by somebody who may accept it: %q", i, err, byAcceptor(c))
		}
	}
}
