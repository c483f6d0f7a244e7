// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checks reports whether the parts of a cluster do what they are for.
package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// NoProxy makes requests go to the lab directly, whatever the environment says
// about proxies.
func NoProxy(*http.Request) (*url.URL, error) { return nil, nil }

// APIServerReady checks that an API server answers.
func APIServerReady(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}

// NodeReady checks that a node takes pods, and has said so since some time.
func NodeReady(client kubernetes.Interface, name string, since time.Time) func(context.Context) error {
	since = since.Truncate(time.Second) // As exact as the node tells the time.
	return func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			return fmt.Errorf("node has the taint %s", taint.Key)
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type != corev1.NodeReady {
				continue
			}
			if condition.Status != corev1.ConditionTrue {
				return fmt.Errorf("node is not ready: %s", condition.Message)
			}
			if condition.LastHeartbeatTime.Time.Before(since) {
				return errors.New("node has not reported")
			}
			return nil
		}
		return errors.New("node has not reported")
	}
}

// DefaultAccountExists checks that pods can be created, which shows that
// controllers work.
func DefaultAccountExists(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
}

// Listens checks that somebody Listens at an address.
func Listens(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// Healthy checks that a daemon says it is well.
func Healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		client := &http.Client{Transport: &http.Transport{Proxy: NoProxy, DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}
