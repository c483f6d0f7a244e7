// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	olm "github.com/operator-framework/operator-lib/conditions"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

func singletonMode(k *operatorv1.Klusterlet) {
	k.Spec.DeployOption.Mode = operatorv1.InstallModeSingleton
}

// clean removes all Klusterlets and what the missing controllers of Kubernetes
// would: namespaces do not go away by themselves here.
func (h *harness) clean() {
	h.t.Helper()
	list := &operatorv1.KlusterletList{}
	expect.NoError(h.t, h.admin.List(h.t.Context(), list))
	for i := range list.Items {
		name := list.Items[i].Name
		h.delete(name)
		h.reconcileDeleted(name)
	}
}

func TestOperatorInstallsBothAgentsWithItsRoleOnly(t *testing.T) {
	t.Parallel()
	underBothRoles(t, func(t *testing.T, h *harness) {
		h.klusterlet("klusterlet")
		h.reconcile("klusterlet")
		h.expect("klusterlet", operatorv1.KlusterletConditionApplied, metav1.ConditionTrue, operatorv1.KlusterletReasonApplied)
		h.expect("klusterlet", operatorv1.KlusterletConditionValidFeatureGates, metav1.ConditionTrue, operatorv1.ReasonFeatureGatesAllValid)
		h.expect("klusterlet", operatorv1.KlusterletConditionAvailable, metav1.ConditionFalse, operatorv1.KlusterletReasonNoAvailablePods)
		h.expect("klusterlet", operatorv1.KlusterletConditionRegistrationDesiredDegraded, metav1.ConditionTrue, operatorv1.KlusterletReasonUnavailablePods)
		h.expect("klusterlet", operatorv1.KlusterletConditionWorkDesiredDegraded, metav1.ConditionFalse, operatorv1.KlusterletReasonDeploymentsFunctional)

		if replicas := *h.deployment(agentNamespace, "klusterlet-registration-agent").Spec.Replicas; replicas != 1 {
			t.Errorf("the registration agent has %d replicas on a cluster without control plane nodes, want 1", replicas)
		}
		if replicas := *h.deployment(agentNamespace, "klusterlet-work-agent").Spec.Replicas; replicas != 0 {
			t.Errorf("the work agent has %d replicas before the cluster has joined, want 0", replicas)
		}
		for _, name := range []string{"appliedmanifestworks.work.open-cluster-management.io", "clusterclaims.cluster.open-cluster-management.io"} {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if !h.exists(crd, "", name) || crd.Annotations[operatorv1.AnnotationCRDVersion] != "1.2.3" {
				t.Errorf("definition %q is not there, or not of this version: %v", name, crd.Annotations)
			}
		}
		namespace := &corev1.Namespace{}
		if !h.exists(namespace, "", agentNamespace) || namespace.Labels[operatorv1.LabelKlusterlet] != "klusterlet" ||
			namespace.Annotations[operatorv1.AnnotationWorkloadAllowed] != "management" {
			t.Errorf("the namespace of the agents lacks its marks: %v %v", namespace.Labels, namespace.Annotations)
		}
		for _, name := range []string{"execution", "aggregate", "execution-admin", "agent"} {
			if !h.exists(&rbacv1.ClusterRoleBinding{}, "", "open-cluster-management:klusterlet-work:"+name) {
				t.Errorf("the binding %q of the work agent is missing", name)
			}
		}

		before := h.get("klusterlet").ResourceVersion
		deployment := h.deployment(agentNamespace, "klusterlet-registration-agent").ResourceVersion
		h.reconcile("klusterlet")
		if h.get("klusterlet").ResourceVersion != before || h.deployment(agentNamespace, "klusterlet-registration-agent").ResourceVersion != deployment {
			t.Error("a pass that has nothing to do writes nevertheless")
		}
	})
}

// TestOperatorTellsToolsWhatItInstalled looks at the status.
func TestOperatorTellsToolsWhatItInstalled(t *testing.T) {
	t.Parallel()
	underBothRoles(t, func(t *testing.T, h *harness) {
		h.klusterlet("klusterlet")
		h.reconcile("klusterlet")
		status := h.get("klusterlet").Status
		for _, name := range []string{"klusterlet-registration-agent", "klusterlet-work-agent"} {
			if !slices.ContainsFunc(status.RelatedResources, func(r operatorv1.RelatedResourceMeta) bool { return r.Resource == "deployments" && r.Name == name }) {
				t.Errorf("relatedResources lack Deployment %q, by which tools find it", name)
			}
			if !slices.ContainsFunc(status.Generations, func(r operatorv1.GenerationStatus) bool { return r.Name == name && r.LastGeneration == 1 }) {
				t.Errorf("generations lack Deployment %q: %+v", name, status.Generations)
			}
		}
		if status.ObservedGeneration != h.get("klusterlet").Generation {
			t.Error("observedGeneration is not that of the spec")
		}
	})
}

