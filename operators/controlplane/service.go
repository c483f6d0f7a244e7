// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// nodesMax is how many nodes are read to find one that clients can connect to.
const nodesMax = 100

// applyAPIServerService makes the Service of the API server and finds its address, which is in
// the certificates. One that has none yet is installed all the same.
func (i *controlPlaneInstallation) applyAPIServerService(ctx context.Context, p *controlPlanePass) error {
	if err := i.ensureOwned(ctx, p, &corev1.Service{}, p.plane.ResourceName(manifests.APIServer)); err != nil {
		return err
	}
	if err := p.Apply(ctx, i.target, manifests.APIServerService(p.plane)); err != nil {
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "already allocated") {
			return install.UnreachableError{
				Reason: fleetv1alpha1.ControlPlaneReasonPortTaken, After: brokenRetry,
				Message: fmt.Sprintf("another Service uses port %d: set another spec.service.nodePort, or none for a free one", p.plane.Spec.Service.NodePort),
			}
		}
		return err
	}
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: p.plane.Namespace, Name: p.plane.ResourceName(manifests.APIServer)}
	if err := i.Live.Get(ctx, key, service); err != nil {
		return fmt.Errorf("reading the Service %q: %w", key, err)
	}
	p.plane.ClusterIP = service.Spec.ClusterIP
	var err error
	p.plane.Endpoint, err = i.resolveEndpoint(ctx, p, service)
	return err
}

// resolveEndpoint returns the address of the Service for clients outside the host; its
// host is empty if there is none yet.
func (i *controlPlaneInstallation) resolveEndpoint(ctx context.Context, p *controlPlanePass, service *corev1.Service) (manifests.APIServerEndpoint, error) {
	spec := p.plane.Spec.Service
	endpoint := manifests.APIServerEndpoint{Port: fleetv1alpha1.ControlPlanePort}
	if len(spec.ExternalNames) > 0 {
		endpoint.Host = spec.ExternalNames[0]
	}
	switch spec.Type {
	case corev1.ServiceTypeNodePort:
		if len(service.Spec.Ports) > 0 {
			endpoint.Port = service.Spec.Ports[0].NodePort
		}
		if endpoint.Host == "" {
			address, err := i.nodeAddress(ctx)
			if err != nil {
				return endpoint, err
			}
			endpoint.Host = address
		}
	case corev1.ServiceTypeLoadBalancer:
		if balancers := service.Status.LoadBalancer.Ingress; len(balancers) > 0 {
			endpoint.Host = cmp.Or(endpoint.Host, balancers[0].Hostname, balancers[0].IP)
		}
	default:
		endpoint.Host = cmp.Or(endpoint.Host, p.plane.ServiceHost())
	}
	endpoint.Port = cmp.Or(spec.ExternalPort, endpoint.Port)
	return endpoint, nil
}

// nodeAddress returns the address of the first ready node by name, so that it is
// the same one as long as that node is ready.
func (i *controlPlaneInstallation) nodeAddress(ctx context.Context) (string, error) {
	nodes := &corev1.NodeList{}
	if err := i.Live.List(ctx, nodes, client.Limit(nodesMax)); err != nil {
		return "", fmt.Errorf("listing the nodes for the address of a Service of type NodePort (or set spec.service.externalNames): %w", err)
	}
	slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		for _, node := range nodes.Items {
			if !isNodeReady(&node) {
				continue
			}
			for _, address := range node.Status.Addresses {
				if address.Type == kind {
					return address.Address, nil
				}
			}
		}
	}
	return "", nil
}

// checkServingCertificate waits until all API servers have a certificate for the endpoint: the
// kubelet brings them a new one up to two minutes after it was made. The endpoint is not
// reported before.
func (i *controlPlaneInstallation) checkServingCertificate(ctx context.Context, p *controlPlanePass) error {
	host := p.plane.Endpoint.Host
	if host == "" {
		return nil
	}
	for _, pod := range p.pods[manifests.APIServer] {
		if !isServingPod(&pod) {
			continue // one that starts does so with the certificate that there is now
		}
		address := net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(fleetv1alpha1.ControlPlanePort))
		if err := i.Serves(ctx, address, host, p.bundles[manifests.ServingAuthority]); err != nil {
			return install.WaitError{
				Reason: fleetv1alpha1.ControlPlaneReasonInstalling, After: waitRetry,
				Message: fmt.Sprintf("waiting for pod %q to serve the certificate for %s, which takes up to two minutes: %v", pod.Name, host, err),
			}
		}
	}
	p.served = true
	return nil
}

// isServingPod reports whether clients are led to the pod.
func isServingPod(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp.IsZero() && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func isNodeReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ensureOwned makes sure that an object which is there already is one of the
// ControlPlane: that of somebody else is not taken over.
func (h *hostCluster) ensureOwned(ctx context.Context, p *controlPlanePass, into client.Object, name string) error {
	return h.ensureOwnedIn(ctx, p, into, client.ObjectKey{Namespace: p.plane.Namespace, Name: name})
}

func (h *hostCluster) ensureOwnedIn(ctx context.Context, p *controlPlanePass, into client.Object, key client.ObjectKey) error {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", into), "*v1.")
	err := h.Live.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %q: %w", kind, key, err)
	}
	if p.plane.OwnsObject(into) {
		return nil
	}
	return install.UnreachableError{
		Reason: fleetv1alpha1.ControlPlaneReasonNameInUse, After: brokenRetry,
		Message: fmt.Sprintf("%s %q exists already and is not of this ControlPlane: delete it, or choose another name", kind, key),
	}
}
