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
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/certs"
)

// TestHub walks hubs through their life. The subtests share an API server; each
// starts without a hub.
func TestHub(t *testing.T) {
	l := newLab(t)
	for name, test := range map[string]func(*testing.T, *lab){
		"InstallsEverythingAndThenWritesNothing":   installs,
		"WaitsForPodsBeforeWebhooks":               waitsForPods,
		"ChangeOfTheSpecRollsOnlyWhatChanged":      rollsOnlyWhatChanged,
		"RepairsWhatOthersChange":                  repairsDrift,
		"UnknownGateIsToldAndOthersWork":           unknownGate,
		"GateTurnedOffRemovesItsObjects":           gateTurnedOff,
		"UnsupportedSpecIsToldAndMended":           unsupported,
		"NewerDefinitionIsLeftAlone":               newerDefinition,
		"PausedHubIsLeftAlone":                     pausedHub,
		"PullSecretIsCopiedAndFollowed":            pullSecret,
		"SecondClusterManagerWaits":                second,
		"TLSProfileReachesComponents":              tlsProfile,
		"LostCertificateIsMadeAgain":               lostCertificate,
		"BootstrapIdentityReadsNamedConfigMaps":    bootstrap,
		"FailureKeepsWhatIsKnownAndIsToldByReason": failure,
	} {
		t.Run(name, func(t *testing.T) { test(t, l) })
	}
}

func installs(t *testing.T, l *lab) {
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
		operatorv1.ClusterManagerConditionHubPlacementDegraded:    {Status: "False", Reason: "PlacementNotInstalled"},
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
		if recordedGeneration(cm, deploymentRecord(name)) == 0 {
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
	if err != nil {
		t.Fatal(err)
	}
	if l.writes != 0 {
		t.Errorf("a pass over a settled hub made %d writes", l.writes)
	}
	if result.RequeueAfter != resync {
		t.Errorf("next pass after %s, want %s", result.RequeueAfter, resync)
	}
}

func waitsForPods(t *testing.T, l *lab) {
	l.hub(t, nil)
	for range 3 {
		if _, err := l.pass(t); err != nil {
			t.Fatal(err)
		}
		<-time.After(gonePause)
	}
	if l.exists(t, &admissionv1.ValidatingWebhookConfiguration{}, "manifestworkvalidators.admission.work.open-cluster-management.io", "") {
		t.Error("webhooks were installed although nobody answers")
	}
	applied := l.condition(t, operatorv1.ClusterManagerConditionApplied)
	if applied.Status != metav1.ConditionFalse || !strings.Contains(applied.Message, "cluster-manager-work-webhook has 0 of 1 pods available") {
		t.Errorf("Applied is %+v", applied)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionHubRegistrationDegraded); got.Reason != "UnavailableRegistrationPod" {
		t.Errorf("HubRegistrationDegraded is %+v", got)
	}
}

func rollsOnlyWhatChanged(t *testing.T, l *lab) {
	l.hub(t, nil)
	l.settle(t)
	before := l.deployments(t)
	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{AutoApproveUsers: []string{"alice"}}
	})
	if _, err := l.pass(t); err != nil {
		t.Fatal(err)
	}
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

func repairsDrift(t *testing.T, l *lab) {
	l.hub(t, nil)
	l.settle(t)
	role := &rbacv1.ClusterRole{}
	l.exists(t, role, "open-cluster-management:cluster-manager-work:webhook", "")
	want := len(role.Rules)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	if err := l.client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	l.exists(t, hooks, "manifestworkvalidators.admission.work.open-cluster-management.io", "")
	hooks.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"exempt": "all"}}
	if err := l.client.Update(t.Context(), hooks); err != nil {
		t.Fatal(err)
	}
	deployment := l.deployments(t)["cluster-manager-work-webhook"]
	deployment.Spec.Template.Spec.Containers[0].Image = "evil"
	if err := l.client.Update(t.Context(), &deployment); err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	l.exists(t, crd, "manifestworks.work.open-cluster-management.io", "")
	crd.Spec.Names.ShortNames = []string{"evil"}
	if err := l.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}

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

