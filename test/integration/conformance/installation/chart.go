// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation starts a hub and its members with the programs of the tree, each
// member in a mode in which a cluster can join. Deployments run as processes.
package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// IsLimited waits until the condition FeaturesLimited has the status.
func (h *Hub) IsLimited(t testing.TB, want metav1.ConditionStatus) {
	t.Helper()
	h.StartOperator(t, fmt.Sprintf("FeaturesLimited is %s", want), func(cm *operatorv1.ClusterManager) bool {
		return meta.IsStatusConditionPresentAndEqual(cm.Status.Conditions, operatorv1.ClusterManagerConditionFeaturesLimited, want)
	})
}

// StartOperator waits until the ClusterManager is as it should be.
func (h *Hub) StartOperator(t testing.TB, what string, good func(*operatorv1.ClusterManager) bool) {
	t.Helper()
	Eventually(t, what, func() error {
		cm := &operatorv1.ClusterManager{}
		if err := h.Client.Get(t.Context(), client.ObjectKey{Name: "cluster-manager"}, cm); err != nil {
			return err
		}
		if !good(cm) {
			return errors.New(Encode(cm.Status.Conditions))
		}
		return nil
	})
}

// ProxyService leads from the address of a Service of the hub, once there is one, to a
// port of this machine, as the proxies of nodes do.
func (h *Hub) ProxyService(t testing.TB, service string, port int) {
	t.Helper()
	found := &corev1.Service{}
	Eventually(t, "Service "+service, func() error {
		return h.Client.Get(t.Context(), client.ObjectKey{Namespace: operatorv1.DefaultHubNamespace, Name: service}, found)
	})
	address := net.JoinHostPort(found.Spec.ClusterIP, fmt.Sprint(found.Spec.Ports[0].Port))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(t.Context(), from, fmt.Sprintf("%s:%d", localhost, port))
		}
	}()
}

// forward copies between a connection and another one, until either ends.
func forward(ctx context.Context, from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return // whoever called sees that, too
	}
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}
