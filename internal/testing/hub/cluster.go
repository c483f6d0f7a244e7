// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub is a hub whose registration controllers run with the rights that they have
// where they are installed, and what tests do there and wait for.
package hub

import (
	"context"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// NewCluster returns a cluster; one that is accepted has an agent, one, as if its
// certificate request had been approved.
func NewCluster(name string, accepted bool) *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted},
	}
	if accepted {
		mc.Annotations = map[string]string{clusterv1.AnnotationAgents: "one"}
	}
	return mc
}

// IsAccepted waits for the condition HubAccepted to be as wanted, with the reason.
func (h *RegistrationHub) IsAccepted(t testing.TB, name string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	h.Eventually(t, fmt.Sprintf("%s is accepted=%s %s", name, status, reason), func(ctx context.Context) (bool, error) {
		mc := &clusterv1.ManagedCluster{}
		if err := h.Client.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
		if c == nil || c.Status != status || c.Reason != reason {
			return false, fmt.Errorf("the condition is %+v", c)
		}
		return true, nil
	})
}

// IsGone waits until an object is gone.
func (h *RegistrationHub) IsGone(t testing.TB, obj client.Object) {
	t.Helper()
	h.Eventually(t, fmt.Sprintf("%T %s is gone", obj, obj.GetName()), func(ctx context.Context) (bool, error) {
		err := h.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// PatchCluster changes a cluster.
func (h *RegistrationHub) PatchCluster(t testing.TB, name, body string) {
	t.Helper()
	raw := client.RawPatch("application/merge-patch+json", []byte(body))
	if err := h.Client.Patch(t.Context(), NewCluster(name, false), raw); err != nil {
		t.Fatal(err)
	}
}

// AgentMay reports whether the agent of a cluster may do something.
func (h *RegistrationHub) AgentMay(ctx context.Context, t testing.TB, name string, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	return h.OneAgentMay(ctx, t, name, "one", what)
}

// OneAgentMay tells the same of one agent of the cluster.
func (h *RegistrationHub) OneAgentMay(ctx context.Context, t testing.TB, name, agent string, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               clusterv1.AgentUser(name, agent),
		Groups:             []string{clusterv1.AgentGroup(name), clusterv1.GroupManagedClusters, "system:authenticated"},
		ResourceAttributes: &what,
	}}
	if err := h.Client.Create(ctx, review); err != nil {
		t.Fatalf("asking what the agent of %q may do: %v", name, err)
	}
	return review.Status.Allowed
}

// AgentChecks are what klusterlets check before they start (reference §3.4),
// exactly as they ask: without a name for renew; and what ours needs besides.
func AgentChecks(name string) []authorizationv1.ResourceAttributes {
	var checks []authorizationv1.ResourceAttributes
	add := func(a authorizationv1.ResourceAttributes, verbs ...string) {
		for _, verb := range verbs {
			a.Verb = verb
			checks = append(checks, a)
		}
	}
	add(authorizationv1.ResourceAttributes{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, "get", "list", "watch")
	add(authorizationv1.ResourceAttributes{Group: clusterv1.GroupName, Resource: "managedclusters", Name: name}, "get", "list", "update", "watch")
	add(authorizationv1.ResourceAttributes{Group: clusterv1.GroupName, Resource: "managedclusters", Subresource: "status", Name: name}, "patch", "update")
	add(authorizationv1.ResourceAttributes{Group: clusterv1.RegisterGroup, Resource: "managedclusters", Subresource: "clientcertificates"}, "renew")
	add(authorizationv1.ResourceAttributes{Group: clusterv1.RegisterGroup, Resource: "managedclusters", Subresource: "clientcertificates", Name: name}, "renew")
	add(authorizationv1.ResourceAttributes{Group: fleetv1alpha1.GroupName, Resource: "clusterconnections", Name: name}, "get")
	add(authorizationv1.ResourceAttributes{Group: fleetv1alpha1.GroupName, Resource: "clusterconnections", Subresource: "status", Name: name}, "patch")
	add(authorizationv1.ResourceAttributes{Group: "coordination.k8s.io", Resource: "leases", Namespace: name, Name: clusterv1.LeaseName}, "get", "update")
	add(authorizationv1.ResourceAttributes{Resource: "events", Namespace: name}, "create", "patch", "update")
	add(authorizationv1.ResourceAttributes{Group: "events.k8s.io", Resource: "events", Namespace: name}, "create", "patch", "update")
	add(authorizationv1.ResourceAttributes{Group: "work.open-cluster-management.io", Resource: "manifestworks", Namespace: name}, "get", "list", "watch", "update")
	add(authorizationv1.ResourceAttributes{Group: "work.open-cluster-management.io", Resource: "manifestworks", Subresource: "status", Namespace: name}, "patch", "update")
	return checks
}

// PatchNamespace gives the namespace of a cluster another label.
func (h *RegistrationHub) PatchNamespace(t testing.TB, name, label string) {
	t.Helper()
	raw := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, name))
	if err := h.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, raw); err != nil {
		t.Fatal(err)
	}
}

// NewManifestWork returns a work with a deletion priority, or without one.
func NewManifestWork(namespace, name, priority string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
		"metadata": map[string]any{
			"namespace": namespace, "name": name, "finalizers": []any{clusterv1.FinalizerManifestWorkCleanup},
		},
		"spec": map[string]any{"workload": map[string]any{"manifests": []any{}}},
	}}
	if priority != "" {
		u.SetAnnotations(map[string]string{clusterv1.AnnotationCleanupPriority: priority})
	}
	return u
}

// ReleaseWork does what an agent does when it has cleaned up.
func (h *RegistrationHub) ReleaseWork(t testing.TB, work string) {
	t.Helper()
	raw := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := h.Client.Patch(t.Context(), NewManifestWork("west", work, ""), raw); err != nil {
		t.Fatal(err)
	}
}

// PlayJoin does what the agent of a cluster and an administrator do.
func (h *RegistrationHub) PlayJoin(ctx context.Context, name string) error {
	if err := h.Client.Create(ctx, NewCluster(name, true)); err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	agent, err := client.New(rest.CopyConfig(AsUser(h.AdminConfig, clusterv1.AgentUser(name, "one"), clusterv1.AgentGroup(name), clusterv1.GroupManagedClusters)),
		client.Options{Scheme: h.Client.Scheme(), Mapper: h.Client.RESTMapper()})
	if err != nil {
		return fmt.Errorf("making the client of %s: %w", name, err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for done := 0; done < 2; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		mc := &clusterv1.ManagedCluster{}
		if err := agent.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			continue // it has no rights yet
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted) {
			continue
		}
		kind := []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable}[done]
		meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind})
		if err := agent.Status().Update(ctx, mc); err == nil {
			done++
		}
	}
	return nil
}