func unknownGate(t *testing.T, l *lab) {
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

func gateTurnedOff(t *testing.T, l *lab) {
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "NetworkPolicies", Mode: operatorv1.FeatureGateModeEnable},
		}}
	})
	l.settle(t)
	for _, name := range []string{"default-deny-all", "allow-egress", "allow-intra-namespace", "allow-hub-ingress", "allow-prometheus-ingress"} {
		if !l.exists(t, &networkingv1.NetworkPolicy{}, name, testHubNS) {
			t.Errorf("NetworkPolicy %s is missing", name)
		}
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.RegistrationConfiguration = nil })
	l.settle(t)
	if l.exists(t, &networkingv1.NetworkPolicy{}, "default-deny-all", testHubNS) {
		t.Error("the NetworkPolicy is still there")
	}
	if slices.ContainsFunc(l.get(t).Status.RelatedResources, func(r operatorv1.RelatedResourceMeta) bool { return r.Resource == "networkpolicies" }) {
		t.Error("relatedResources still have it")
	}
}

func unsupported(t *testing.T, l *lab) {
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.DeployOption.Mode = operatorv1.InstallModeHosted
		cm.Spec.DeployOption.Hosted = nil
	})
	_, err := l.pass(t)
	if !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("the pass ended with %v, want a terminal error", err)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionApplied); got.Reason != "ModeNotSupported" || got.Status != metav1.ConditionFalse {
		t.Errorf("Applied is %+v", got)
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.DeployOption.Mode = operatorv1.InstallModeDefault })
	l.settle(t)
}

func newerDefinition(t *testing.T, l *lab) {
	const name = "managedclustersets.cluster.open-cluster-management.io"
	l.hub(t, nil)
	l.settle(t)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	l.exists(t, crd, name, "")
	crd.Annotations[operatorv1.AnnotationCRDVersion] = "99.0.0"
	crd.Spec.Names.ShortNames = append(crd.Spec.Names.ShortNames, "fromthefuture")
	if err := l.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	l.settle(t)
	l.exists(t, crd, name, "")
	if !slices.Contains(crd.Spec.Names.ShortNames, "fromthefuture") {
		t.Error("the definition of a newer operator was changed")
	}
	if got := crd.Annotations[operatorv1.AnnotationCRDVersion]; got != "99.0.0" {
		t.Errorf("its version became %q", got)
	}
}

func pausedHub(t *testing.T, l *lab) {
	l.hub(t, nil)
	l.settle(t)
	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{operatorv1.AnnotationPaused: "true"}
		cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{AutoApproveUsers: []string{"alice"}}
	})
	before := l.deployments(t)
	if _, err := l.pass(t); err != nil {
		t.Fatal(err)
	}
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

func pullSecret(t *testing.T, l *lab) {
	source := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorv1.DefaultOperatorNamespace, Name: operatorv1.ImagePullSecret},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")},
	}
	l.create(t, source)
	l.hub(t, nil)
	l.settle(t)
	if !l.exists(t, &corev1.Secret{}, operatorv1.ImagePullSecret, testHubNS) {
		t.Error("the pull secret was not copied")
	}
	if got := l.deployments(t)["cluster-manager-work-webhook"].Spec.Template.Spec.ImagePullSecrets; len(got) != 1 {
		t.Errorf("pods pull with %v", got)
	}
	if err := l.client.Delete(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	l.settle(t)
	if l.exists(t, &corev1.Secret{}, operatorv1.ImagePullSecret, testHubNS) {
		t.Error("the copy outlives the pull secret")
	}
	if got := l.deployments(t)["cluster-manager-work-webhook"].Spec.Template.Spec.ImagePullSecrets; len(got) != 0 {
		t.Errorf("pods still pull with %v", got)
	}
}

