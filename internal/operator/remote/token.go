// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TokenLifetime is how long a token of an account is asked to be valid; its
// cluster may make it shorter. It is renewed when half of its life is over, so
// those who have it go on for half a week without an operator, and do not miss a
// renewal that the kubelet brings to their file minutes later.
const TokenLifetime = 7 * 24 * time.Hour

// EnsureToken returns a token of the ServiceAccount: the present one as long as it is
// good, else a new one.
func EnsureToken(ctx context.Context, c client.Client, account types.NamespacedName, present []byte, now time.Time) ([]byte, error) {
	live := &corev1.ServiceAccount{}
	if err := c.Get(ctx, account, live); err != nil {
		return nil, fmt.Errorf("reading ServiceAccount %q: %w", account, err)
	}
	if tokenIsGood(present, live.UID, now) {
		return present, nil
	}
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(TokenLifetime.Seconds()))},
	}
	if err := c.SubResource("token").Create(ctx, live, request); err != nil {
		return nil, fmt.Errorf("requesting a token of ServiceAccount %q: %w", account, err)
	}
	return []byte(request.Status.Token), nil
}

// TokenKubeconfig returns a kubeconfig for someone with a token: all that
// another one, that of an administrator, says of the server, and the file of the
// token, which can so be renewed without a new kubeconfig.
func TokenKubeconfig(server *clientcmdapi.Cluster, name, namespace, tokenFile string) ([]byte, error) {
	cluster := server.DeepCopy()
	cluster.Extensions = nil
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {TokenFile: tokenFile}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of the %s: %w", name, err)
	}
	return kubeconfig, nil
}

// TokenClaims are what a token of a ServiceAccount says of itself. It is its
// cluster that has to verify them, so they are only read here.
type TokenClaims struct {
	// IssuedAt and Expires are seconds since 1970.
	IssuedAt   int64 `json:"iat"`
	Expires    int64 `json:"exp"`
	Kubernetes struct {
		ServiceAccount struct {
			UID types.UID `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// tokenIsGood reports whether the token is one of the account, which was perhaps
// deleted and made again, or is of another cluster than before, and has more
// than half of its life before it.
func tokenIsGood(token []byte, account types.UID, now time.Time) bool {
	claims, err := ParseToken(string(token))
	if err != nil || claims.Kubernetes.ServiceAccount.UID != account {
		return false
	}
	issued := time.Unix(claims.IssuedAt, 0)
	expires := time.Unix(claims.Expires, 0)
	return now.Before(issued.Add(expires.Sub(issued) / 2))
}

// ParseToken returns what the token says of itself.
func ParseToken(token string) (TokenClaims, error) {
	var claims TokenClaims
	parts := strings.Split(token, ".")
	const header, payload, signature = 0, 1, 2
	if len(parts) != signature+1 || parts[header] == "" {
		return claims, fmt.Errorf("it is not a JSON web token")
	}
	decoded, err := base64.RawURLEncoding.DecodeString(parts[payload])
	if err != nil {
		return claims, fmt.Errorf("decoding the token: %w", err)
	}
	if err := json.Unmarshal(decoded, &claims); err != nil {
		return claims, fmt.Errorf("decoding the claims of the token: %w", err)
	}
	return claims, nil
}
