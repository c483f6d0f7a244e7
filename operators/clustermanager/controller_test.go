// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestHubInstallsEverythingAndThenWritesNothing(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	cm := l.get(t)
	if cm.Status.ObservedGeneration != cm.Generation {
		t.Errorf("observedGeneration %d, want %d", cm.Status.ObservedGeneration, cm.Generation)
	}
	for conditionType, want := range map[string]metav1.Condition{
		operatorv1.ClusterManagerConditionApplied:                 {Status: "True", Reason: "ClusterManagerApplied"},
		operatorv1.ClusterManagerConditionProgressing:             {Status: "False", Reason: "ClusterManagerUpToDate"},
		operatorv1.ClusterManagerConditionHubRegistrationDegraded: {Status: "False", Reason: "RegistrationFunctional"},
		operatorv1.ClusterManagerConditionHubPlacementDegraded:    {Status: "False", Reason: "PlacementFunctional"},
		operatorv1.ClusterManagerConditionValidFeatureGates:       {Status: "True", Reason: "FeatureGatesAllValid"},
	} {
		if got := l.condition(t, conditionType); got.Status != want.Status || got.Reason != want.Reason {
			t.Errorf("%s is %s/%s, want %s/%s", conditionType, got.Status, got.Reason, want.Status, want.Reason)
		}
	}
	for _, name := range []string{"cluster-manager-registration-controller", "cluster-manager-registration-webhook", "cluster-manager-work-webhook"} {
		if !slices.ContainsFunc(cm.Status.RelatedResources, func(r operatorv1.RelatedResourceMeta) bool {
			return r.Resource == "deployments" && r.Name == name && r.Namespace == testHubNS
		}) {
			t.Errorf("relatedResources lack the Deployment %s", name)
		}
		if statusInventory(cm).LastGenerationOf(deploymentRecord(name)) == 0 {
			t.Errorf("generations lack the Deployment %s", name)
		}
	}
	if !slices.ContainsFunc(cm.Status.RelatedResources, func(r operatorv1.RelatedResourceMeta) bool {
		return r.Resource == "customresourcedefinitions" && r.Name == "managedclusters.cluster.open-cluster-management.io"
	}) {
		t.Error("relatedResources lack the definitions")
	}

	l.writes = 0
	result, err := l.pass(t)
	expect.NoError(t, err)
	if l.writes != 0 {
		t.Errorf("a pass over a settled hub made %d writes", l.writes)
	}
	if result.RequeueAfter != resync {
		t.Errorf("next pass after %s, want %s", result.RequeueAfter, resync)
	}
}

func TestHubWaitsForPodsBeforeWebhooks(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	for range 3 {
		l.onePass(t)
		<-time.After(gonePause)
	}
	if l.exists(t, &admissionv1.ValidatingWebhookConfiguration{}, "manifestworkvalidators.admission.work.open-cluster-management.io", "") {
		t.Error("webhooks were installed although nobody answers")
	}
	if l.exists(t, &rbacv1.ClusterRoleBinding{}, "open-cluster-management:bootstrap:agent-registration", "") {
		t.Error("agents can register before webhooks check what they register")
	}
	applied := l.condition(t, operatorv1.ClusterManagerConditionApplied)
	if applied.Status != metav1.ConditionFalse || !strings.Contains(applied.Message, "cluster-manager-work-webhook has 0 of 1 pods available") {
		t.Errorf("Applied is %+v", applied)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionHubRegistrationDegraded); got.Reason != "UnavailableRegistrationPod" {
		t.Errorf("HubRegistrationDegraded is %+v", got)
	}
}

func TestChangeOfTheSpecRollsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	before := l.deployments(t)
	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{AutoApproveUsers: []string{"alice"}}
	})
	l.onePass(t)
	for name, d := range l.deployments(t) {
		changed := d.Generation != before[name].Generation
		if want := name == "cluster-manager-registration-controller"; changed != want {
			t.Errorf("%s: changed %t, want %t", name, changed, want)
		}
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionProgressing); got.Reason != "ClusterManagerDeploymentRolling" {
		t.Errorf("Progressing is %+v", got)
	}
	l.settle(t)
	args := l.deployments(t)["cluster-manager-registration-controller"].Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--cluster-auto-approval-users=alice") {
		t.Errorf("args are %q", args)
	}
}

