// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/remote"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

func TestHostedHubInstallsEachPartWhereItBelongs(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	for _, name := range []string{"cluster-manager-registration-controller", registrationWebhook, workWebhook} {
		deployment := &appsv1.Deployment{}
		if !l.exists(t, deployment, name, testName) {
			t.Fatalf("Deployment %s is missing on the management cluster", name)
		}
		if args := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--kubeconfig=/var/run/secrets/hub/kubeconfig") || !slices.Contains(args, "--hosted") {
			t.Errorf("%s does not work on the hub: %q", name, args)
		}
		if *deployment.Spec.Replicas != 1 {
			t.Errorf("%s has %d replicas, want 1", name, *deployment.Spec.Replicas)
		}
	}
	for _, crd := range l.deps.CRDs {
		if !l.onHub(t, &apiextensionsv1.CustomResourceDefinition{}, crd.Name, "") || l.exists(t, &apiextensionsv1.CustomResourceDefinition{}, crd.Name, "") {
			t.Errorf("the definition %s has to be on the hub only", crd.Name)
		}
	}
	for _, hooks := range []client.ObjectList{&admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingWebhookConfigurationList{}} {
		if l.count(t, l.hubAdmin, hooks) == 0 || l.count(t, l.client, hooks) != 0 {
			t.Errorf("%T: they have to be on the hub only", hooks)
		}
	}
	before := l.get(t).ResourceVersion
	l.writes = 0
	result, err := l.pass(t)
	expect.NoError(t, err)
	if l.writes != 0 || l.get(t).ResourceVersion != before {
		t.Errorf("a pass over a settled hub made %d writes", l.writes)
	}
	if result.RequeueAfter != hubResync {
		t.Errorf("the hub is looked at again after %s, want %s", result.RequeueAfter, hubResync)
	}
}

// count returns how many objects of the ClusterManager there are.
func (l *hostedLab) count(t testing.TB, c client.Client, list client.ObjectList) int {
	t.Helper()
	expect.NoError(t, c.List(t.Context(), list, client.MatchingLabels{operatorv1.LabelCreatedByClusterManager: testName}))
	return meta.LenList(list)
}

func TestHostedComponentsHaveWhatTheyNeedAndNothingMore(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	for _, account := range []string{"registration-controller-sa", "work-webhook-sa", "push-agent-sa"} {
		if !l.exists(t, &corev1.ServiceAccount{}, account, testName) || !l.onHub(t, &corev1.ServiceAccount{}, account, testName) {
			t.Errorf("the account %s has to be on both clusters", account)
		}
	}
	if l.exists(t, &rbacv1.ClusterRole{}, "open-cluster-management:cluster-manager-registration:controller", "") {
		t.Error("components have their rights for the hub on the management cluster, too")
	}
	if !l.onHub(t, &corev1.ServiceAccount{}, operatorv1.BootstrapServiceAccount, testName) {
		t.Error("the hub has no identity to join with")
	}
	for _, finalizer := range []string{operatorv1.FinalizerClusterManagerCleanup, operatorv1.FinalizerClusterManagerHostedCleanup} {
		if !controllerutil.ContainsFinalizer(l.get(t), finalizer) {
			t.Errorf("the finalizer %s is missing", finalizer)
		}
	}
	with, _ := l.as(t, "registration-controller-sa")
	controller, err := client.New(with, client.Options{Scheme: l.client.Scheme()})
	expect.NoError(t, err)
	l.await(t, "the registration controller may read clusters", func() bool {
		return controller.List(t.Context(), &clusterv1.ManagedClusterList{}) == nil
	})
	if err := controller.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the registration controller reads secrets of the hub: %v", err)
	}
	with, _ = l.as(t, "work-webhook-sa")
	webhook, err := client.New(with, client.Options{Scheme: l.client.Scheme()})
	expect.NoError(t, err)
	if err := webhook.List(t.Context(), &clusterv1.ManagedClusterList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the work webhook has the rights of somebody else: %v", err)
	}
}

func TestHostedHubRenewsTokensLongBeforeTheyExpire(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	const account = "work-webhook-sa"
	pods := func() map[string]string {
		return l.deployments(t)["cluster-manager-work-webhook"].Spec.Template.Annotations
	}
	_, first := l.as(t, account)
	claims, err := remote.ParseToken(first)
	expect.NoError(t, err)
	if life := time.Duration(claims.Expires-claims.IssuedAt) * time.Second; life != remote.TokenLifetime {
		t.Errorf("the token lives %s, want %s", life, remote.TokenLifetime)
	}
	rolled := pods()

	l.clock.SetTime(time.Unix(claims.IssuedAt, 0).Add(remote.TokenLifetime/2 - time.Hour))
	l.settle(t)
	if _, same := l.as(t, account); same != first {
		t.Error("a token is renewed that has more than half of its life before it")
	}
	l.clock.SetTime(time.Unix(claims.IssuedAt, 0).Add(remote.TokenLifetime/2 + time.Hour))
	l.settle(t)
	if _, second := l.as(t, account); second == first {
		t.Error("a token is not renewed when half of its life is over")
	}
	if !maps.Equal(pods(), rolled) {
		t.Errorf("pods are rolled for a new token, which they read from its file: %v, were %v", pods(), rolled)
	}

	l.clock.SetTime(time.Now())
	old := &corev1.ServiceAccount{}
	l.onHub(t, old, account, testName)
	expect.NoError(t, l.hubAdmin.Delete(t.Context(), old))
	l.settle(t)
	renewed := &corev1.ServiceAccount{}
	l.onHub(t, renewed, account, testName)
	_, third := l.as(t, account)
	if claims, err := remote.ParseToken(third); err != nil || claims.Kubernetes.ServiceAccount.UID != renewed.UID {
		t.Errorf("the token is still of the account that is gone: %+v %v", claims, err)
	}

	l.lead(t, map[string][]byte{operatorv1.KubeConfigKey: cluster.UserKubeconfig(t, l.hubEnv, installer, func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		cluster.DisableCompression = true
	})})
	l.settle(t)
	if maps.Equal(pods(), rolled) {
		t.Error("pods go on with the kubeconfig that they have read, though the hub's is another now")
	}
}

