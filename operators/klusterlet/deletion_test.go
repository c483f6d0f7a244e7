// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/registration/handover"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

func (h *harness) delete(name string) {
	h.t.Helper()
	err := h.admin.Delete(h.t.Context(), &operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if client.IgnoreNotFound(err) != nil {
		h.t.Fatal(err)
	}
}

// reconcileDeleted runs passes until the Klusterlet is gone.
func (h *harness) reconcileDeleted(name string) {
	h.t.Helper()
	const passesMax = 5
	for range passesMax {
		klusterlet := &operatorv1.Klusterlet{}
		err := h.admin.Get(h.t.Context(), types.NamespacedName{Name: name}, klusterlet)
		if apierrors.IsNotFound(err) {
			h.empty()
			return
		}
		expect.NoError(h.t, err)
		if _, err := h.c.Reconcile(h.t.Context(), klusterlet); err != nil {
			h.t.Fatal(err)
		}
		// Pods end by the work of others, which are not there: they are waited for.
		h.clock.Step(podsGoneMax)
	}
	h.t.Fatalf("Klusterlet %q is still there after %d passes", name, passesMax)
}

// empty does what Kubernetes' controllers do with namespaces that are deleted.
func (h *harness) empty() {
	h.t.Helper()
	expect.NoError(h.t, cluster.EndNamespaces(h.t.Context(), h.admin))
}

// marked returns what has the labels, of all kinds that we install.
func (h *harness) marked(labels map[string]string) []string {
	h.t.Helper()
	var found []string
	for _, list := range []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceAccountList{}, &networkingv1.NetworkPolicyList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
	} {
		expect.NoError(h.t, h.admin.List(h.t.Context(), list, client.MatchingLabels(labels)))
		if n := meta.LenList(list); n > 0 {
			found = append(found, fmt.Sprintf("%d of %T", n, list))
		}
	}
	return found
}

func TestRemovalTakesEverythingWithoutTheHub(t *testing.T) {
	t.Parallel()
	underBothRoles(t, func(t *testing.T, h *harness) {
		// Whoever joins a cluster makes it, for the bootstrap secret: it goes all the same, as with OCM.
		h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace}})
		h.klusterlet("klusterlet", func(k *operatorv1.Klusterlet) {
			k.Spec.RegistrationConfiguration = &operatorv1.RegistrationConfiguration{
				FeatureGates: []operatorv1.FeatureGate{{Feature: "NetworkPolicies", Mode: operatorv1.FeatureGateModeEnable}},
			}
		})
		h.reconcile("klusterlet")
		// The hub is down: nothing listens where the secrets lead to.
		for _, name := range []string{operatorv1.BootstrapHubKubeConfigSecret, operatorv1.HubKubeConfigSecret} {
			h.secret(agentNamespace, name, map[string][]byte{"kubeconfig": h.kubeconfig("nobody", unknownHub), "cluster-name": []byte("cluster1")})
		}
		h.reconcile("klusterlet")
		h.runPod("klusterlet", manifests.RegistrationApp, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		own := h.appliedWork("own", string(h.get("klusterlet").UID))
		foreign := h.appliedWork("foreign", "another-agent")
		h.delete("klusterlet")

		result := h.reconcile("klusterlet")
		if h.exists(&appsv1.Deployment{}, agentNamespace, "klusterlet-registration-agent") {
			t.Error("the Deployment of the agent is left")
		}
		if result.RequeueAfter != podsGonePoll || !h.exists(&workv1.AppliedManifestWork{}, "", own) {
			t.Errorf("the works are removed while a pod of the agent still runs (next pass after %s)", result.RequeueAfter)
		}
		expect.NoError(t, h.admin.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: manifests.RegistrationApp}}, client.GracePeriodSeconds(0)))
		h.reconcile("klusterlet")
		h.empty()

		if h.exists(&operatorv1.Klusterlet{}, "", "klusterlet") {
			t.Error("the Klusterlet is left")
		}
		if err := h.admin.Get(t.Context(), types.NamespacedName{Name: own}, &workv1.AppliedManifestWork{}); !apierrors.IsNotFound(err) {
			t.Errorf("the AppliedManifestWork of the agent is left: %v", err)
		}
		if work := (&workv1.AppliedManifestWork{}); !h.exists(work, "", foreign) || len(work.Finalizers) != 1 {
			t.Errorf("the AppliedManifestWork of another agent was touched: %v", work.Finalizers)
		}
		// It was the last one: nothing is left but the definitions.
		h.expectNone(t, "klusterlet")
		for _, name := range []string{agentNamespace, operatorv1.DefaultAddOnNamespace} {
			if h.exists(&corev1.Namespace{}, "", name) {
				t.Errorf("namespace %q is left", name)
			}
		}
		for _, name := range []string{manifests.ExecutionRole, manifests.AggregateRole} {
			if h.exists(&rbacv1.ClusterRole{}, "", name) {
				t.Errorf("role %q is left", name)
			}
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if !h.exists(crd, "", "appliedmanifestworks.work.open-cluster-management.io") || crd.Annotations[operatorv1.AnnotationCRDVersion] != "" {
			t.Errorf("the definitions have to stay, without our version: %v", crd.Annotations)
		}
	})
}

