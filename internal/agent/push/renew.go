// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

const (
	// renewPart and renewedPart are parts of a token's life: a token is renewed when
	// a third is left, and one that was just renewed not before a sixth has gone by,
	// whatever clocks say.
	renewPart   = 3
	renewedPart = 6
	// tokenLifeMin is the shortest life that API servers give a token.
	tokenLifeMin = 10 * time.Minute
	// renewAgainMin and renewAgainMax bound the time between attempts that failed;
	// it doubles.
	renewAgainMin = 10 * time.Second
	renewAgainMax = 10 * time.Minute
)

// renewal is what a link remembers of renewing a token.
type renewal struct {
	token    string
	failures int
	// next is when the next attempt may be at the earliest.
	next time.Time
	// problem is why the latest attempt failed.
	problem finding
}

// of forgets what was about another token.
func (r *renewal) of(token string) {
	if r.token != token {
		*r = renewal{token: token}
	}
}

// due returns when the credential is to be renewed; zero if it never is.
func (r *renewal) due(c credential) time.Time {
	if c.account.Name == "" {
		return time.Time{}
	}
	at := c.expires.Add(-c.life() / renewPart)
	if r.next.After(at) {
		return r.next
	}
	return at
}

// failed notes why an attempt failed and when the next one is due.
func (r *renewal) failed(c credential, why error, now time.Time) {
	wait := min(renewAgainMin<<min(r.failures, 10), renewAgainMax)
	r.failures++
	r.next = now.Add(wait)
	r.problem = finding{
		fleetv1alpha1.ClusterConnectionReasonRenewalFailing,
		fmt.Sprintf("the token works until %s, but it is not renewed: %v; unless that is mended, put a new one into the Secret before",
			c.expires.UTC().Format(time.RFC3339), why),
	}
}

// renew gets a new token for the Secret if it is time to. What fails is told
// and tried again later.
func (l *link) renew(ctx context.Context, secret *corev1.Secret) {
	now := l.agent.options.Clock.Now()
	l.renewal.of(l.credential.token)
	if due := l.renewal.due(l.credential); due.IsZero() || now.Before(due) {
		return
	}
	token, err := l.way.mint(ctx, l.credential.account, max(l.credential.life(), tokenLifeMin))
	var renewed *corev1.Secret
	if err == nil {
		renewed, err = l.agent.store(ctx, secret, token)
	}
	if err != nil {
		if ctx.Err() == nil {
			l.renewal.failed(l.credential, err, now)
		}
		return
	}
	l.renewal = renewal{token: token, next: now.Add(l.credential.life() / renewedPart)}
	l.seeSecret(renewed, nil)
}

// mint asks the cluster for a token of the account that lives so long.
func (w *way) mint(ctx context.Context, account types.NamespacedName, life time.Duration) (string, error) {
	seconds := int64(life / time.Second)
	request, err := json.Marshal(&authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	})
	if err != nil {
		return "", fmt.Errorf("encoding a TokenRequest: %w", err)
	}
	path := fmt.Sprintf("api/v1/namespaces/%s/serviceaccounts/%s/token", account.Namespace, account.Name)
	status, body, err := w.ask(ctx, http.MethodPost, path, request)
	switch {
	case err != nil:
		return "", errors.New(explain(err).message)
	case status == http.StatusForbidden:
		return "", fmt.Errorf("the cluster answers 403; the ServiceAccount %s needs create of serviceaccounts/token for itself", account)
	case status == http.StatusNotFound:
		return "", fmt.Errorf("the cluster answers 404; it has no ServiceAccount %s any more", account)
	case status != http.StatusCreated:
		return "", fmt.Errorf("the cluster answers %d to a TokenRequest for the ServiceAccount %s", status, account)
	}
	var answer authenticationv1.TokenRequest
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status.Token == "" {
		return "", fmt.Errorf("the cluster's answer to a TokenRequest for the ServiceAccount %s has no token", account)
	}
	return answer.Status.Token, nil
}

// store writes a token into the Secret, unless somebody else wrote there
// meanwhile: theirs counts.
func (a *Agent) store(ctx context.Context, secret *corev1.Secret, token string) (*corev1.Secret, error) {
	after := secret.DeepCopy()
	after.Data[fleetv1alpha1.SecretKeyToken] = []byte(token)
	patch := client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{})
	err := a.secrets.Patch(ctx, after, patch, client.FieldOwner(fieldOwner))
	key := client.ObjectKeyFromObject(secret)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the push agent may not patch the Secret %s: grant it that, or use the name %q", key, fleetv1alpha1.DefaultSecretName)
	case apierrors.IsConflict(err):
		return nil, fmt.Errorf("the Secret %s changed at the same moment", key)
	case err != nil:
		return nil, fmt.Errorf("writing the Secret %s: %w", key, err)
	}
	return after, nil
}
