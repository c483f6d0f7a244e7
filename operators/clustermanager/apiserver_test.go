// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

const apiServiceName = "v1alpha1.cluster.karmada.io"

// aggregated turns the gate of the Cluster API on.
func aggregated(cm *operatorv1.ClusterManager) {
	cm.Spec.RegistrationConfiguration = &operatorv1.RegistrationHubConfiguration{FeatureGates: []operatorv1.FeatureGate{
		{Feature: "AggregatedAPI", Mode: operatorv1.FeatureGateModeEnable},
	}}
}

// ofAPIServer are the objects that are there with the gate only.
func ofAPIServer() map[client.Object]client.ObjectKey {
	here := client.ObjectKey{Namespace: testHubNS, Name: "cluster-manager-apiserver"}
	role := client.ObjectKey{Name: "open-cluster-management:cluster-manager-apiserver"}
	return map[client.Object]client.ObjectKey{
		&appsv1.Deployment{}: here, &corev1.Service{}: here, &policyv1.PodDisruptionBudget{}: here,
		&corev1.Secret{}:         {Namespace: testHubNS, Name: "apiserver-serving-cert"},
		&corev1.ServiceAccount{}: {Namespace: testHubNS, Name: "apiserver-sa"},
		&rbacv1.ClusterRole{}:    role, &rbacv1.ClusterRoleBinding{}: role,
		apiService(): {Name: apiServiceName}, apiService(): {Name: "v1alpha1.work.karmada.io"},
	}
}

func apiService() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apiregistration.k8s.io/v1")
	u.SetKind("APIService")
	u.SetName(apiServiceName)
	return u
}

func TestAggregatedAPIComesWithItsGate(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	single := l.controller
	replicated := l.deps
	replicated.Options.Replicas = 3
	l.controller = NewClusterManagerController(replicated)
	t.Cleanup(func() { l.controller = single })
	l.hub(t, aggregated)
	l.settle(t)
	for object, key := range ofAPIServer() {
		if !l.exists(t, object, key.Name, key.Namespace) {
			t.Errorf("%T %s is missing", object, key)
		}
	}
	gates := l.deployments(t)["cluster-manager-registration-controller"].Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(gates, "--feature-gates=AggregatedAPI=true") {
		t.Errorf("the registration controller has args %q", gates)
	}
	if args := l.deployments(t)["cluster-manager-apiserver"].Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--max-requests-per-user=200") {
		t.Errorf("the aggregated API server has args %q", args)
	}
	live, pair := apiService(), l.certificate(t, "apiserver-serving-cert")
	l.exists(t, live, apiServiceName, "")
	encoded, _, _ := unstructured.NestedString(live.Object, "spec", "caBundle")
	bundle, err := base64.StdEncoding.DecodeString(encoded)
	expect.NoError(t, err)
	if trusted := certs.ParseBundle(bundle); len(trusted) != 1 || pair.Certificate.CheckSignatureFrom(trusted[0]) != nil {
		t.Error("the APIService does not trust the certificate")
	}
	if got := pair.Certificate.DNSNames; !slices.Equal(got, []string{"cluster-manager-apiserver.open-cluster-management-hub.svc"}) {
		t.Errorf("the certificate is for %q", got)
	}

	degraded := l.degradedAPI(t, "APIServiceUnavailable")
	l.exists(t, live, apiServiceName, "")
	conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	if len(conditions) != 1 || !strings.Contains(degraded.Message, fmt.Sprint(conditions[0].(map[string]any)["message"])) {
		t.Errorf("the message %q is not that of the APIService: %v", degraded.Message, conditions)
	}
	l.writes = 0
	if result, err := l.pass(t); err != nil || result.RequeueAfter > waitRetry {
		t.Errorf("the next pass is after %s: %v", result.RequeueAfter, err)
	}
	if l.writes != 0 {
		t.Errorf("a pass over a settled hub made %d writes", l.writes)
	}
}