func TestHubRepairsWhatOthersChange(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	role := &rbacv1.ClusterRole{}
	l.exists(t, role, "open-cluster-management:cluster-manager-work:webhook", "")
	want := len(role.Rules)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	expect.NoError(t, l.client.Update(t.Context(), role))
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	l.exists(t, hooks, "manifestworkvalidators.admission.work.open-cluster-management.io", "")
	hooks.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"exempt": "all"}}
	expect.NoError(t, l.client.Update(t.Context(), hooks))
	deployment := l.deployments(t)["cluster-manager-work-webhook"]
	deployment.Spec.Template.Spec.Containers[0].Image = "evil"
	expect.NoError(t, l.client.Update(t.Context(), &deployment))
	crd := &apiextensionsv1.CustomResourceDefinition{}
	l.exists(t, crd, "managedclusters.cluster.open-cluster-management.io", "")
	crd.Spec.Names.ShortNames = []string{"evil"}
	expect.NoError(t, l.client.Update(t.Context(), crd))

	l.settle(t)
	l.exists(t, role, role.Name, "")
	if len(role.Rules) != want {
		t.Errorf("the role keeps a foreign rule: %+v", role.Rules)
	}
	l.exists(t, hooks, hooks.Name, "")
	if len(hooks.Webhooks[0].NamespaceSelector.MatchLabels) != 0 {
		t.Errorf("the webhook keeps a foreign selector: %+v", hooks.Webhooks[0].NamespaceSelector)
	}
	if got := l.deployments(t)["cluster-manager-work-webhook"].Spec.Template.Spec.Containers[0].Image; got != testImage {
		t.Errorf("the Deployment has the image %q", got)
	}
	l.exists(t, crd, crd.Name, "")
	if slices.Contains(crd.Spec.Names.ShortNames, "evil") {
		t.Error("the definition keeps a foreign short name")
	}
}

func TestUnknownGateIsToldAndOthersWork(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.WorkConfiguration = &operatorv1.WorkConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "Nonsense", Mode: operatorv1.FeatureGateModeEnable},
			{Feature: "NilExecutorValidating", Mode: operatorv1.FeatureGateModeEnable},
		}}
	})
	l.settle(t)
	got := l.condition(t, operatorv1.ClusterManagerConditionValidFeatureGates)
	if got.Reason != "InvalidFeatureGatesExisting" || !strings.Contains(got.Message, `workConfiguration: "Nonsense"`) {
		t.Errorf("ValidFeatureGates is %+v", got)
	}
	args := l.deployments(t)["cluster-manager-work-webhook"].Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--feature-gates=NilExecutorValidating=true") {
		t.Errorf("args are %q", args)
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.WorkConfiguration = nil })
	l.settle(t)
	if got := l.condition(t, operatorv1.ClusterManagerConditionValidFeatureGates); got.Reason != "FeatureGatesAllValid" {
		t.Errorf("after mending ValidFeatureGates is %+v", got)
	}
}

func TestGateTurnedOffRemovesItsObjects(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "NetworkPolicies", Mode: operatorv1.FeatureGateModeEnable},
		}}
		cm.Spec.WorkConfiguration = &operatorv1.WorkConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "CleanUpCompletedManifestWork", Mode: operatorv1.FeatureGateModeEnable},
		}}
	})
	l.settle(t)
	workController := []struct {
		object          client.Object
		name, namespace string
	}{
		{&appsv1.Deployment{}, "cluster-manager-work-controller", testHubNS},
		{&corev1.ServiceAccount{}, "work-controller-sa", testHubNS},
		{&rbacv1.ClusterRole{}, "open-cluster-management:cluster-manager-work:controller", ""},
		{&rbacv1.Role{}, "open-cluster-management:cluster-manager-work:controller", testHubNS},
	}
	for _, of := range workController {
		if !l.exists(t, of.object, of.name, of.namespace) {
			t.Errorf("%T %s is missing", of.object, of.name)
		}
	}
	for _, name := range []string{"default-deny-all", "allow-egress", "allow-intra-namespace", "allow-hub-ingress", "allow-prometheus-ingress"} {
		if !l.exists(t, &networkingv1.NetworkPolicy{}, name, testHubNS) {
			t.Errorf("NetworkPolicy %s is missing", name)
		}
	}
	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.RegistrationConfiguration, cm.Spec.WorkConfiguration = nil, nil
	})
	l.settle(t)
	for _, of := range workController {
		if l.exists(t, of.object, of.name, of.namespace) {
			t.Errorf("%T %s is still there", of.object, of.name)
		}
	}
	if l.exists(t, &networkingv1.NetworkPolicy{}, "default-deny-all", testHubNS) {
		t.Error("the NetworkPolicy is still there")
	}
	if slices.ContainsFunc(l.get(t).Status.RelatedResources, func(r operatorv1.RelatedResourceMeta) bool { return r.Resource == "networkpolicies" }) {
		t.Error("relatedResources still have it")
	}
}

