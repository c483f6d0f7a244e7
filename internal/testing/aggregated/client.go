// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"io"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
)

// WatchDirectly watches Clusters without the hub in between, as it does itself.
func (h *Hub) WatchDirectly(t testing.TB, server string) io.Reader {
	t.Helper()
	proxy := h.CA.Issue(t, "front-proxy-client", nil)
	c, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: h.CA.Pem, CertData: proxy.Cert, KeyData: proxy.Key}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/apis/"+v1alpha1.GroupVersion.String()+"/clusters?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Remote-User", "admin")
	request.Header.Set("X-Remote-Group", "system:masters")
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("watching Clusters: %s", response.Status)
	}
	return response.Body
}

// NewCluster returns a Cluster, with an endpoint if the hub connects to it.
func NewCluster(name string, mode v1alpha1.ClusterSyncMode) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterSpec{SyncMode: mode}}
	if mode == v1alpha1.Push {
		c.Spec.APIEndpoint = "https://" + name + ".example.com:6443"
	}
	return c
}

// DynamicClient returns a client of Clusters.
func (h *Hub) DynamicClient(t testing.TB, config *rest.Config) dynamic.ResourceInterface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c.Resource(v1alpha1.GroupVersion.WithResource("clusters"))
}

// UpdateDynamic updates an object as it is, with or without a version.
func (h *Hub) UpdateDynamic(t testing.TB, c *v1alpha1.Cluster) error {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Cluster", "metadata": map[string]any{"name": c.Name},
		"spec": map[string]any{"syncMode": string(c.Spec.SyncMode), "provider": c.Spec.Provider},
	}}
	_, err := h.DynamicClient(t, h.AdminConfig).Update(t.Context(), o, metav1.UpdateOptions{})
	return err
}

// WarnedOf returns a client of the administrator, and the warnings that it gets.
func (h *Hub) WarnedOf(t testing.TB) (client.Client, *[]string) {
	t.Helper()
	heard := &[]string{}
	config := rest.CopyConfig(h.AdminConfig)
	config.WarningHandlerWithContext = Warnings{Heard: heard}
	c, err := client.New(config, client.Options{Scheme: h.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c, heard
}

// Warnings keeps the warnings of an API server.
type Warnings struct{ Heard *[]string }

// HandleWarningHeaderWithContext notes a warning.
func (w Warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*w.Heard = append(*w.Heard, text)
}
