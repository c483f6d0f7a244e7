// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/internal/testing/build"
	hubmanifests "github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// The clusters of the installations, by their names.
const (
	pullCluster = "cluster1"
	pushCluster = "cluster2"
)

// team is the namespace of users.
const team = "team-a"

// TestPermissionsOfOperators is about the accounts of both operators.
func TestPermissionsOfOperators(t *testing.T) {
	var all []*unstructured.Unstructured
	for _, name := range []string{config.ClusterManagerOperator, config.KlusterletOperator} {
		objects, err := config.Operator(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	comparePermissions(t, "operators", all)
}

// TestPermissionsOfHooksOfCharts is about the accounts of the hooks of a chart, as Helm renders it.
func TestPermissionsOfHooksOfCharts(t *testing.T) {
	for _, chart := range []string{"cluster-manager", "klusterlet"} {
		file, err := os.Open("../../../hack/charts/testdata/" + chart + "-default.yaml")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		var hooks []*unstructured.Unstructured
		for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("reading chart %s: %v", chart, err)
			}
			if strings.Contains(object.GetName(), "-hooks") {
				hooks = append(hooks, object)
			}
		}
		comparePermissions(t, "helm-"+chart, hooks)
	}
}

// TestPermissionsOfTheOperatorOfControlPlanes is about what it is granted in the
// namespace of a ControlPlane and in that of its kubeconfig.
func TestPermissionsOfTheOperatorOfControlPlanes(t *testing.T) {
	objects, err := config.Operator(config.ControlPlaneOperator)
	if err != nil {
		t.Fatal(err)
	}
	for namespace, role := range map[string]string{
		"hub-control-plane": fleetv1alpha1.ControlPlaneNamespaceRole, "hub": fleetv1alpha1.ControlPlaneKubeconfigRole,
	} {
		objects = append(objects, typed(t, build.ClusterRoleBindingIn(namespace, "control-plane", role,
			build.AccountSubject(operatorv1.DefaultOperatorNamespace, fleetv1alpha1.ControlPlaneOperator))))
	}
	comparePermissions(t, "control-plane", objects)
}

// TestPermissionsOfAHub is about one with every component, and one whose components run elsewhere.
func TestPermissionsOfAHub(t *testing.T) {
	comparePermissions(t, "hub", hub(t))
	comparePermissions(t, "hub-users", users(t))
	h := everyComponent("hub1")
	h.Spec.DeployOption.Mode = operatorv1.InstallModeHosted
	h.Spec.DeployOption.Hosted = &operatorv1.HostedClusterManagerConfiguration{}
	comparePermissions(t, "hub-hosted", encode(t, fromRules(t, h, hubmanifests.ComponentAccess, bootstrap)))
	comparePermissions(t, "hub-hosted-management", encode(t, fromRules(t, h, hubmanifests.HomeAccess)))
}

// TestPermissionsOfClusters is about what a Pull and a Push cluster add to a hub.
func TestPermissionsOfClusters(t *testing.T) {
	h := everyComponent("cluster-manager")
	objects := slices.DeleteFunc(hub(t), func(o *unstructured.Unstructured) bool {
		return o.GetName() != fleetv1alpha1.PushCredentialsRole
	})
	for _, role := range grants.SharedRoles() {
		objects = append(objects, typed(t, role))
	}
	for _, cluster := range []string{pullCluster, pushCluster} {
		to := grants.AgentSubjects(cluster, "agent1")
		if cluster == pushCluster {
			to = []rbacv1.Subject{grants.PushAgent(h.Namespace())}
			objects = append(objects, typed(t, grants.CredentialsRoleBinding(cluster, h.Namespace())))
		}
		work := grants.WorkRoleBinding(cluster, to...)
		work.Finalizers = nil // nobody would take them off
		own := grants.ClusterRole(cluster, true)
		own.Rules = append(own.Rules, grants.CustomizationReaderRule())
		objects = append(objects, typed(t, own), typed(t, grants.ClusterRoleBinding(cluster, to...)),
			typed(t, grants.RegistrationRoleBinding(cluster, to...)), typed(t, work))
	}
	comparePermissions(t, "hub-clusters", objects)
}