func second(t *testing.T, l *lab) {
	l.hub(t, nil)
	l.settle(t)
	other := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "zweiter"}}
	l.create(t, other)
	if _, err := l.controller.Reconcile(t.Context(), other.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Fatal(err)
	}
	applied := other.Status.Conditions[slices.IndexFunc(other.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Applied" })]
	if applied.Reason != "AnotherClusterManager" || !strings.Contains(applied.Message, testName) {
		t.Errorf("Applied is %+v", applied)
	}
	other.Finalizers = nil
	if err := l.client.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
}

func tlsProfile(t *testing.T, l *lab) {
	profile := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: operatorv1.DefaultOperatorNamespace, Name: TLSProfile},
		Data:       map[string]string{"minTLSVersion": "VersionTLS13"},
	}
	l.create(t, profile)
	t.Cleanup(func() { _ = l.client.Delete(t.Context(), profile) })
	l.hub(t, nil)
	l.settle(t)
	for name, d := range l.deployments(t) {
		if !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--tls-min-version=VersionTLS13") {
			t.Errorf("%s has args %q", name, d.Spec.Template.Spec.Containers[0].Args)
		}
	}
	profile.Data["minTLSVersion"] = "SSLv3"
	if err := l.client.Update(t.Context(), profile); err != nil {
		t.Fatal(err)
	}
	if _, err := l.pass(t); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("the pass ended with %v", err)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionApplied); !strings.Contains(got.Message, "SSLv3") {
		t.Errorf("Applied is %+v", got)
	}
	if err := l.client.Delete(t.Context(), profile); err != nil {
		t.Fatal(err)
	}
	l.settle(t)
}

func lostCertificate(t *testing.T, l *lab) {
	l.hub(t, nil)
	l.settle(t)
	secret := &corev1.Secret{}
	l.exists(t, secret, operatorv1.WorkWebhookServingCertSecret, testHubNS)
	if err := l.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	l.clock.SetTime(l.clock.Now().Add(2 * certs.TrustDelay))
	l.settle(t)
	if !l.exists(t, secret, operatorv1.WorkWebhookServingCertSecret, testHubNS) {
		t.Fatal("the certificate was not made again")
	}
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	l.exists(t, hooks, "manifestworkvalidators.admission.work.open-cluster-management.io", "")
	pair, err := certs.ParsePair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		t.Fatal(err)
	}
	trusted := certs.ParseBundle(hooks.Webhooks[0].ClientConfig.CABundle)
	if len(trusted) != 1 || pair.Certificate.CheckSignatureFrom(trusted[0]) != nil {
		t.Error("API servers do not trust the new certificate")
	}
	if got := pair.Certificate.DNSNames; !slices.Equal(got, []string{"cluster-manager-work-webhook.open-cluster-management-hub.svc"}) {
		t.Errorf("it is for %q", got)
	}
}

func bootstrap(t *testing.T, l *lab) {
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "StrictBootstrap", Mode: operatorv1.FeatureGateModeEnable},
		}}
	})
	l.settle(t)
	role := &rbacv1.ClusterRole{}
	l.exists(t, role, operatorv1.BootstrapClusterRole, "")
	for _, rule := range role.Rules {
		if slices.Contains(rule.Verbs, "list") || slices.Contains(rule.Resources, "configmaps") {
			t.Errorf("strict bootstrap identities may %v", rule)
		}
	}
	for namespace, config := range map[string]string{"kube-public": "cluster-info", testHubNS: "ca-bundle-configmap"} {
		named := &rbacv1.Role{}
		if !l.exists(t, named, operatorv1.BootstrapClusterRole, namespace) || !slices.Equal(named.Rules[0].ResourceNames, []string{config}) {
			t.Errorf("the role in %s is %+v", namespace, named.Rules)
		}
	}
	if !l.exists(t, &corev1.ServiceAccount{}, "agent-registration-bootstrap", operatorv1.DefaultOperatorNamespace) {
		t.Error("the bootstrap ServiceAccount is missing")
	}
}

func failure(t *testing.T, l *lab) {
	l.hub(t, nil)
	l.settle(t)
	related := len(l.get(t).Status.RelatedResources)
	broken := l.deps
	broken.Rules = func(string) (cluster, namespaced []rbacv1.PolicyRule, err error) { return nil, nil, errors.New("boom") }
	if _, err := New(broken).Reconcile(t.Context(), l.get(t)); err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("the pass ended with %v, want an error that is retried", err)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionApplied); got.Reason != "HubResourceApplyFailed" || !strings.Contains(got.Message, "boom") {
		t.Errorf("Applied is %+v", got)
	}
	if got := len(l.get(t).Status.RelatedResources); got != related {
		t.Errorf("%d relatedResources after the failure, %d before", got, related)
	}
	l.settle(t)
}