func TestHostedHubTellsWhyItCannotBeWorkedOn(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.host(t, nil)
	for _, step := range []struct {
		problem string
		data    map[string][]byte
		reason  string
		message string
	}{
		{"there is no secret", nil, "ExternalHubKubeConfigMissing", `secret "cluster-manager/external-hub-kubeconfig" does not exist`},
		{"the key is called otherwise", map[string][]byte{"config": {1}}, "ExternalHubKubeConfigMissing", `has no key "kubeconfig"`},
		{"it is no kubeconfig", map[string][]byte{"kubeconfig": []byte("{")}, "ExternalHubKubeConfigMalformed", "not a valid kubeconfig"},
		{"nothing listens there", map[string][]byte{"kubeconfig": cluster.UserKubeconfig(t, l.hubEnv, installer, func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.Server = "https://hub.invalid:6443"
		})}, "HubUnreachable", "the hub https://hub.invalid:6443 cannot be reached"},
		{"it is another cluster's credential", map[string][]byte{"kubeconfig": cluster.UserKubeconfig(t, l.hubEnv, installer, func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Token: "unknown"}
		})}, "HubUnauthorized", "rejects the credential"},
		{"the CA is another's", map[string][]byte{"kubeconfig": cluster.UserKubeconfig(t, l.hubEnv, installer, func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.CertificateAuthorityData = l.restConfig.CAData
		})}, "HubUntrusted", "certificate-authority-data"},
		{"it may do nothing", map[string][]byte{"kubeconfig": cluster.UserKubeconfig(t, l.hubEnv, "stranger")}, "HubForbidden", "create serviceaccounts/token"},
	} {
		if step.data != nil {
			l.lead(t, step.data)
		}
		result, err := l.pass(t)
		if err != nil || result.RequeueAfter != hubRetry {
			t.Errorf("%s: it is tried again after %s with error %v, want %s", step.problem, result.RequeueAfter, err, hubRetry)
		}
		applied := l.condition(t, operatorv1.ClusterManagerConditionApplied)
		if applied.Status != metav1.ConditionFalse || applied.Reason != step.reason || !strings.Contains(applied.Message, step.message) {
			t.Errorf("%s: Applied is %+v, want %s with %q", step.problem, applied, step.reason, step.message)
		}
	}
	if finalizers := l.get(t).Finalizers; len(finalizers) != 1 {
		t.Errorf("nothing is installed on the hub, but the finalizers are %v", finalizers)
	}
	l.leadAs(t, installer)
	l.settle(t)

	// What is installed goes on, and is looked at, while the hub cannot be reached.
	l.leadNowhere(t)
	related := len(l.get(t).Status.RelatedResources)
	controller := l.deployments(t)["cluster-manager-registration-controller"]
	controller.Status.AvailableReplicas, controller.Status.ReadyReplicas = 0, 0
	expect.NoError(t, l.client.Status().Update(t.Context(), &controller))
	l.onePass(t)
	if got := len(l.get(t).Status.RelatedResources); got != related {
		t.Errorf("the status forgets what is installed: %d related resources, were %d", got, related)
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionHubRegistrationDegraded); got.Status != metav1.ConditionTrue {
		t.Errorf("a missing pod is not told while the hub is away: %+v", got)
	}
	l.leadAs(t, installer)
	l.settle(t)
}

// The webhooks of the hub.
const (
	registrationWebhook = "cluster-manager-registration-webhook"
	workWebhook         = "cluster-manager-work-webhook"
)

