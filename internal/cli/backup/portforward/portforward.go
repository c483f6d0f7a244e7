// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package portforward connects to ports of pods by way of the API server of their
// cluster, as "kubectl port-forward" does.
package portforward

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const loopback = "127.0.0.1"

// Connection leads to a port of a pod until HangUp is called.
type Connection struct {
	// Dial connects to the port, from this machine.
	Dial   func(context.Context) (net.Conn, error)
	HangUp func()
}

// ForwardPort makes the port of a pod one of this machine.
func ForwardPort(ctx context.Context, config *rest.Config, pod client.ObjectKey, port int32) (*Connection, error) {
	dialer, err := dialerFor(config, pod)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan struct{})
	ended := make(chan error, 1)
	forwarder, err := portforward.NewOnAddressesForStreamingWithContext(ctx, dialer, []string{loopback},
		[]string{fmt.Sprintf("0:%d", port)}, ready, io.Discard, io.Discard)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("prepare to forward a port: %w", err)
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		return nil, fmt.Errorf("forward a port: %w", err)
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("forward a port: %w", err)
	}
	address := net.JoinHostPort(loopback, strconv.Itoa(int(ports[0].Local)))
	dial := func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) }
	return &Connection{Dial: dial, HangUp: cancel}, nil
}

// dialerFor connects by WebSocket, and by SPDY where a host or a proxy before it
// knows no other way.
func dialerFor(config *rest.Config, pod client.ObjectKey) (httpstream.Dialer, error) {
	target, err := portForwardURL(config, pod)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare a connection by SPDY: %w", err)
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	current, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, config)
	if err != nil {
		return nil, fmt.Errorf("prepare a connection by WebSocket: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(current, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func portForwardURL(config *rest.Config, pod client.ObjectKey) (*url.URL, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	base, path, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the address of the host: %w", err)
	}
	return base.JoinPath(path, "namespaces", pod.Namespace, "pods", pod.Name, "portforward"), nil
}