// appliedWork makes an AppliedManifestWork of an agent, with the agent's finalizer.
func (h *harness) appliedWork(name, agent string) string {
	h.t.Helper()
	work := &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{workv1.FinalizerAppliedManifestWorkCleanup}}}
	work.Spec.AgentID, work.Spec.HubHash, work.Spec.ManifestWorkName = agent, "hash", name
	// The definition is established by the API server itself, in its own time.
	expect.Eventually(h.t, "AppliedManifestWorks are served", func() error {
		return client.IgnoreAlreadyExists(h.admin.Create(h.t.Context(), work))
	})
	return name
}

// TestRemovalKeepsWhatAnotherAgentTakesOver is about a Klusterlet that goes before its
// successor has taken over everything, and one whose cluster came back to it.
func TestRemovalKeepsWhatAnotherAgentTakesOver(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	for name, c := range map[string]struct {
		turns [][2]string // an agent takes the place of another
		stays bool
	}{
		"nobody":       {},
		"push":         {turns: [][2]string{{"push", "own"}}, stays: true},
		"and-back":     {turns: [][2]string{{"push", "own"}, {"own", "push"}}},
		"push-and-new": {turns: [][2]string{{"push", "own"}, {"new", "push"}}, stays: true},
		"others":       {turns: [][2]string{{"push", "other"}}},
	} {
		h.klusterlet("klusterlet")
		h.reconcile("klusterlet")
		uid := string(h.get("klusterlet").UID)
		ids := func(id string) string {
			if id == "own" {
				return uid
			}
			return id
		}
		record := h.appliedWork("of-"+name, uid)
		mark := handover.NewMark("hash", "cluster1")
		for _, turn := range c.turns {
			handover.RecordTakeover(mark, ids(turn[0]), ids(turn[1]))
		}
		h.create(mark)
		h.delete("klusterlet")
		h.reconcileDeleted("klusterlet")
		work := &workv1.AppliedManifestWork{}
		stays := h.exists(work, "", record) && work.DeletionTimestamp.IsZero() && len(work.Finalizers) == 1
		if stays != c.stays {
			t.Errorf("%s takes over: the AppliedManifestWork stays with its finalizer: %t, want %t", name, stays, c.stays)
		}
		expect.NoError(t, h.admin.Delete(t.Context(), mark))
	}
}

func TestRemovalKeepsWhatIsSharedUntilTheLastKlusterletGoes(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.klusterlet("klusterlet")
	h.klusterlet("other", func(k *operatorv1.Klusterlet) { k.Spec.Namespace = "open-cluster-management-agent-other" })
	h.reconcile("klusterlet")
	h.reconcile("other")
	h.delete("klusterlet")
	h.reconcileDeleted("klusterlet")
	for _, name := range []string{operatorv1.DefaultAddOnNamespace, "open-cluster-management-agent-other"} {
		if !h.exists(&corev1.Namespace{}, "", name) {
			t.Errorf("namespace %q is gone though another Klusterlet needs it", name)
		}
	}
	if !h.exists(&rbacv1.ClusterRole{}, "", manifests.ExecutionRole) {
		t.Error("the shared role is gone though another Klusterlet needs it")
	}
	if h.exists(&corev1.Namespace{}, "", agentNamespace) {
		t.Error("the namespace of the removed agents is left")
	}
	h.delete("other")
	h.reconcileDeleted("other")
	if h.exists(&corev1.Namespace{}, "", operatorv1.DefaultAddOnNamespace) {
		t.Error("the namespace of add-ons is left after the last Klusterlet")
	}
}
