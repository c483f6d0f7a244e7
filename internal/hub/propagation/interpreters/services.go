// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cluster/callout"
)

// +kubebuilder:rbac:groups="",resources=services,verbs=get

// serviceResolver finds the Services of the hub.
type serviceResolver struct{ live client.Reader }

// resolveService returns where a Service can be reached: at the name or the address that it
// has on the hub, or else at its name in DNS. One that the hub does not have may be
// one of the cluster where we run.
func (s serviceResolver) resolveService(ctx context.Context, of callout.ServiceRef) (string, error) {
	service := &corev1.Service{}
	host := of.CertificateHost()
	err := s.live.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, service)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading Service %q: %w", of.Namespace+"/"+of.Name, err)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		host = service.Spec.ExternalName
	case service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone:
		host = service.Spec.ClusterIP
	}
	return net.JoinHostPort(host, strconv.Itoa(int(of.Port))), nil
}
