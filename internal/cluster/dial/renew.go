// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// renewPart and renewedPart are parts of a token's life: a token is renewed when
	// a third is left, and one that was just renewed not before a sixth has gone by,
	// whatever clocks say.
	renewPart   = 3
	renewedPart = 6
	// tokenLifeMin is the shortest life that API servers give a token.
	tokenLifeMin = 10 * time.Minute
	// renewIntervalMin is the least time from one new token to the next, so that a
	// member whose tokens last for seconds does not keep the hub busy with them.
	renewIntervalMin = time.Minute
	// renewAgainMin and renewAgainMax bound the time between attempts that failed;
	// it doubles.
	renewAgainMin = 10 * time.Second
	renewAgainMax = 10 * time.Minute
)

// Renewal is when a token is to be renewed, and how that went so far. The zero
// value knows of no token.
type Renewal struct {
	token    string
	failures int
	// next is when the next attempt may be at the earliest.
	next time.Time
	// renewed is when there was a new token last. What follows from it holds for any
	// token: that a token is another one may be the member's doing.
	renewed time.Time
	// problem is why the latest attempt failed.
	problem ConnectionProblem
}

// ResetFor forgets what was about another token, but not when there was a new one last.
func (r *Renewal) ResetFor(token string) {
	if r.token != token {
		*r = Renewal{token: token, renewed: r.renewed}
	}
}

// DueAt returns when the credential is to be renewed; zero if it never is.
func (r *Renewal) DueAt(c Credential) time.Time {
	if c.Account.Name == "" {
		return time.Time{}
	}
	at := c.Expires.Add(-c.TokenLifetime() / renewPart)
	for _, earliest := range []time.Time{r.next, r.renewed.Add(renewIntervalMin)} {
		if earliest.After(at) {
			at = earliest
		}
	}
	return at
}

// RecordFailure notes why an attempt failed and when the next one is due.
func (r *Renewal) RecordFailure(c Credential, why error, now time.Time) {
	r.failures++
	r.next = now.Add(backoff.DelayAfter(r.failures, backoff.ExponentialBetween(renewAgainMin, renewAgainMax)))
	r.problem = ConnectionProblem{
		fleetv1alpha1.ClusterConnectionReasonRenewalFailing,
		fmt.Sprintf("the token is valid until %s, but cannot be renewed: %v; fix this, or put a new token into the Secret before then",
			c.Expires.UTC().Format(time.RFC3339), why),
	}
}

// RecordRenewal notes that there is a new token in the place of the credential's.
func (r *Renewal) RecordRenewal(c Credential, token string, now time.Time) {
	*r = Renewal{token: token, next: now.Add(c.TokenLifetime() / renewedPart), renewed: now}
}

// LatestProblem returns why the latest attempt failed.
func (r *Renewal) LatestProblem() ConnectionProblem { return r.problem }

// RequestToken asks the cluster for a token of the credential's ServiceAccount
// with as long a life, also while requests are blocked.
func (t *Transport) RequestToken(ctx context.Context, c Credential) (string, error) {
	account := c.Account
	seconds := int64(max(c.TokenLifetime(), tokenLifeMin) / time.Second)
	request, err := json.Marshal(&authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	})
	if err != nil {
		return "", fmt.Errorf("encoding a TokenRequest: %w", err)
	}
	path := fmt.Sprintf("api/v1/namespaces/%s/serviceaccounts/%s/token", account.Namespace, account.Name)
	status, body, err := t.sendOwnRequest(ctx, http.MethodPost, path, request)
	switch {
	case err != nil:
		return "", errors.New(ExplainFailure(err).Message)
	case status == http.StatusForbidden:
		return "", fmt.Errorf("the cluster returns 403; the ServiceAccount %s needs create on serviceaccounts/token for itself", account)
	case status == http.StatusNotFound:
		return "", fmt.Errorf("the cluster returns 404; the ServiceAccount %s no longer exists", account)
	case status != http.StatusCreated:
		return "", fmt.Errorf("the cluster returns %d for a TokenRequest of the ServiceAccount %s", status, account)
	}
	var answer authenticationv1.TokenRequest
	if err := json.Unmarshal(body, &answer); err != nil || !isTokenText(answer.Status.Token) {
		return "", fmt.Errorf("the cluster's response to a TokenRequest of the ServiceAccount %s has no single-line token", account)
	}
	return answer.Status.Token, nil
}

// isTokenText reports whether a text can be sent as a token, and is read from a Secret
// as it was written there: it has visible characters of ASCII and nothing else.
func isTokenText(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' })
}