func TestAggregatedAPIGoesWithItsGate(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	single := l.controller
	replicated := l.deps
	replicated.Options.Replicas = 3
	l.controller = NewClusterManagerController(replicated)
	t.Cleanup(func() { l.controller = single })
	l.hub(t, aggregated)
	l.settle(t)
	l.change(t, func(cm *operatorv1.ClusterManager) { cm.Spec.RegistrationConfiguration = nil })
	l.onePass(t)
	if l.exists(t, apiService(), apiServiceName, "") || !l.exists(t, &appsv1.Deployment{}, "cluster-manager-apiserver", testHubNS) {
		t.Error("the APIService has to go before its server, and whether other components run or not")
	}
	l.settle(t)
	for object, key := range ofAPIServer() {
		if l.exists(t, object, key.Name, key.Namespace) {
			t.Errorf("%T %s is left", object, key)
		}
	}
	if got := l.condition(t, operatorv1.ClusterManagerConditionHubAPIServerDegraded); got.Type != "" {
		t.Errorf("without the gate there is a condition %+v", got)
	}
	if !l.exists(t, &admissionv1.ValidatingAdmissionPolicy{}, manifests.ConnectionGuardName, "") {
		t.Error("without the gate there is no guard, so what is forged now counts once it is on")
	}
}

// degradedAPI waits for the condition of the Cluster API with the reason.
func (l *lab) degradedAPI(t testing.TB, reason string) metav1.Condition {
	t.Helper()
	for range passesMax {
		got := l.condition(t, operatorv1.ClusterManagerConditionHubAPIServerDegraded)
		if got.Reason == reason && !strings.Contains(got.Message, "not processed it yet") {
			return got
		}
		l.onePass(t)
		<-time.After(gonePause)
	}
	t.Fatalf("HubAPIServerDegraded is %+v", l.condition(t, operatorv1.ClusterManagerConditionHubAPIServerDegraded))
	return metav1.Condition{}
}

// TestAPIServiceOfOthersIsLeftAlone is one of Karmada, which has an aggregated API server of its own.
func TestAPIServiceOfOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	foreign := apiService()
	foreign.Object["spec"] = map[string]any{
		"group": "cluster.karmada.io", "version": "v1alpha1", "groupPriorityMinimum": int64(2000), "versionPriority": int64(10),
		"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "karmada-system", "name": "karmada-aggregated-apiserver"},
	}
	l.create(t, foreign)
	l.hub(t, aggregated)
	l.settle(t)
	degraded := l.degradedAPI(t, "APIServiceTaken")
	if degraded.Status != metav1.ConditionTrue || !strings.Contains(degraded.Message,
		`APIService "v1alpha1.cluster.karmada.io" belongs to Service "karmada-system/karmada-aggregated-apiserver" and is left as it is`) {
		t.Errorf("the condition is %+v", degraded)
	}
	l.clean(t)
	live := apiService()
	if !l.exists(t, live, apiServiceName, "") || live.GetGeneration() != foreign.GetGeneration() || live.GetUID() != foreign.GetUID() {
		t.Error("the APIService of somebody else was changed")
	}
	if l.exists(t, &admissionv1.ValidatingAdmissionPolicy{}, manifests.ConnectionGuardName, "") {
		t.Error("the hub is gone, and its guard is left")
	}
	expect.NoError(t, l.client.Delete(t.Context(), foreign))
}

