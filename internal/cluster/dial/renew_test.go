// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestATokenIsRenewedWhenAThirdOfItsLifeIsLeft(t *testing.T) {
	account := types.NamespacedName{Namespace: "capstan-cluster", Name: "capstan-c1"}
	cases := map[string]struct {
		reason, claims string
		due            int64 // 0 is never
		account        types.NamespacedName
	}{
		"a bound token": {
			reason: "two thirds of 900 s are over", claims: `{"iat":1000,"exp":1900,"sub":"system:serviceaccount:capstan-cluster:capstan-c1"}`,
			due: 1600, account: account,
		},
		"no end":             {reason: "nothing has to be done", claims: `{"iat":1000,"sub":"system:serviceaccount:capstan-cluster:capstan-c1"}`},
		"no beginning":       {reason: "a third of what is not known", claims: `{"exp":1900,"sub":"system:serviceaccount:capstan-cluster:capstan-c1"}`},
		"ends before":        {reason: "it makes no sense", claims: `{"iat":1900,"exp":1900,"sub":"system:serviceaccount:capstan-cluster:capstan-c1"}`},
		"of a user":          {reason: "only ServiceAccounts get tokens by TokenRequest", claims: `{"iat":1000,"exp":1900,"sub":"jane"}`},
		"of half an account": {reason: "there is no such path", claims: `{"iat":1000,"exp":1900,"sub":"system:serviceaccount:capstan-cluster"}`},
		"leads elsewhere":    {reason: "the name becomes part of a path", claims: `{"iat":1000,"exp":1900,"sub":"system:serviceaccount:a:b/../../c"}`},
		"no claims":          {reason: "not all that has dots is a token of this kind", claims: `nonsense`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Credential{Token: "e30." + base64.RawURLEncoding.EncodeToString([]byte(c.claims)) + ".x"}
			got.readClaims()
			want := time.Time{}
			if c.due != 0 {
				want = time.Unix(c.due, 0)
			}
			if due := (&Renewal{}).DueAt(got); !due.Equal(want) {
				t.Errorf("%s: it is renewed at %s, want %s", c.reason, due, want)
			}
			if diff := cmp.Diff(c.account, got.Account); diff != "" {
				t.Errorf("%s: whose it is (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestRenewalThatFailsIsTriedLessAndLessOften(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	c := Credential{
		Token: "one", Issued: start, Expires: start.Add(7 * 24 * time.Hour), Account: types.NamespacedName{Namespace: "n", Name: "a"},
	}
	r := Renewal{}
	r.ResetFor(c.Token)
	now := r.DueAt(c)
	var waits []time.Duration
	for range 9 {
		r.RecordFailure(c, errors.New("why"), now)
		waits = append(waits, r.DueAt(c).Sub(now))
		now = r.DueAt(c)
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 600 * s, 600 * s, 600 * s}, waits); diff != "" {
		t.Errorf("times between attempts (-want +got):\n%s", diff)
	}
	if !strings.Contains(r.problem.Message, "why") || !strings.Contains(r.problem.Message, "1970-01-19T13:46:40Z") {
		t.Errorf("the message tells neither why nor until when: %s", r.problem.Message)
	}
	r.ResetFor("another")
	if diff := cmp.Diff(Renewal{token: "another"}, r, cmp.AllowUnexported(Renewal{}, ConnectionProblem{})); diff != "" {
		t.Errorf("what is left of it for another token (-want +got):\n%s", diff)
	}
}

func TestTokensOfSecondsAreNotRenewedAllTheTime(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	account := types.NamespacedName{Namespace: "n", Name: "a"}
	tokenOf := func(name string, life time.Duration, now time.Time) Credential {
		return Credential{Token: name, Issued: now, Expires: now.Add(life), Account: account}
	}
	for name, life := range map[string]time.Duration{"seconds": 3 * time.Second, "nothing": 0, "an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			r, c, now := Renewal{}, tokenOf("0", life, start), start
			for i := range 5 {
				r.ResetFor(c.Token)
				due := r.DueAt(c)
				if i > 0 && due.Sub(now) < renewIntervalMin {
					t.Fatalf("token %d is renewed %s after the one before, want at least %s", i, due.Sub(now), renewIntervalMin)
				}
				now = due
				c = tokenOf(string(rune('1'+i)), life, now)
				r.RecordRenewal(tokenOf("before", life, now), c.Token, now)
			}
		})
	}
}

// TestNoTokenIsRenewedAtOnceSinceItIsAnother: what makes tokens differ, or look as if they
// did, may be up to the member.
func TestNoTokenIsRenewedAtOnceSinceItIsAnother(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	of := func(token string) Credential {
		return Credential{Token: token, Issued: now, Expires: now.Add(3 * time.Second), Account: types.NamespacedName{Namespace: "n", Name: "a"}}
	}
	r := Renewal{}
	r.ResetFor("one")
	r.RecordRenewal(of("one"), "two\v", now)
	for _, token := range []string{"two\v", "two", "three", "two\v"} {
		if r.ResetFor(token); r.DueAt(of(token)).Sub(now) < renewIntervalMin {
			t.Errorf("token %q is renewed %s after the one before, want at least %s", token, r.DueAt(of(token)).Sub(now), renewIntervalMin)
		}
	}
}

func TestATokenHasNothingThatIsTrimmed(t *testing.T) {
	account := types.NamespacedName{Namespace: "n", Name: "a"}
	for name, c := range map[string]struct {
		token string
		taken bool
	}{
		"a token": {token: "e30.e30.-_~", taken: true}, "nothing": {}, "a space": {token: "a "}, "a line": {token: "a\n"}, "a vertical tab": {token: "a\v"},
		"no break": {token: "a\u00a0"}, "a next line": {token: "\u0085a"}, "another script": {token: "\u0430"}, "zero": {token: "a\x00"}, "delete": {token: "a\x7f"},
	} {
		t.Run(name, func(t *testing.T) {
			server, ca := member(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				_ = json.NewEncoder(w).Encode(authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: c.token}})
			})
			got, err := transportTo(t, Endpoint{URL: server.URL, CA: ca}, toLocal()).RequestToken(t.Context(), Credential{Account: account})
			if c.taken && (err != nil || got != c.token) || !c.taken && (err == nil || !strings.Contains(err.Error(), "single-line token")) {
				t.Errorf("token %q: got %q and error %v", c.token, got, err)
			}
		})
	}
}
