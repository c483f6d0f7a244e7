// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestACredentialIsTakenOutOfTheSecretOrTheReasonIsTold(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	token := func(expires int64) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires)) + ".x"
	}
	secret := func(token string) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{"token": []byte(token)}}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
	cases := map[string]struct {
		reason string
		secret *corev1.Secret
		err    error
		want   string // the reason of the condition; empty if it is good
	}{
		"opaque":       {reason: "not all tokens tell when they expire", secret: secret("abc\n")},
		"valid":        {reason: "it has not expired", secret: secret(token(1_000_001))},
		"expired":      {reason: "the time is over", secret: secret(token(1_000_000)), want: fleetv1alpha1.ClusterConnectionReasonTokenExpired},
		"empty":        {reason: "there is no token", secret: secret(" "), want: fleetv1alpha1.ClusterConnectionReasonSecretMissing},
		"two lines":    {reason: "it would be another header", secret: secret("a\r\nX: y"), want: fleetv1alpha1.ClusterConnectionReasonSecretMissing},
		"missing":      {reason: "there is no Secret", want: fleetv1alpha1.ClusterConnectionReasonSecretMissing},
		"forbidden":    {reason: "the agent may not read it", err: forbidden, want: fleetv1alpha1.ClusterConnectionReasonSecretForbidden},
		"other errors": {reason: "they say nothing of the token", err: errors.New("no luck"), want: fleetv1alpha1.ClusterConnectionReasonNotChecked},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, found := ReadCredential("c1/s", c.secret, c.err, now)
			if found.Reason != c.want || (c.want == "") != (got.Token != "") || strings.TrimSpace(got.Token) != got.Token {
				t.Errorf("%s: got %+v and %+v, want reason %q", c.reason, got, found, c.want)
			}
		})
	}
}