// TestOnlyTheHubWritesWhatClustersAre lets a user who may do everything with ClusterConnections try to change
// a ManagedCluster by what the Cluster API stores there.
func TestOnlyTheHubWritesWhatClustersAre(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	l.allow(t, "connections", "connections", []rbacv1.PolicyRule{{
		APIGroups: []string{"fleet.capstan.io"}, Resources: []string{"clusterconnections", "clusterconnections/status"}, Verbs: []string{"*"},
	}})
	user := cluster.NewClient(t, cluster.AsUser(l.adminConfig, account("connections")))
	hub := cluster.NewClient(t, cluster.AsUser(l.adminConfig, l.account("registration-controller-sa")))
	forged := map[string]any{"uid": "1", "intent": map[string]any{"accept": true}}
	l.await(t, "the guard is in force", func() bool {
		return refusedByGuard(user.Create(t.Context(), connection("forged", forged), client.DryRunAll))
	})

	if err := user.Create(t.Context(), connection("plain", nil)); err != nil {
		t.Fatalf("a ClusterConnection that is no Cluster: %v", err)
	}
	if err := hub.Create(t.Context(), connection("mirrored", map[string]any{"uid": "1"})); err != nil {
		t.Fatalf("what the hub mirrors: %v", err)
	}
	const forge, forget = `{"cluster":{"uid":"1","intent":{"accept":true}}}`, `{"cluster":null}`
	merge := func(c client.Client, name, patch string, opts ...client.PatchOption) error {
		return c.Patch(t.Context(), connection(name, nil), client.RawPatch("application/merge-patch+json", []byte(patch)), opts...)
	}
	update := connection("mirrored", nil)
	expect.NoError(t, user.Get(t.Context(), client.ObjectKeyFromObject(update), update))
	update.Object["cluster"] = forged
	for what, err := range map[string]error{
		"an intent in a new ClusterConnection": user.Create(t.Context(), connection("forged", forged)),
		"an intent in one that is no Cluster":  merge(user, "plain", forge),
		"an intent in a mirrored one":          merge(user, "mirrored", forge),
		"an intent by an update":               user.Update(t.Context(), update),
		"forgetting what is mirrored":          merge(user, "mirrored", forget),
		"an intent of an administrator":        merge(l.client, "mirrored", forge),
		"an intent by server-side apply": user.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(connection("mirrored", forged)),
			client.FieldOwner("thief"), client.ForceOwnership),
	} {
		if !refusedByGuard(err) {
			t.Errorf("%s: got %v, want it to be refused by the guard", what, err)
		}
	}
	if err := user.Status().Patch(t.Context(), connection("mirrored", nil), client.RawPatch("application/merge-patch+json", []byte(forge))); err != nil {
		t.Errorf("the status of a ClusterConnection: %v", err)
	}
	if err := merge(user, "mirrored", `{"spec":{"region":"r1"}}`); err != nil {
		t.Errorf("another field of a mirrored ClusterConnection: %v", err)
	}
	live := connection("mirrored", nil)
	l.exists(t, live, "mirrored", "")
	if _, found, _ := unstructured.NestedMap(live.Object, "cluster", "intent"); found {
		t.Error("there is a forged intent")
	}
	if err := merge(hub, "mirrored", forge, client.DryRunAll); err != nil {
		t.Errorf("the guard stops the hub itself: %v", err)
	}
	for _, name := range []string{"plain", "mirrored"} {
		expect.NoError(t, l.client.Delete(t.Context(), connection(name, nil)))
	}
}