func TestUnsupportedSpecIsToldAndMended(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.WorkConfiguration = &operatorv1.WorkConfiguration{WorkDriver: operatorv1.WorkDriverTypeMQTT}
	})
	_, err := l.pass(t)
	if !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("the pass ended with %v, want a terminal error", err)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionApplied); got.Reason != "ConfigurationNotSupported" || got.Status != metav1.ConditionFalse {
		t.Errorf("Applied is %+v", got)
	}
	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.WorkConfiguration.WorkDriver = operatorv1.WorkDriverTypeKube
	})
	l.settle(t)
}

func TestNewerDefinitionIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	const name = "managedclustersets.cluster.open-cluster-management.io"
	l.hub(t, nil)
	l.settle(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	l.exists(t, crd, name, "")
	crd.Annotations[operatorv1.AnnotationCRDVersion] = "99.0.0"
	crd.Spec.Names.ShortNames = append(crd.Spec.Names.ShortNames, "fromthefuture")
	expect.NoError(t, l.client.Update(t.Context(), crd))
	l.settle(t)
	l.exists(t, crd, name, "")
	if !slices.Contains(crd.Spec.Names.ShortNames, "fromthefuture") {
		t.Error("the definition of a newer operator was changed")
	}
	if got := crd.Annotations[operatorv1.AnnotationCRDVersion]; got != "99.0.0" {
		t.Errorf("its version became %q", got)
	}
	crd.Annotations[operatorv1.AnnotationCRDVersion] = "0.0.1"
	expect.NoError(t, l.client.Update(t.Context(), crd))
	l.settle(t)
	l.exists(t, crd, name, "")
	if slices.Contains(crd.Spec.Names.ShortNames, "fromthefuture") {
		t.Error("the definition of an older operator was left as it was")
	}
}

func TestPausedHubIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{operatorv1.AnnotationPaused: "true"}
		cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{AutoApproveUsers: []string{"alice"}}
	})
	before := l.deployments(t)
	l.onePass(t)
	if got := l.deployments(t)["cluster-manager-registration-controller"]; got.Generation != before[got.Name].Generation {
		t.Error("a paused hub was changed")
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionPaused); got.Status != metav1.ConditionTrue {
		t.Errorf("Paused is %+v", got)
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Annotations = nil })
	l.settle(t)
	if got := l.condition(t, operatorv1.ClusterManagerConditionPaused); got.Type != "" {
		t.Errorf("Paused is still there: %+v", got)
	}
	if got := l.deployments(t)["cluster-manager-registration-controller"]; got.Generation == before[got.Name].Generation {
		t.Error("the change was not made after the pause")
	}
}

// TestChangeOfTheHubDuringAWalkIsNoError is what cannot be avoided, so no line of the log says error:
// the walk begins anew with the object as it is now.
func TestChangeOfTheHubDuringAWalkIsNoError(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	for _, step := range []string{"its finalizer is put on", "its status is written"} {
		stale := l.get(t)
		l.change(t, func(cm *operatorv1.ClusterManager) {
			metav1.SetMetaDataAnnotation(&cm.ObjectMeta, "example.com/changed", step)
		})
		result, err := l.controller.Reconcile(t.Context(), stale)
		if err != nil {
			t.Errorf("the ClusterManager was changed before %s: got error %v", step, err)
		}
		if result.RequeueAfter == 0 {
			t.Errorf("the ClusterManager was changed before %s, and is not looked at again", step)
		}
		l.onePass(t)
	}
}

// TestClusteradmTellsOfTheHub does what "clusteradm get hub-info" does: it takes
// the last related resource of each name for a Deployment, which it reads by its
// name and namespace; that there is none is fine, that it has no name is not.
func TestClusteradmTellsOfTheHub(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	cm := l.get(t)
	for _, name := range []string{
		"cluster-manager-addon-manager-controller", "cluster-manager-registration-controller", "cluster-manager-registration-webhook",
		"cluster-manager-work-webhook", "cluster-manager-placement-controller",
	} {
		var last operatorv1.RelatedResourceMeta
		for _, related := range cm.Status.RelatedResources {
			if related.Name == name {
				last = related
			}
		}
		if last.Name == "" || last.Namespace == "" {
			t.Errorf("relatedResources have nothing called %q with a namespace: clusteradm would fail to read it", name)
			continue
		}
		key := client.ObjectKey{Namespace: last.Namespace, Name: last.Name}
		if err := l.client.Get(t.Context(), key, &appsv1.Deployment{}); client.IgnoreNotFound(err) != nil {
			t.Errorf("reading the Deployment %q: %v", key, err)
		}
	}
}
