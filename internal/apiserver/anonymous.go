// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// probePaths are the paths of probes, the only ones that are served without a credential.
func probePaths() []string { return []string{"/healthz", "/livez", "/readyz"} }

// refuseAnonymous answers requests without a credential with 401, but for probes, which the
// server's library would authenticate as anonymous whatever its options say. So they end
// before they count among those that are served at a time, and before the hub is asked what
// they may do. Users who are anonymous on the hub come with the certificate of its API
// server, and are not affected.
func refuseAnonymous(next authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := next.AuthenticateRequest(r)
		certified := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
		if ok && err == nil && response.User.GetName() == user.Anonymous && !certified && !slices.Contains(probePaths(), r.URL.Path) {
			return nil, false, nil
		}
		return response, ok, err
	})
}