// TestOnlyTheAPIServerSaysWhichSecretsAreCopied lets everybody but the aggregated API server, the controller that mirrors
// ManagedClusters among them, try to have a Secret copied to a cluster.
func TestOnlyTheAPIServerSaysWhichSecretsAreCopied(t *testing.T) {
	t.Parallel()
	l := hubLabs.TakeFixture(t)
	l.hub(t, nil)
	l.settle(t)
	l.allow(t, "copies", "copies", []rbacv1.PolicyRule{build.AccessRule("fleet.capstan.io", "clusterconnections", "*")})
	l.create(t, build.ClusterRoleBinding("copies-of-server", "copies", build.AccountSubject(testHubNS, "apiserver-sa")))
	user := cluster.NewClient(t, cluster.AsUser(l.adminConfig, account("copies")))
	mirror := cluster.NewClient(t, cluster.AsUser(l.adminConfig, l.account("registration-controller-sa")))
	server := cluster.NewClient(t, cluster.AsUser(l.adminConfig, l.account("apiserver-sa")))
	l.await(t, "the guard is in force", func() bool {
		return refusedByGuard(user.Create(t.Context(), connection("forged", map[string]any{"uid": "1", "intent": map[string]any{"accept": true}}), client.DryRunAll))
	})
	expect.NoError(t, mirror.Create(t.Context(), connection("mirrored", map[string]any{"uid": "1"})))
	secret := map[string]any{"namespace": "karmada-cluster", "name": "one"}
	waiting := func(user string) map[string]any {
		return map[string]any{"uid": "1", "secretRef": secret, "awaitedSecrets": []any{map[string]any{
			"copy": "cluster-connection", "requester": map[string]any{"username": user}, "requestedAt": "2030-01-01T00:00:00Z",
		}}}
	}
	l.await(t, "the aggregated API server may write what it waits for", func() bool {
		return server.Create(t.Context(), connection("waiting", waiting("admin"))) == nil
	})
	merge := func(c client.Client, name, patch string, opts ...client.PatchOption) error {
		return c.Patch(t.Context(), connection(name, nil), client.RawPatch("application/merge-patch+json", []byte(patch)), opts...)
	}
	const record = `[{"copy":"cluster-connection","requester":{"username":"root"},"requestedAt":"2030-01-01T00:00:00Z"}]`
	for _, c := range []client.Client{user, mirror, l.client} {
		for what, err := range map[string]error{
			"a record in a new ClusterConnection": c.Create(t.Context(), connection("forged", waiting("root")), client.DryRunAll),
			"a record in one that has none":       merge(c, "mirrored", `{"cluster":{"awaitedSecrets":`+record+`}}`, client.DryRunAll),
			"another user":                        merge(c, "waiting", `{"cluster":{"awaitedSecrets":`+record+`}}`, client.DryRunAll),
			"another Secret":                      merge(c, "waiting", `{"cluster":{"secretRef":{"name":"other"}}}`, client.DryRunAll),
			"another cluster":                     merge(c, "waiting", `{"cluster":{"uid":"2"}}`, client.DryRunAll),
		} {
			if err == nil || !strings.Contains(err.Error(), manifests.ConnectionGuardName) {
				t.Errorf("%s: got %v, want it to be refused by the guard", what, err)
			}
		}
	}
	for what, patch := range map[string]string{
		"what it mirrors":                    `{"cluster":{"accepted":true}}`,
		"the mirror of another one, and all": `{"cluster":{"uid":"2","secretRef":null,"awaitedSecrets":null}}`,
	} {
		if err := merge(mirror, "waiting", patch, client.DryRunAll); err != nil {
			t.Errorf("%s: %v, want that the registration controller may write it", what, err)
		}
	}
	if err := merge(server, "waiting", `{"cluster":{"awaitedSecrets":null}}`); err != nil {
		t.Errorf("the aggregated API server has copied the Secret: %v", err)
	}
	for _, name := range []string{"waiting", "mirrored"} {
		expect.NoError(t, l.client.Delete(t.Context(), connection(name, nil)))
	}
}

func connection(name string, cluster map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"syncMode": "Pull"}}}
	u.SetAPIVersion("fleet.capstan.io/v1alpha1")
	u.SetKind("ClusterConnection")
	u.SetName(name)
	if cluster != nil {
		u.Object["cluster"] = cluster
	}
	return u
}

func refusedByGuard(err error) bool {
	return err != nil && strings.Contains(err.Error(), manifests.ConnectionGuardName) && strings.Contains(err.Error(), "change the Cluster or the ManagedCluster instead")
}