// TestPermissionsOfAgents is about those of a Klusterlet on each of its clusters.
func TestPermissionsOfAgents(t *testing.T) {
	rules, err := klusterlet.LoadAgentRules()
	if err != nil {
		t.Fatal(err)
	}
	for folder, mode := range map[string]operatorv1.InstallMode{
		"member": operatorv1.InstallModeDefault, "member-singleton": operatorv1.InstallModeSingleton,
		"member-hosted": operatorv1.InstallModeHosted, "member-singleton-hosted": operatorv1.InstallModeSingletonHosted,
	} {
		k := &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: "klusterlet"}}
		k.Spec.DeployOption.Mode = mode
		comparePermissions(t, folder, encode(t, manifests.MemberAccess(k, rules, "")))
		if manifests.IsHostedMode(k) {
			comparePermissions(t, folder+"-management", encode(t, manifests.HomeAccess(k, rules, "")))
		}
	}
}

// TestPermissionsInAPushCluster is about the account of a hub in it.
func TestPermissionsInAPushCluster(t *testing.T) {
	objects, err := member.PushInstallation{Cluster: pushCluster, Hub: "a-hub", Namespace: "capstan-cluster"}.RenderObjects()
	if err != nil {
		t.Fatal(err)
	}
	comparePermissions(t, "member-push", encode(t, objects))
}

// hub is a hub with every component.
func hub(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return encode(t, fromRules(t, everyComponent("cluster-manager"), hubmanifests.ComponentAccess, bootstrap))
}

// users are those of a namespace of the hub: one for each role, called like it.
func users(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects := encode(t, fromRules(t, everyComponent("cluster-manager"), userRoles))
	for _, role := range []string{"view", "edit", "admin"} {
		objects = append(objects, typed(t, build.ClusterRoleBindingIn(team, role, role, build.UserSubject(role))))
	}
	return objects
}

func userRoles(h hubmanifests.Hub, _ hubmanifests.ComponentRules) ([]render.Object, error) {
	return hubmanifests.UserRoles(h, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }), nil
}

func bootstrap(h hubmanifests.Hub, _ hubmanifests.ComponentRules) ([]render.Object, error) {
	return hubmanifests.BootstrapAccess(h), nil
}

type hubPart func(hubmanifests.Hub, hubmanifests.ComponentRules) ([]render.Object, error)

// everyComponent is a hub that has all components.
func everyComponent(name string) hubmanifests.Hub {
	h := hubmanifests.Hub{Name: name, OperatorNamespace: operatorv1.DefaultOperatorNamespace, PushClusters: true}
	h.Registration, _ = features.ResolveGates(features.HubRegistration, map[string]bool{string(features.AggregatedAPI): true})
	h.APIServerAddress = "clusters.example.com" // which hosted hubs need
	h.Work, _ = features.ResolveGates(features.HubWork, map[string]bool{string(features.CleanUpCompletedManifestWork): true})
	h.Placement, _ = features.ResolveGates(features.HubPlacement, map[string]bool{string(features.Propagation): true})
	return h
}

func fromRules(t *testing.T, h hubmanifests.Hub, parts ...hubPart) []render.Object {
	t.Helper()
	var all []render.Object
	for _, part := range parts {
		objects, err := part(h, config.Rules)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	return all
}

func encode(t *testing.T, lists ...[]render.Object) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, list := range lists {
		for _, object := range list {
			u, err := render.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			objects = append(objects, u)
		}
	}
	return objects
}

func typed(t *testing.T, object client.Object) *unstructured.Unstructured {
	t.Helper()
	kind, err := apiutil.GVKForObject(object, clientgoscheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u
}