func TestOperatorReplacesTheAgentsWhenTheModeChanges(t *testing.T) {
	t.Parallel()
	underBothRoles(t, func(t *testing.T, h *harness) {
		h.klusterlet("klusterlet", singletonMode)
		h.reconcile("klusterlet")
		h.deployment(agentNamespace, "klusterlet-agent")
		h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeDefault })
		h.reconcile("klusterlet")
		h.deployment(agentNamespace, "klusterlet-registration-agent")
		if h.exists(&appsv1.Deployment{}, agentNamespace, "klusterlet-agent") {
			t.Error("the agent of the mode before still runs")
		}
	})
}

func TestOperatorRollsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.klusterlet("klusterlet")
	h.reconcile("klusterlet")
	work := h.deployment(agentNamespace, "klusterlet-work-agent").Generation
	h.update("klusterlet", func(k *operatorv1.Klusterlet) {
		k.Spec.RegistrationConfiguration = &operatorv1.RegistrationConfiguration{
			ClusterLabels: map[string]string{"b": "2", "a": "1"},
			FeatureGates:  []operatorv1.FeatureGate{{Feature: "NetworkPolicies", Mode: operatorv1.FeatureGateModeEnable}},
		}
	})
	h.reconcile("klusterlet")
	args := h.deployment(agentNamespace, "klusterlet-registration-agent").Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--cluster-labels=a=1,b=2") {
		t.Errorf("the labels do not reach the agent: %q", args)
	}
	if got := h.deployment(agentNamespace, "klusterlet-work-agent").Generation; got != work {
		t.Error("the work agent rolls though nothing of it changed")
	}
	if !h.exists(&networkingv1.NetworkPolicy{}, agentNamespace, "default-deny-all") {
		t.Error("the gate NetworkPolicies installs no policy")
	}
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.RegistrationConfiguration.FeatureGates = nil })
	h.reconcile("klusterlet")
	if h.exists(&networkingv1.NetworkPolicy{}, agentNamespace, "default-deny-all") {
		t.Error("the policies stay though the gate is off")
	}
}

func TestOperatorTellsWhichFeatureGatesDoNotExist(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.klusterlet("klusterlet", func(k *operatorv1.Klusterlet) {
		k.Spec.RegistrationConfiguration = &operatorv1.RegistrationConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "NoSuchGate", Mode: operatorv1.FeatureGateModeEnable}, {Feature: "ClusterClaim", Mode: operatorv1.FeatureGateModeDisable},
		}}
	})
	h.reconcile("klusterlet")
	got := h.expect("klusterlet", operatorv1.KlusterletConditionValidFeatureGates, metav1.ConditionFalse, operatorv1.ReasonInvalidFeatureGatesExisting)
	if !strings.Contains(got.Message, "NoSuchGate") {
		t.Errorf("the message %q does not name the gate", got.Message)
	}
	args := h.deployment(agentNamespace, "klusterlet-registration-agent").Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--feature-gates=ClusterClaim=false") || strings.Contains(strings.Join(args, " "), "NoSuchGate") {
		t.Errorf("the gates that exist go to the agent, and no others: %q", args)
	}
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.RegistrationConfiguration = nil })
	h.reconcile("klusterlet")
	h.expect("klusterlet", operatorv1.KlusterletConditionValidFeatureGates, metav1.ConditionTrue, operatorv1.ReasonFeatureGatesAllValid)
}

func TestOperatorRefusesWhatItCannotInstall(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.klusterlet("klusterlet", func(k *operatorv1.Klusterlet) {
		k.Spec.RegistrationConfiguration = &operatorv1.RegistrationConfiguration{
			RegistrationDriver: operatorv1.RegistrationDriver{AuthType: operatorv1.AuthTypeGRPC},
		}
	})
	h.refuse("klusterlet")
	h.expect("klusterlet", operatorv1.KlusterletConditionApplied, metav1.ConditionFalse, operatorv1.KlusterletReasonApplyFailed)
	got := h.expect("klusterlet", operatorv1.KlusterletJoined, metav1.ConditionFalse, operatorv1.JoinReasonUnsupportedMode)
	if !strings.Contains(got.Message, "grpc") {
		t.Errorf("the message %q does not name the driver", got.Message)
	}
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.RegistrationConfiguration = nil })
	h.reconcile("klusterlet")
	h.expect("klusterlet", operatorv1.KlusterletConditionApplied, metav1.ConditionTrue, operatorv1.KlusterletReasonApplied)
}

func TestNamesThatCannotBeNamespacesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		name   string
		wrong  bool
	}{
		"Empty":   {"the agent chooses one", "", false},
		"Good":    {"it can be a namespace", "cluster-1", false},
		"Capital": {"namespaces have small letters", "Cluster1", true},
		"Dot":     {"namespaces have no dots", "cluster.one", true},
		"Long":    {"namespaces have 63 characters at most", strings.Repeat("a", 64), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nameProblem(test.name); (got != "") != test.wrong {
				t.Errorf("%s: got problem %q", test.reason, got)
			}
		})
	}
}

func TestOperatorLeavesAPausedKlusterletAlone(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.klusterlet("klusterlet", func(k *operatorv1.Klusterlet) { k.Annotations = map[string]string{operatorv1.AnnotationPaused: "true"} })
	h.reconcile("klusterlet")
	h.expect("klusterlet", operatorv1.KlusterletConditionPaused, metav1.ConditionTrue, operatorv1.KlusterletReasonPausedByAnnotation)
	if h.exists(&appsv1.Deployment{}, agentNamespace, "klusterlet-registration-agent") {
		t.Error("a paused Klusterlet is installed")
	}
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Annotations = nil })
	h.reconcile("klusterlet")
	for _, condition := range h.get("klusterlet").Status.Conditions {
		if condition.Type == operatorv1.KlusterletConditionPaused {
			t.Error("the condition Paused stays")
		}
	}
}

func TestOperatorNeverDowngradesDefinitions(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	const name = "clusterclaims.cluster.open-cluster-management.io"
	h.klusterlet("klusterlet")
	h.reconcile("klusterlet")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	h.exists(crd, "", name)
	crd.Annotations[operatorv1.AnnotationCRDVersion] = "99.0.0"
	crd.Spec.Names.ShortNames = []string{"newer"}
	expect.NoError(t, h.admin.Update(t.Context(), crd))
	h.reconcile("klusterlet")
	h.exists(crd, "", name)
	if diff := cmp.Diff([]string{"newer"}, crd.Spec.Names.ShortNames); diff != "" {
		t.Errorf("a definition of a newer version was changed (-want +got):\n%s", diff)
	}
	crd.Annotations[operatorv1.AnnotationCRDVersion] = "0.0.1"
	expect.NoError(t, h.admin.Update(t.Context(), crd))
	h.reconcile("klusterlet")
	h.exists(crd, "", name)
	if crd.Annotations[operatorv1.AnnotationCRDVersion] != "1.2.3" {
		t.Errorf("a definition of an older version was not upgraded: %v", crd.Annotations)
	}
}

func TestOperatorRepairsDefinitionsThatOthersChange(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	const name = "clusterclaims.cluster.open-cluster-management.io"
	h.klusterlet("klusterlet")
	h.reconcile("klusterlet")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	h.exists(crd, "", name)
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	want := schema.Description
	schema.Description = "drifted"
	expect.NoError(t, h.admin.Update(t.Context(), crd))
	h.reconcile("klusterlet")
	h.exists(crd, "", name)
	if diff := cmp.Diff(want, crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description); diff != "" {
		t.Errorf("a definition that someone changed was not repaired (-want +got):\n%s", diff)
	}
	version := crd.ResourceVersion
	h.reconcile("klusterlet")
	if h.exists(crd, "", name); crd.ResourceVersion != version {
		t.Error("a definition that is as wanted was written again")
	}
}

func TestOperatorTakesAChangeDuringAWalkForNoError(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.klusterlet("klusterlet")
	for _, step := range []string{"its finalizer is put on", "its status is written"} {
		stale := h.get("klusterlet")
		h.update("klusterlet", func(k *operatorv1.Klusterlet) {
			metav1.SetMetaDataAnnotation(&k.ObjectMeta, "example.com/changed", step)
		})
		if result, err := h.c.Reconcile(t.Context(), stale); err != nil || result.RequeueAfter == 0 {
			t.Errorf("the Klusterlet was changed before %s: got %+v, error %v", step, result, err)
		}
		if step == "its finalizer is put on" {
			h.update("klusterlet", func(k *operatorv1.Klusterlet) { controllerutil.AddFinalizer(k, operatorv1.FinalizerKlusterletCleanup) })
		}
	}
}

// olmCondition is what OLM would be told.
type olmCondition struct{ status metav1.ConditionStatus }

func (o *olmCondition) Set(_ context.Context, status metav1.ConditionStatus, _ ...olm.Option) error {
	o.status = status
	return nil
}