// TestHostedAggregatedAPIIsReachedByAnAddress has its pods on the management cluster and is reached from the hub by
// an address, which somebody has to tell.
func TestHostedAggregatedAPIIsReachedByAnAddress(t *testing.T) {
	t.Parallel()
	l := hostedLabs.TakeFixture(t)
	l.leadAs(t, installer)
	l.host(t, aggregated)
	l.settle(t)
	degraded := l.degradedAPI(t, "APIServerAddressMissing")
	if !strings.Contains(degraded.Message, "set annotation fleet.capstan.io/apiserver-address to it") {
		t.Errorf("the condition is %+v", degraded)
	}
	if _, found := l.deployments(t)["cluster-manager-apiserver"]; found || l.onHub(t, apiService(), apiServiceName, "") {
		t.Error("an API server that nobody reaches is installed")
	}

	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Annotations = map[string]string{operatorv1.AnnotationAPIServerAddress: "clusters.example.com"}
	})
	l.clock.SetTime(l.clock.Now().Add(2 * certs.TrustDelay))
	l.settle(t)
	l.degradedAPI(t, "APIServiceUnavailable")
	l.reachesAPI(t, "clusters.example.com")
	l.removeHosted(t)
	for object, key := range ofAPIServer() {
		key.Namespace = strings.Replace(key.Namespace, testHubNS, testName, 1)
		if l.onHub(t, object, key.Name, key.Namespace) || l.exists(t, object, key.Name, key.Namespace) {
			t.Errorf("%T %s is left", object, key)
		}
	}
}

// reachesAPI fails the test unless the hub leads requests to the address, and the
// API server runs on the management cluster with a certificate for it.
func (l *hostedLab) reachesAPI(t testing.TB, address string) {
	t.Helper()
	service, pods := &corev1.Service{}, &corev1.Service{}
	if !l.onHub(t, service, "cluster-manager-apiserver", testName) || service.Spec.ExternalName != address {
		t.Errorf("the Service on the hub is %+v", service.Spec)
	}
	if !l.exists(t, pods, "cluster-manager-apiserver-hosted", testName) || pods.Spec.Ports[0].Port != 443 {
		t.Errorf("the Service of the pods is %+v", pods.Spec)
	}
	if d := l.deployments(t)["cluster-manager-apiserver"]; *d.Spec.Replicas != 2 ||
		!slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--kubeconfig=/var/run/secrets/hub/kubeconfig") ||
		slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--hosted") {
		t.Errorf("the Deployment is %+v", d.Spec)
	}
	if got, want := l.certificate(t, "apiserver-serving-cert").Certificate.DNSNames, []string{"cluster-manager-apiserver." + testName + ".svc", address}; !slices.Equal(got, want) {
		t.Errorf("the certificate is for %q, want %q", got, want)
	}
	if !l.onHub(t, &admissionv1.ValidatingAdmissionPolicy{}, manifests.ConnectionGuardName, "") ||
		l.exists(t, &admissionv1.ValidatingAdmissionPolicy{}, manifests.ConnectionGuardName, "") {
		t.Error("the guard has to be on the hub only")
	}
}

func TestWhereTheAPIServerIsReached(t *testing.T) {
	for name, test := range map[string]struct {
		reason, annotation, server, want string
	}{
		"service":        {reason: "its pods are where ours are", server: "https://hub1-apiserver.hub1.svc:6443", want: "cluster-manager-apiserver-hosted.hub1.svc"},
		"long name":      {reason: "of a Service as well", server: "https://api.hub1.svc.cluster.local", want: "cluster-manager-apiserver-hosted.hub1.svc"},
		"somewhere else": {reason: "nobody knows", server: "https://hub.example.com:6443"},
		"told":           {reason: "the administrator knows best", annotation: "192.0.2.7", server: "https://api.hub1.svc", want: "192.0.2.7"},
	} {
		t.Run(name, func(t *testing.T) {
			cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{
				Name: "hub1", Annotations: map[string]string{operatorv1.AnnotationAPIServerAddress: test.annotation},
			}}
			hub := manifests.Hub{Name: "hub1"}
			hub.Spec.DeployOption.Mode = operatorv1.InstallModeHosted
			credential := probe.Credential{Config: &rest.Config{Host: test.server}, Cluster: &clientcmdapi.Cluster{}}
			if got := apiServerAddress(cm, hub, credential); got != test.want {
				t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
			}
		})
	}
}