func TestHostedWebhooksAreReachedByNameOrAddress(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	l.isName(t, registrationWebhook, "hooks.example.com")
	service, slice := &corev1.Service{}, &discoveryv1.EndpointSlice{}
	l.onHub(t, service, workWebhook, testName)
	if service.Spec.Type != corev1.ServiceTypeClusterIP || len(service.Spec.Selector) > 0 {
		t.Errorf("the Service for an address is %+v", service.Spec)
	}
	if !l.onHub(t, slice, workWebhook, testName) || slice.Endpoints[0].Addresses[0] != "192.0.2.7" || *slice.Ports[0].Port != 31443 {
		t.Errorf("the Service for an address leads to %+v", slice)
	}
	hooks := &admissionv1.ValidatingWebhookConfiguration{}
	l.onHub(t, hooks, "manifestworkvalidators.admission.work.open-cluster-management.io", "")
	if to := hooks.Webhooks[0].ClientConfig.Service; to.Namespace != testName || to.Name != workWebhook || *to.Port != 31443 {
		t.Errorf("the webhook calls %+v", to)
	}
	if got := l.certifiedHosts(t, operatorv1.WorkWebhookServingCertSecret); !slices.Equal(got, []string{workWebhook + "." + testName + ".svc", "192.0.2.7"}) {
		t.Errorf("the certificate is for %q", got)
	}

	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.DeployOption.Hosted.RegistrationWebhookConfiguration.Address = "192.0.2.8"
		cm.Spec.DeployOption.Hosted.WorkWebhookConfiguration.Address = "hooks.example.com"
	})
	l.clock.SetTime(l.clock.Now().Add(2 * certs.TrustDelay))
	l.settle(t)
	if !l.onHub(t, &discoveryv1.EndpointSlice{}, registrationWebhook, testName) {
		t.Error("the Service leads nowhere after a change to an address")
	}
	l.isName(t, workWebhook, "hooks.example.com")
	if got := l.certifiedHosts(t, operatorv1.WorkWebhookServingCertSecret); !slices.Contains(got, "hooks.example.com") {
		t.Errorf("the certificate is still for %q", got)
	}
}

// isName sees that the Service of a webhook leads to a name of the DNS.
func (l *hostedLab) isName(t testing.TB, webhook, want string) {
	t.Helper()
	service := &corev1.Service{}
	l.onHub(t, service, webhook, testName)
	if service.Spec.Type != corev1.ServiceTypeExternalName || service.Spec.ExternalName != want {
		t.Errorf("the Service for the name %s is %+v", want, service.Spec)
	}
	if l.onHub(t, &discoveryv1.EndpointSlice{}, webhook, testName) {
		t.Errorf("the Service for the name %s has addresses", want)
	}
}

// certifiedHosts returns what the certificate in the secret is for.
func (l *hostedLab) certifiedHosts(t testing.TB, name string) []string {
	t.Helper()
	certificate := l.certificate(t, name).Certificate
	hosts := certificate.DNSNames
	for _, ip := range certificate.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

func TestHostedPushAgentRunsForAPushClusterOfTheHub(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	connection.Spec = fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member"}
	expect.NoError(t, l.hubAdmin.Create(t.Context(), connection))
	for _, want := range []int32{1, 0} {
		l.onePass(t)
		if got := *l.deployments(t)["cluster-manager-push-agent"].Spec.Replicas; got != want {
			t.Errorf("the push agent has %d replicas, want %d", got, want)
		}
		expect.NoError(t, client.IgnoreNotFound(l.hubAdmin.Delete(t.Context(), connection)))
	}
}

func TestHostedSecretOfAComponentGoesWithIt(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.leadAs(t, installer)
	gate := operatorv1.FeatureGate{Feature: "CleanUpCompletedManifestWork", Mode: operatorv1.FeatureGateModeEnable}
	l.host(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.WorkConfiguration = &operatorv1.WorkConfiguration{FeatureGates: []operatorv1.FeatureGate{gate}}
	})
	l.settle(t)
	l.as(t, "work-controller-sa")
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.WorkConfiguration.FeatureGates = nil })
	l.settle(t)
	if l.exists(t, &corev1.Secret{}, manifests.HubSecret("work-controller-sa"), testName) {
		t.Error("the kubeconfig of a component that is gone is left, and nobody renews its token")
	}
	if l.onHub(t, &corev1.ServiceAccount{}, "work-controller-sa", testName) || l.exists(t, &corev1.ServiceAccount{}, "work-controller-sa", testName) {
		t.Error("the account of a component that is gone is left")
	}
}

func TestHostedSecondInstallationOnTheHubWaits(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.installed(t)
	other := l.get(t).DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Name: "second"}
	l.create(t, other, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "second", Labels: map[string]string{operatorv1.LabelOperatedBy: "cluster-manager"}}}, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "second", Name: operatorv1.ExternalHubKubeConfigSecret},
		Data:       map[string][]byte{operatorv1.KubeConfigKey: cluster.UserKubeconfig(t, l.hubEnv, installer)},
	})
	if _, err := l.controller.Reconcile(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	l.exists(t, other, "second", "")
	applied := other.Status.Conditions[slices.IndexFunc(other.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Applied" })]
	if applied.Reason != "AnotherClusterManager" || !strings.Contains(applied.Message, testName) {
		t.Errorf("Applied is %+v", applied)
	}
	// It installed nothing, so it goes at once.
	expect.NoError(t, l.client.Delete(t.Context(), other))
	l.exists(t, other, "second", "")
	if _, err := l.controller.Reconcile(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if l.exists(t, other, "second", "") {
		t.Error("a ClusterManager that installed nothing does not go")
	}
}
