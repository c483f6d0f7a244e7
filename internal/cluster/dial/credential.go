// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// subjectPrefix begins the subject of a token of a ServiceAccount.
const subjectPrefix = "system:serviceaccount:"

// Credential is what a Secret has for a cluster.
type Credential struct {
	Token string
	CA    []byte
	// Expires is when the token does; zero if it does not say.
	Expires time.Time
	// Issued is when it was issued, and Account whose it is; both are zero unless
	// it is one that a ServiceAccount got for a while.
	Issued  time.Time
	Account types.NamespacedName
}

// TokenLifetime returns how long the token is valid in all.
func (c Credential) TokenLifetime() time.Duration { return c.Expires.Sub(c.Issued) }

// SecretName returns the name of the Secret for a cluster.
func SecretName(spec *fleetv1alpha1.ClusterConnectionSpec) string {
	if spec.SecretRef == nil {
		return fleetv1alpha1.DefaultSecretName
	}
	return spec.SecretRef.Name
}

// ReadCredential returns the credential in the Secret that key names in messages, or what is wrong with it.
// The error is that of reading the Secret; a nil Secret without one is missing.
func ReadCredential(key string, secret *corev1.Secret, err error, now time.Time) (Credential, ConnectionProblem) {
	switch {
	case apierrors.IsForbidden(err):
		return Credential{}, ConnectionProblem{
			fleetv1alpha1.ClusterConnectionReasonSecretForbidden,
			fmt.Sprintf("the push agent may not read the Secret %s: grant it get, list and watch, or use the name %q", key, fleetv1alpha1.DefaultSecretName),
		}
	case err != nil:
		return Credential{}, ConnectionProblem{fleetv1alpha1.ClusterConnectionReasonNotChecked, fmt.Sprintf("reading the Secret %s failed: %v", key, err)}
	case secret == nil:
		return Credential{}, ConnectionProblem{fleetv1alpha1.ClusterConnectionReasonSecretMissing, fmt.Sprintf("there is no Secret %s", key)}
	}
	c := Credential{Token: strings.TrimSpace(string(secret.Data[fleetv1alpha1.SecretKeyToken])), CA: secret.Data[fleetv1alpha1.SecretKeyCABundle]}
	if c.Token == "" || strings.ContainsAny(c.Token, "\r\n") {
		return Credential{}, ConnectionProblem{
			fleetv1alpha1.ClusterConnectionReasonSecretMissing,
			fmt.Sprintf("the Secret %s has no single-line token under key %q", key, fleetv1alpha1.SecretKeyToken),
		}
	}
	c.readClaims()
	if !c.Expires.IsZero() && !now.Before(c.Expires) {
		return Credential{}, ConnectionProblem{
			fleetv1alpha1.ClusterConnectionReasonTokenExpired,
			fmt.Sprintf("the token in the Secret %s expired at %s; replace it", key, c.Expires.UTC().Format(time.RFC3339)),
		}
	}
	return c, ConnectionProblem{}
}

// readClaims takes out of the token what it says of itself. It is not verified:
// the cluster does that.
func (c *Credential) readClaims() {
	parts := strings.Split(c.Token, ".")
	if len(parts) != 3 {
		return
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return
	}
	var claims struct {
		Expires int64  `json:"exp"`
		Issued  int64  `json:"iat"`
		Subject string `json:"sub"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.Expires <= 0 {
		return
	}
	c.Expires = time.Unix(claims.Expires, 0)
	subject, ok := strings.CutPrefix(claims.Subject, subjectPrefix)
	namespace, name, _ := strings.Cut(subject, ":")
	if ok && len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Subdomain(name)) == 0 &&
		claims.Issued > 0 && claims.Issued < claims.Expires {
		c.Issued = time.Unix(claims.Issued, 0)
		c.Account = types.NamespacedName{Namespace: namespace, Name: name}
	}
}
