// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

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

// credential is what a Secret has for a cluster.
type credential struct {
	token string
	ca    []byte
	// expires is when the token does; zero if it does not say.
	expires time.Time
	// issued is when it was issued, and account whose it is; both are zero unless
	// it is one that a ServiceAccount got for a while.
	issued  time.Time
	account types.NamespacedName
}

// life returns how long the token is valid in all.
func (c credential) life() time.Duration { return c.expires.Sub(c.issued) }

// secretName returns the name of the Secret for a cluster.
func secretName(spec *fleetv1alpha1.ClusterConnectionSpec) string {
	if spec.SecretRef == nil {
		return fleetv1alpha1.DefaultSecretName
	}
	return spec.SecretRef.Name
}

// readCredential returns the credential in a Secret, or what is wrong with it.
// The error is that of reading the Secret; a nil Secret without one is missing.
func readCredential(key string, secret *corev1.Secret, err error, now time.Time) (credential, finding) {
	switch {
	case apierrors.IsForbidden(err):
		return credential{}, finding{
			fleetv1alpha1.ClusterConnectionReasonSecretForbidden,
			fmt.Sprintf("the push agent may not read the Secret %s: grant it get, list and watch, or use the name %q", key, fleetv1alpha1.DefaultSecretName),
		}
	case err != nil:
		return credential{}, finding{fleetv1alpha1.ClusterConnectionReasonNotChecked, fmt.Sprintf("reading the Secret %s failed: %v", key, err)}
	case secret == nil:
		return credential{}, finding{fleetv1alpha1.ClusterConnectionReasonSecretMissing, fmt.Sprintf("there is no Secret %s", key)}
	}
	c := credential{token: strings.TrimSpace(string(secret.Data[fleetv1alpha1.SecretKeyToken])), ca: secret.Data[fleetv1alpha1.SecretKeyCABundle]}
	if c.token == "" || strings.ContainsAny(c.token, "\r\n") {
		return credential{}, finding{
			fleetv1alpha1.ClusterConnectionReasonSecretMissing,
			fmt.Sprintf("the Secret %s has no token of one line under key %q", key, fleetv1alpha1.SecretKeyToken),
		}
	}
	c.readClaims()
	if !c.expires.IsZero() && !now.Before(c.expires) {
		return credential{}, finding{
			fleetv1alpha1.ClusterConnectionReasonTokenExpired,
			fmt.Sprintf("the token in the Secret %s expired at %s; put a new one there", key, c.expires.UTC().Format(time.RFC3339)),
		}
	}
	return c, finding{}
}

// readClaims takes out of the token what it says of itself. It is not verified:
// the cluster does that.
func (c *credential) readClaims() {
	parts := strings.Split(c.token, ".")
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
	c.expires = time.Unix(claims.Expires, 0)
	subject, ok := strings.CutPrefix(claims.Subject, subjectPrefix)
	namespace, name, _ := strings.Cut(subject, ":")
	if ok && len(validation.IsDNS1123Label(namespace))+len(validation.IsDNS1123Subdomain(name)) == 0 &&
		claims.Issued > 0 && claims.Issued < claims.Expires {
		c.issued, c.account = time.Unix(claims.Issued, 0), types.NamespacedName{Namespace: namespace, Name: name}
	}
}
