// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

func TestPullSecretIsCopiedAndFollowed(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
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
	expect.NoError(t, l.client.Delete(t.Context(), source))
	l.settle(t)
	if l.exists(t, &corev1.Secret{}, operatorv1.ImagePullSecret, testHubNS) {
		t.Error("the copy outlives the pull secret")
	}
	if got := l.deployments(t)["cluster-manager-work-webhook"].Spec.Template.Spec.ImagePullSecrets; len(got) != 0 {
		t.Errorf("pods still pull with %v", got)
	}
}

func TestSecondClusterManagerWaits(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	other := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "zweiter"}}
	l.create(t, other)
	if _, err := l.controller.Reconcile(t.Context(), other.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	expect.NoError(t, l.client.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	applied := other.Status.Conditions[slices.IndexFunc(other.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Applied" })]
	if applied.Reason != "AnotherClusterManager" || !strings.Contains(applied.Message, testName) {
		t.Errorf("Applied is %+v", applied)
	}
	other.Finalizers = nil
	expect.NoError(t, l.client.Update(t.Context(), other))
	expect.NoError(t, l.client.Delete(t.Context(), other))
}

func TestTLSProfileReachesComponents(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
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
	expect.NoError(t, l.client.Update(t.Context(), profile))
	if _, err := l.pass(t); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("the pass ended with %v", err)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionApplied); !strings.Contains(got.Message, "SSLv3") {
		t.Errorf("Applied is %+v", got)
	}
	expect.NoError(t, l.client.Delete(t.Context(), profile))
	l.settle(t)
}

func TestLostCertificateIsMadeAgain(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	secret := &corev1.Secret{}
	l.exists(t, secret, operatorv1.WorkWebhookServingCertSecret, testHubNS)
	expect.NoError(t, l.client.Delete(t.Context(), secret))
	l.clock.SetTime(l.clock.Now().Add(2 * certs.TrustDelay))
	l.settle(t)
	if !l.exists(t, secret, operatorv1.WorkWebhookServingCertSecret, testHubNS) {
		t.Fatal("the certificate was not made again")
	}
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	l.exists(t, hooks, "manifestworkvalidators.admission.work.open-cluster-management.io", "")
	pair, err := certs.ParsePair(secret.Data["tls.crt"], secret.Data["tls.key"])
	expect.NoError(t, err)
	trusted := certs.ParseBundle(hooks.Webhooks[0].ClientConfig.CABundle)
	if len(trusted) != 1 || pair.Certificate.CheckSignatureFrom(trusted[0]) != nil {
		t.Error("API servers do not trust the new certificate")
	}
	if got := pair.Certificate.DNSNames; !slices.Equal(got, []string{"cluster-manager-work-webhook.open-cluster-management-hub.svc"}) {
		t.Errorf("it is for %q", got)
	}
}

func TestBootstrapIdentityReadsNamedConfigMaps(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
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
	for namespace, configs := range map[string][]string{"kube-public": {"cluster-info", "kube-root-ca.crt"}, testHubNS: {"ca-bundle-configmap"}} {
		named := &rbacv1.Role{}
		if !l.exists(t, named, operatorv1.BootstrapClusterRole, namespace) || !slices.Equal(named.Rules[0].ResourceNames, configs) {
			t.Errorf("the role in %s is %+v", namespace, named.Rules)
		}
	}
	if !l.exists(t, &corev1.ServiceAccount{}, "agent-registration-bootstrap", operatorv1.DefaultOperatorNamespace) {
		t.Error("the bootstrap ServiceAccount is missing")
	}
}

func TestFailureKeepsWhatIsKnownAndIsToldByReason(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	related := len(l.get(t).Status.RelatedResources)
	broken := l.deps
	broken.Rules = func(string) (cluster, namespaced []rbacv1.PolicyRule, err error) { return nil, nil, errors.New("boom") }
	if _, err := NewClusterManagerController(broken).Reconcile(t.Context(), l.get(t)); err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
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

// TestRoomOfWorksReachesController says what works may take up, and then what is no number of bytes: the program that
// writes works keeps the one before.
func TestRoomOfWorksReachesController(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	const program = "cluster-manager-work-controller"
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{fleetv1alpha1.AnnotationSharedWorkBytesMax: "4Gi"}
		cm.Spec.WorkConfiguration = &operatorv1.WorkConfiguration{FeatureGates: []operatorv1.FeatureGate{
			{Feature: "ManifestWorkReplicaSet", Mode: operatorv1.FeatureGateModeEnable},
		}}
	})
	l.settle(t)
	l.hasRoomForWorks(t, program, "--shared-work-bytes-max=4Gi")
	for mistake, says := range map[string]string{"much": "is not a number of bytes such as 4Gi", "0": "leaves no room for any work", "2Pi": "is more than 1Pi"} {
		l.change(t, func(cm *operatorv1.ClusterManager) {
			cm.Annotations[fleetv1alpha1.AnnotationSharedWorkBytesMax] = mistake
		})
		if _, err := l.pass(t); !errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("with %q the pass ended with %v, want a terminal error", mistake, err)
		}
		got := l.condition(t, operatorv1.ClusterManagerConditionApplied)
		if want := fmt.Sprintf("annotation fleet.capstan.io/shared-work-bytes-max: %q %s", mistake, says); got.Reason != "ConfigurationNotSupported" || !strings.Contains(got.Message, want) {
			t.Errorf("with %q Applied is %+v, want %s", mistake, got, want)
		}
		l.hasRoomForWorks(t, program, "--shared-work-bytes-max=4Gi")
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Annotations = nil })
	l.settle(t)
	l.hasRoomForWorks(t, program)
}

