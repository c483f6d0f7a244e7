// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"
)

func TestTokensAreKeptForHalfOfTheirLife(t *testing.T) {
	issued := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	token := func(claims string) string {
		return "header." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".signature"
	}
	hour := token(fmt.Sprintf(`{"iat":%d,"exp":%d,"kubernetes.io":{"serviceaccount":{"uid":"mine"}}}`, issued.Unix(), issued.Add(time.Hour).Unix()))
	for name, test := range map[string]struct {
		reason string
		token  string
		after  time.Duration
		want   bool
	}{
		"New":       {"it was just issued", hour, 0, true},
		"Young":     {"more than half of its life is before it", hour, 29 * time.Minute, true},
		"Half":      {"half of its life is over, however long the server made it", hour, 30 * time.Minute, false},
		"Expired":   {"the operator was away for long", hour, 2 * time.Hour, false},
		"Others":    {"the account was made again, or is of another cluster", token(`{"iat":0,"exp":99999999999,"kubernetes.io":{"serviceaccount":{"uid":"other"}}}`), 0, false},
		"NoExpiry":  {"it is no token of a TokenRequest", token(`{"kubernetes.io":{"serviceaccount":{"uid":"mine"}}}`), 0, false},
		"NotBase64": {"someone changed the secret", "a.%.c", 0, false},
		"NotJSON":   {"someone changed the secret", "a." + base64.RawURLEncoding.EncodeToString([]byte("x")) + ".c", 0, false},
		"NoToken":   {"there is none yet", "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tokenIsGood([]byte(test.token), "mine", issued.Add(test.after)); got != test.want {
				t.Errorf("%s: got %t, want %t", test.reason, got, test.want)
			}
		})
	}
}