func TestOperatorHoldsOLMBackUntilTheLastRemovalEnds(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	signal := &olmCondition{}
	deps := h.c.ControllerDeps
	deps.Upgrade = signal
	h.c = NewKlusterletController(deps)
	for _, name := range []string{"going", "staying"} {
		h.klusterlet(name)
		h.reconcile(name)
	}
	if signal.status != metav1.ConditionTrue {
		t.Errorf("Upgradeable is %q while nothing is removed", signal.status)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: agentNamespace, Name: "agent", Labels: map[string]string{operatorv1.LabelCreatedByKlusterlet: "going"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "capstan:test"}}},
	}
	h.create(pod)
	h.delete("going")
	h.reconcile("going")
	h.reconcile("staying")
	if signal.status != metav1.ConditionFalse {
		t.Errorf("Upgradeable is %q while the agents of a Klusterlet are removed, after another one was looked at", signal.status)
	}
	expect.NoError(t, h.admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	h.reconcileDeleted("going")
	if signal.status != metav1.ConditionTrue {
		t.Errorf("Upgradeable is %q after the last removal", signal.status)
	}
}

func TestOperatorCopiesThePullSecret(t *testing.T) {
	t.Parallel()
	underBothRoles(t, func(t *testing.T, h *harness) {
		h.secret(operatorNamespace, operatorv1.ImagePullSecret, map[string][]byte{"a": []byte("1")})
		h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "addon-one", Labels: map[string]string{operatorv1.LabelAddOnNamespace: "true"}}})
		h.klusterlet("klusterlet")
		h.reconcile("klusterlet")
		for _, namespace := range []string{agentNamespace, operatorv1.DefaultAddOnNamespace, "addon-one"} {
			if !h.exists(&corev1.Secret{}, namespace, operatorv1.ImagePullSecret) {
				t.Errorf("namespace %q has no copy of the pull secret", namespace)
			}
		}
		if got := h.deployment(agentNamespace, "klusterlet-registration-agent").Spec.Template.Spec.ImagePullSecrets; len(got) != 1 {
			t.Errorf("the agent pulls with %v, want the copy of the pull secret", got)
		}
		h.secret(operatorNamespace, operatorv1.ImagePullSecret, map[string][]byte{"a": []byte("2")})
		h.reconcile("klusterlet")
		secret := &corev1.Secret{}
		h.exists(secret, "addon-one", operatorv1.ImagePullSecret)
		if string(secret.Data["a"]) != "2" {
			t.Error("a copy of the pull secret does not follow its source")
		}
	})
}

func TestOperatorDoesNotReadSecretsThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.secret(operatorNamespace, "somebody-elses", map[string][]byte{"a": []byte("1")})
	err := h.c.Client.Get(t.Context(), types.NamespacedName{Namespace: operatorNamespace, Name: "somebody-elses"}, &corev1.Secret{})
	if err == nil {
		t.Error("the operator can read a secret of somebody else")
	}
	if err := h.c.Client.List(t.Context(), &corev1.SecretList{}); err == nil {
		t.Error("the operator can list all secrets")
	}
	escalation := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "all-mine"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
	}
	if err := h.c.Client.Create(t.Context(), escalation); err == nil {
		t.Error("the operator can write a role that has more than it has itself")
	}
}

func unknownHub(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
	cluster.Server = "https://127.0.0.1:1"
}

func (h *harness) expectNone(t testing.TB, name string) {
	t.Helper()
	marks := manifests.KlusterletLabels(&operatorv1.Klusterlet{ObjectMeta: metav1.ObjectMeta{Name: name}})
	for _, object := range h.marked(marks) {
		t.Errorf("%s is left", object)
	}
}

func TestOperatorPutsItsLabelsOnWhatIsItsOwn(t *testing.T) {
	t.Parallel()
	h := takeOperator(t)
	h.c.Settings.SyncLabels = true
	t.Cleanup(func() { h.c.Settings.SyncLabels = false })
	h.klusterlet("labelled", func(k *operatorv1.Klusterlet) {
		k.Labels = map[string]string{"team": "edge", operatorv1.LabelCreatedByKlusterlet: "somebody"}
	})
	h.reconcile("labelled")
	deployment := h.deployment(operatorv1.DefaultAgentNamespace, "labelled-registration-agent")
	want := map[string]string{"team": "edge", operatorv1.LabelCreatedByKlusterlet: "labelled"}
	for key, value := range want {
		if got := deployment.Labels[key]; got != value {
			t.Errorf("the Deployment has the label %s=%q, want %q", key, got, value)
		}
	}
	shared := &rbacv1.ClusterRole{}
	if !h.exists(shared, "", manifests.ExecutionRole) || shared.Labels["team"] != "" {
		t.Errorf("what all Klusterlets share has the labels of one: %v", shared.Labels)
	}
}