// hasRoomForWorks looks at what a program is told about the room of works.
func (l *lab) hasRoomForWorks(t testing.TB, program string, want ...string) {
	t.Helper()
	args := l.deployments(t)[program].Spec.Template.Spec.Containers[0].Args
	if limits := slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "--shared-work-bytes-max") }); !slices.Equal(limits, want) {
		t.Errorf("%s is told %q, want %q", program, limits, want)
	}
}

// TestLabelsOfAgentsReachController says which labels agents may change, and then what is no label.
func TestLabelsOfAgentsReachController(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{fleetv1alpha1.AnnotationAgentLabels: "env, example.com/*"}
	})
	l.settle(t)
	limits := func() []string {
		t.Helper()
		args := l.deployments(t)["cluster-manager-registration-controller"].Spec.Template.Spec.Containers[0].Args
		return slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "--agent-labels") })
	}
	if diff := cmp.Diff([]string{"--agent-labels=env,example.com/*"}, limits()); diff != "" {
		t.Errorf("what the controller is told (-want +got):\n%s", diff)
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Annotations[fleetv1alpha1.AnnotationAgentLabels] = "env=prod" })
	if _, err := l.pass(t); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("the pass ended with %v, want a terminal error", err)
	}
	got := l.condition(t, operatorv1.ClusterManagerConditionApplied)
	if got.Reason != "ConfigurationNotSupported" || !strings.Contains(got.Message, `annotation fleet.capstan.io/agent-labels: "env=prod" is neither the key of a label`) {
		t.Errorf("Applied is %+v", got)
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Annotations = nil })
	l.settle(t)
	if got := limits(); len(got) > 0 {
		t.Errorf("without the annotation the controller is told %q, want nothing", got)
	}
	for _, kind := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
		if !l.exists(t, kind, manifests.ClusterGuardName, "") {
			t.Errorf("there is no %T that guards ManagedClusters", kind)
		}
	}
	l.answersFirst(t)
	l.clean(t)
	for _, kind := range []client.Object{&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}} {
		if l.exists(t, kind, manifests.ClusterGuardName, "") {
			t.Errorf("the hub is gone, and the %T that guards ManagedClusters is left", kind)
		}
	}
	for _, name := range manifests.PriorityNames() {
		if l.exists(t, &flowcontrolv1.FlowSchema{}, name, "") || l.exists(t, &flowcontrolv1.PriorityLevelConfiguration{}, name, "") {
			t.Errorf("the hub is gone, and FlowSchema or PriorityLevelConfiguration %q is left", name)
		}
	}
}

// TestLimitsOfClustersReachPrograms sets the limits of clusters that wait for acceptance, and that are accepted
// automatically, and then one that is no number: what runs keeps those before.
func TestLimitsOfClustersReachPrograms(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{operatorv1.AnnotationMaxUnacceptedClusters: "50", operatorv1.AnnotationMaxAutomaticClusters: "20"}
	})
	l.settle(t)
	argsOf := func(program, flag string) []string {
		t.Helper()
		args := l.deployments(t)["cluster-manager-registration-"+program].Spec.Template.Spec.Containers[0].Args
		return slices.DeleteFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, flag) })
	}
	limits := func() []string {
		t.Helper()
		return append(argsOf("webhook", "--max-unaccepted-clusters"), argsOf("controller", "--max-automatic-clusters")...)
	}
	want := []string{"--max-unaccepted-clusters=50", "--max-automatic-clusters=20"}
	if diff := cmp.Diff(want, limits()); diff != "" {
		t.Errorf("what the programs are told (-want +got):\n%s", diff)
	}
	for _, annotation := range []string{operatorv1.AnnotationMaxUnacceptedClusters, operatorv1.AnnotationMaxAutomaticClusters} {
		before := ""
		l.change(t, func(cm *operatorv1.ClusterManager) {
			before, cm.Annotations[annotation] = cm.Annotations[annotation], "many"
		})
		if _, err := l.pass(t); !errors.Is(err, reconcile.TerminalError(nil)) {
			t.Errorf("%s: the pass ended with %v, want a terminal error", annotation, err)
		}
		got := l.condition(t, operatorv1.ClusterManagerConditionApplied)
		if got.Reason != "ConfigurationNotSupported" || !strings.Contains(got.Message, "annotation "+annotation+` is "many"`) {
			t.Errorf("Applied is %+v", got)
		}
		if diff := cmp.Diff(want, limits()); diff != "" {
			t.Errorf("what the programs are told after a mistake (-want +got):\n%s", diff)
		}
		l.change(t, func(cm *operatorv1.ClusterManager) { cm.Annotations[annotation] = before })
	}
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Annotations = nil })
	l.settle(t)
	if got := limits(); len(got) > 0 {
		t.Errorf("without the annotations the programs are told %q, want nothing", got)
	}
}
