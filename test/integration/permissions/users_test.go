// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attempt is a write of one kind. It is a dry run, so it changes nothing.
type attempt struct{ apiVersion, kind, spec string }

// TestUsersOfANamespaceDeliverNothing lets the users of a namespace, with the
// roles of Kubernetes, try to bring something to members: works, what makes
// works, and what decides where these go.
func TestUsersOfANamespaceDeliverNothing(t *testing.T) {
	c, objects := clusters.TakeFixture(t), users(t)
	c.install(t, objects)
	defer c.remove(t, objects)
	const (
		work    = `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"default"}}]}}}`
		sends   = `{"spec":{"resourceSelectors":[{"apiVersion":"v1","kind":"Secret"}],"placement":{}}}`
		changes = `{"spec":{"overrideRules":[{"overriders":{"labelsOverrider":[{"operator":"add","value":{"a":"b"}}]}}]}}`
		binds   = `{"spec":{"resource":{"apiVersion":"v1","kind":"Secret","name":"x"}}}`
		set     = `{"spec":{"manifestWorkTemplate":{"workload":{"manifests":[]}},"placementRefs":[{"name":"x","rolloutStrategy":{"type":"All"}}]}}`
	)
	attacks := map[string]attempt{
		"a work":            {"work.open-cluster-management.io/v1", "ManifestWork", work},
		"what makes works":  {"work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet", set},
		"a decision":        {"cluster.open-cluster-management.io/v1beta1", "PlacementDecision", `{}`},
		"a score":           {"cluster.open-cluster-management.io/v1alpha1", "AddOnPlacementScore", `{}`},
		"a way to a member": {"fleet.capstan.io/v1alpha1", "ClusterConnection", `{"spec":{"syncMode":"Pull"}}`},
		"a cluster":         {"cluster.open-cluster-management.io/v1", "ManagedCluster", `{"spec":{"hubAcceptsClient":true}}`},
		"a set of clusters": {"cluster.open-cluster-management.io/v1beta2", "ManagedClusterSet", `{}`},
		"a policy":          {"policy.karmada.io/v1alpha1", "PropagationPolicy", sends},
		"a policy for all":  {"policy.karmada.io/v1alpha1", "ClusterPropagationPolicy", sends},
		"an override":       {"policy.karmada.io/v1alpha1", "OverridePolicy", changes},
		"one for all":       {"policy.karmada.io/v1alpha1", "ClusterOverridePolicy", changes},
		"a binding":         {"work.karmada.io/v1alpha2", "ResourceBinding", binds},
		"a binding for all": {"work.karmada.io/v1alpha2", "ClusterResourceBinding", binds},
	}
	choices := map[string]attempt{
		"a placement":          {"cluster.open-cluster-management.io/v1beta1", "Placement", `{"spec":{}}`},
		"the binding of a set": {"cluster.open-cluster-management.io/v1beta2", "ManagedClusterSetBinding", `{"spec":{"clusterSet":"x"}}`},
	}
	for _, user := range []string{"view", "edit", "admin"} {
		for what, attack := range attacks {
			if err := attack.as(t, c.config, user); !apierrors.IsForbidden(err) {
				t.Errorf("user with role %s writes %s: got %v, want it to be forbidden", user, what, err)
			}
			if err := attack.as(t, c.config, ""); err != nil {
				t.Errorf("an administrator cannot write %s, so this proves nothing: %v", what, err)
			}
		}
		for what, choice := range choices {
			if err := choice.as(t, c.config, user); (user == "admin") != (err == nil) || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("user with role %s writes %s: got %v", user, what, err)
			}
		}
	}
}

// as makes the attempt as the user; without one, as an administrator.
func (a attempt) as(t *testing.T, restConfig *rest.Config, user string) error {
	t.Helper()
	config := rest.CopyConfig(restConfig)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	content := strings.Replace(a.spec, "{", `{"apiVersion":"`+a.apiVersion+`","kind":"`+a.kind+`",`, 1)
	if err := u.UnmarshalJSON([]byte(strings.Replace(content, ",}", "}", 1))); err != nil {
		t.Fatal(err)
	}
	u.SetName("x")
	if namespaced, err := c.IsObjectNamespaced(u); err != nil {
		t.Fatal(err)
	} else if namespaced {
		u.SetNamespace(team)
	}
	return c.Create(t.Context(), u, client.DryRunAll)
}
