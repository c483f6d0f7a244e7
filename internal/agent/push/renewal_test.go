// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// shortest is the shortest life that the member gives a token.
const shortest = 600

// tokenDue is when a token of that life is to be renewed, whenever in the first tenth of
// this the one before was.
const tokenDue = shortest * 13 / 15 * time.Second

// shortToken returns a token of an account of the member that lives for the
// shortest time. An account that is new may do what the rules say.
func (l *lab) shortToken(account string, rules ...rbacv1.PolicyRule) string {
	l.t.Helper()
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: account}}
	if len(rules) > 0 {
		cluster.CreateObjects(l.t, l.member.client, owner, build.ClusterRole(account, rules...),
			build.ClusterRoleBinding(account, account, build.AccountSubject("default", account)))
	}
	seconds := int64(shortest)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	expect.NoError(l.t, l.member.client.SubResource("token").Create(l.t.Context(), owner, request))
	return request.Status.Token
}

// tokenOf returns the token in the Secret of a cluster.
func (l *lab) tokenOf(ctx context.Context, cluster string) string {
	l.t.Helper()
	secret := &corev1.Secret{}
	expect.NoError(l.t, l.hub.client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: fleetv1alpha1.DefaultSecretName}, secret))
	if len(secret.Data[fleetv1alpha1.SecretKeyCABundle]) == 0 {
		l.t.Errorf("the Secret of %s has lost its caBundle", cluster)
	}
	return string(secret.Data[fleetv1alpha1.SecretKeyToken])
}

// renewed waits until the Secret of a cluster has another token.
func (l *lab) renewed(cluster, before string) {
	l.t.Helper()
	l.eventually("another token in the Secret of "+cluster, func(ctx context.Context) (string, bool) {
		return "the same", l.tokenOf(ctx, cluster) != before
	})
}

func TestATokenIsRenewedBeforeItExpires(t *testing.T) {
	l := newLab(t)
	clock := clocktesting.NewFakeClock(time.Now())
	l.clock = clock
	l.start(local(), work.PartOptions{})
	front := l.front("uid")
	users := l.token // lives for an hour
	l.accept("c1")
	first := l.shortToken("push")
	clock.SetTime(time.Now()) // the life of the token begins now, however long the start took
	l.secret("c1", first, front.CAData())
	l.connection("c1", front.URL)
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonAuthenticated)
	l.works("c1", "first")

	// Nothing happens while there is time, and a new token comes when a third is left.
	clock.Step(shortest / 2 * time.Second)
	l.works("c1", "half")
	if l.tokenOf(l.t.Context(), "c1") != first {
		t.Error("the token was renewed when half of its life was left")
	}
	clock.Step(shortest / 4 * time.Second)
	l.renewed("c1", first)
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonAuthenticated)
	l.works("c1", "renewed")

	// Only that account's own token is asked for, and a member that refuses is told of.
	may := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
	}
	weak := l.shortToken("weak", may("", "namespaces", "configmaps"), may(workv1.GroupName, "*"), may(clusterv1.GroupName, "*"))
	clock.SetTime(time.Now())
	l.secret("c1", weak, front.CAData())
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonAuthenticated)
	clock.Step(tokenDue)
	found, message := l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonRenewalFailing)
	if strings.Contains(message, "no response") {
		// The member was too busy to answer while the agent waited: it asks again when its
		// clock says so.
		clock.Step(shortest / 20 * time.Second)
		l.eventually("an answer of the member in the condition", func(ctx context.Context) (string, bool) {
			if err := l.hub.client.Get(ctx, client.ObjectKey{Name: "c1"}, found); err != nil {
				return err.Error(), false
			}
			message = meta.FindStatusCondition(found.Status.Conditions, credentials).Message
			return message, !strings.Contains(message, "no response")
		})
	}
	for _, part := range []string{"403", "default/weak", "serviceaccounts/token", "put a new token into the Secret"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message lacks %q: %s", part, message)
		}
	}
	for _, condition := range found.Status.Conditions {
		if condition.Status != metav1.ConditionTrue {
			t.Errorf("%s is %s although the token works still", condition.Type, condition.Status)
		}
	}
	asked := front.Minted.Load()
	l.works("c1", "weak")
	if again := front.Minted.Load() - asked; again > 1 {
		t.Errorf("a renewal that fails was tried %d times more while the clock stood still", again)
	}

	// Whoever puts another token into the Secret mends it.
	l.secret("c1", users, front.CAData())
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonAuthenticated)

	// A token that somebody puts there while another one is asked for stays.
	third := l.shortToken("push")
	if later := time.Now().Add(tokenDue); later.After(clock.Now()) {
		clock.SetTime(later)
	}
	front.BeforeMint.Store(new(func() {
		if l.tokenOf(l.t.Context(), "c1") == third {
			l.secret("c1", users, front.CAData())
		}
	}))
	l.secret("c1", third, front.CAData())
	l.eventually("the token of the user in the Secret", func(ctx context.Context) (string, bool) {
		return "another", l.tokenOf(ctx, "c1") == users
	})
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonAuthenticated)
	l.works("c1", "last")
	if l.tokenOf(l.t.Context(), "c1") != users {
		t.Error("the token of the user was overwritten")
	}
}

// works delivers a work.
func (l *lab) works(cluster, name string) {
	l.t.Helper()
	l.work(cluster, name)
	l.delivered(cluster, name)
}
