// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attach sends data to containers that run, as "kubectl attach --stdin"
// does.
package attach

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Target is a container of a pod.
type Target struct {
	Pod       client.ObjectKey
	Container string
}

// SendStdin sends all of it to the container's standard input, and writes what the
// container says on standard error to said. It returns when the container has ended.
func SendStdin(ctx context.Context, config *rest.Config, to Target, data io.Reader, said io.Writer) error {
	target, err := attachURL(config, to)
	if err != nil {
		return err
	}
	// By WebSocket, and by SPDY where a host or a proxy before it knows no other way.
	old, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, target)
	if err != nil {
		return fmt.Errorf("prepare a connection by SPDY: %w", err)
	}
	current, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, target.String())
	if err != nil {
		return fmt.Errorf("prepare a connection by WebSocket: %w", err)
	}
	executor, err := remotecommand.NewFallbackExecutor(current, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("prepare a connection: %w", err)
	}
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: data, Stderr: said}); err != nil {
		return fmt.Errorf("attach to container %s of Pod %q: %w", to.Container, to.Pod, err)
	}
	return nil
}

func attachURL(config *rest.Config, to Target) (*url.URL, error) {
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	base, path, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("the address of the host: %w", err)
	}
	target := base.JoinPath(path, "namespaces", to.Pod.Namespace, "pods", to.Pod.Name, "attach")
	target.RawQuery = url.Values{"container": {to.Container}, "stdin": {"true"}, "stderr": {"true"}}.Encode()
	return target, nil
}
