// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// tokenLifetime is how long a token of a hosted agent is asked to be valid; the
// managed cluster may make it shorter. It is renewed when half of its life is
// over, so agents go on for half a week without an operator, and do not miss a
// renewal that the kubelet brings to their file minutes later.
const tokenLifetime = 7 * 24 * time.Hour

// tokenClaims are what a token of a ServiceAccount says of itself. It is the
// managed cluster that has to verify them, so they are only read here.
type tokenClaims struct {
	IssuedAt   int64 `json:"iat"`
	Expires    int64 `json:"exp"`
	Kubernetes struct {
		ServiceAccount struct {
			UID types.UID `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// tokenIsGood tells whether the token is one of the account, which was perhaps
// deleted and made again, or is of another cluster than before, and has more
// than half of its life before it.
func tokenIsGood(token []byte, account types.UID, now time.Time) bool {
	claims, err := parseToken(string(token))
	if err != nil || claims.Kubernetes.ServiceAccount.UID != account {
		return false
	}
	issued, expires := time.Unix(claims.IssuedAt, 0), time.Unix(claims.Expires, 0)
	return now.Before(issued.Add(expires.Sub(issued) / 2))
}

func parseToken(token string) (tokenClaims, error) {
	var claims tokenClaims
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

// agentKubeconfig returns the kubeconfig of a hosted agent for its member: all
// that its administrator's says of the server, and a token of the agent's own,
// in a file beside it, that is renewed without a new kubeconfig.
func agentKubeconfig(server *clientcmdapi.Cluster, namespace string) ([]byte, error) {
	const name = "member"
	cluster := server.DeepCopy()
	cluster.Extensions = nil
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		CurrentContext: name,
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		Clusters:       map[string]*clientcmdapi.Cluster{name: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {TokenFile: manifests.MemberToken}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of the managed cluster: %w", err)
	}
	return kubeconfig, nil
}
