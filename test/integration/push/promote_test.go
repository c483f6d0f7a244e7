// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/placer"
)

// deployment is one that runs in the member, with a ConfigMap and a Secret.
func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	from := func(source corev1.EnvFromSource) []corev1.EnvFromSource { return []corev1.EnvFromSource{source} }
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels, Annotations: map[string]string{"deployment.kubernetes.io/revision": "3", "team": "web"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "web", Image: "nginx:1.27", EnvFrom: from(corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}})},
					{Name: "side", Image: "nginx:1.27", EnvFrom: from(corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "secret"}}})},
				}},
			},
		},
	}
}

// shops are worlds in which the hub takes over what runs in namespace shop of member1.
var shops = env.NewFixtures(servers, func(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	expect.NoError(t, policyv1alpha1.AddToScheme(w.hub.client.Scheme()))
	expect.NoError(t, workv1alpha2.AddToScheme(w.hub.client.Scheme()))
	placer.StartPropagation(t, w.hub.config)
	w.want(t, exit.OK, "cluster(member1) is joined successfully\n", "", w.join("member1")...)
	// The controllers of a cluster put its rules into the agent's role; none run here.
	agent := build.AccountSubject(fleetv1alpha1.DefaultMemberNamespace, "capstan-member1")
	cluster.CreateObjects(t, w.member.client, build.ClusterRoleBinding("workloads", "cluster-admin", agent), build.Namespace("shop"),
		shopConfig(), build.Secret("shop", "secret", map[string][]byte{"a": []byte("b")}))
	return w
})

func shopConfig() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "config"}, Data: map[string]string{"a": "b"}}
}

// promotes is the command that has the hub take over a Deployment.
func (w *world) promotes(name string, more ...string) []string {
	return append([]string{"promote", "deployment", name, "-n", "shop", "-C", "member1", "--cluster-kubeconfig", w.member.kubeconfig}, more...)
}

// TestPromote has the hub take over what runs in a member: it stays the same object,
// as it is, and what is wrong is told before anything is written.
func TestPromote(t *testing.T) {
	w := shops.TakeFixture(t)
	web, config, secret := deployment("web"), shopConfig(), build.Secret("shop", "secret", nil)
	cluster.CreateObjects(t, w.member.client, web)
	for _, object := range []client.Object{config, secret} {
		expect.NoError(t, w.member.client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	}

	w.want(t, exit.Usage, "", "name the cluster that the object runs in", "promote", "deployment", "web", "--cluster-kubeconfig", w.member.kubeconfig)
	w.want(t, exit.Usage, "", "it is not said which cluster is the member", "promote", "deployment", "web", "-C", "member1")
	w.want(t, exit.Failed, "", `there is no cluster "member2"`, w.promotes("web", "-C", "member2")...)
	w.want(t, exit.Failed, "", `but "member1" is the cluster`, "promote", "deployment", "web", "-n", "shop", "-C", "member1", "--cluster-kubeconfig", w.hub.kubeconfig)
	w.want(t, exit.Failed, "", "there is no Deployment shop/none in cluster member1", w.promotes("none")...)
	w.want(t, exit.Failed, "", "install its definition on the hub first", "promote", "widget", "web", "-C", "member1", "--cluster-kubeconfig", w.member.kubeconfig)
	w.want(t, exit.Failed, "", "is never sent to clusters", "promote", "managedcluster", "member1", "-C", "member1", "--cluster-kubeconfig", w.member.kubeconfig)
	w.want(t, exit.OK, "Resource \"deployments\"(shop/web) is promoted successfully (dry run)\n", "", w.promotes("web", "-d", "--dry-run")...)
	w.want(t, exit.OK, "conflictResolution: Overwrite", "", w.promotes("web", "-d", "--dry-run=server", "-o", "yaml")...)
	if err := w.hub.client.Get(t.Context(), client.ObjectKeyFromObject(web), &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a dry run left it on the hub: %v", err)
	}

	code, out, errOut := w.capstan(t.Context(), w.promotes("web", "-d")...)
	if want := `Namespace (shop) is created successfully
ResourceTemplate (shop/config) is created successfully
ResourceTemplate (shop/secret) is created successfully
ResourceTemplate (shop/web) is created successfully
PropagationPolicy (shop/web-deployment) is created successfully
Resource "deployments"(shop/web) is promoted successfully
`; code != exit.OK || out != want {
		t.Fatalf("exit code %d; it printed\n%s%s", code, out, errOut)
	}
	expect.NothingWrong(t, patience, "what it refers to is the hub's, too", func() string {
		for _, object := range []client.Object{&corev1.ConfigMap{ObjectMeta: config.ObjectMeta}, &corev1.Secret{ObjectMeta: secret.ObjectMeta}} {
			if err := w.member.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetLabels()[workv1alpha2.LabelManaged] != "true" {
				return "it is not"
			}
		}
		return ""
	})
	w.unchanged(t, web, config, secret)
	now := &appsv1.Deployment{}
	expect.NoError(t, w.member.client.Get(t.Context(), client.ObjectKeyFromObject(web), now))
	if diff := cmp.Diff(web.Spec, now.Spec); diff != "" || now.Labels[workv1alpha2.LabelManaged] != "true" || now.Annotations["deployment.kubernetes.io/revision"] != "3" {
		t.Errorf("the Deployment in the cluster has labels %v and annotations %v; its spec (-before +after):\n%s", now.Labels, now.Annotations, diff)
	}

	w.want(t, exit.Failed, "", "Deployment shop/web is already promoted: cluster member1 gets it from a hub", w.promotes("web")...)
}

// unchanged fails the test if objects of the member are others than they were.
func (w *world) unchanged(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		before := object.GetUID()
		now := deepcopy.CopyObject(object)
		expect.NoError(t, w.member.client.Get(t.Context(), client.ObjectKeyFromObject(object), now))
		if now.GetUID() != before {
			t.Errorf("%T %s had UID %s, and has %s", object, object.GetName(), before, now.GetUID())
		}
	}
}

// TestPromoteTakesNothingButWhatItAsksFor lets a member answer with a token by which anybody joins the hub's cluster, in
// the place of what it is asked for or of what that refers to.
func TestPromoteTakesNothingButWhatItAsksFor(t *testing.T) {
	w := shops.TakeFixture(t)
	cluster.CreateObjects(t, w.member.client, deployment("lied"))
	transport, err := rest.TransportFor(w.member.config)
	expect.NoError(t, err)
	target, err := url.Parse(w.member.config.Host)
	expect.NoError(t, err)
	const token = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"kube-system","name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token","stringData":{"token-id":"abcdef"}}`
	var lies atomic.Value
	lies.Store("")
	member := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path == lies.Load() {
				r.StatusCode, r.Header = http.StatusOK, http.Header{"Content-Type": {"application/json"}}
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader(token)), int64(len(token))
			}
			return nil
		},
	})
	t.Cleanup(member.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"member": {Server: member.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"member": {Cluster: "member"}},
		CurrentContext: "member",
	}, kubeconfig))
	for _, path := range []string{"/apis/apps/v1/namespaces/shop/deployments/lied", "/api/v1/namespaces/shop/secrets/secret"} {
		lies.Store(path)
		w.want(t, exit.Failed, "", `"bootstrap-token-abcdef" in namespace "kube-system": nothing is promoted`,
			w.promotes("lied", "-d", "--cluster-kubeconfig", kubeconfig)...)
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}}, deployment("lied"),
	} {
		if err := w.hub.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			t.Errorf("%s is on the hub: %v", object.GetName(), err)
		}
	}
}

// TestPromoteTakesNothingThatAnotherPolicyHas or would get.
func TestPromoteTakesNothingThatAnotherPolicyHas(t *testing.T) {
	w := shops.TakeFixture(t)
	cluster.CreateObjects(t, w.member.client, deployment("db"), deployment("cache"))
	other := &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other"},
		Spec: policyv1alpha1.PropagationSpec{
			Priority: new(int32(7)), ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"db", "cache"}}}}}},
			Placement: policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"nowhere"}}},
		},
	}
	expect.NoError(t, w.hub.client.Create(t.Context(), other))
	w.want(t, exit.Failed, "", "PropagationPolicy shop/other would claim Deployment shop/cache", w.promotes("cache")...)
	different := deployment("db")
	different.Spec.Replicas = new(int32(9))
	expect.NoError(t, w.hub.client.Create(t.Context(), different))
	expect.NothingWrong(t, patience, "the other policy has claimed it", func() string {
		if err := w.hub.client.Get(t.Context(), client.ObjectKeyFromObject(different), different); err != nil || different.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] == "" {
			return "it has not"
		}
		return ""
	})
	w.want(t, exit.Failed, "", "Deployment shop/db is already on the hub, and PropagationPolicy shop/other claims it", w.promotes("db")...)
	expect.NoError(t, w.hub.client.Delete(t.Context(), other))
	expect.NothingWrong(t, patience, "the other policy has let go of it", func() string {
		if err := w.hub.client.Get(t.Context(), client.ObjectKeyFromObject(different), different); err != nil || different.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] != "" {
			return "it has not"
		}
		return ""
	})
	w.want(t, exit.Failed, "", "Deployment shop/db is already on the hub, and differs from the one in cluster member1", w.promotes("db")...)
	taken := other.DeepCopy()
	taken.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "taken"}
	taken.Spec.ResourceSelectors[0].LabelSelector, taken.Spec.ResourceSelectors[0].Name = nil, "none"
	expect.NoError(t, w.hub.client.Create(t.Context(), taken))
	w.want(t, exit.Failed, "", "PropagationPolicy (shop/taken) is already on the hub, and is for something else", w.promotes("cache", "--policy-name", "taken")...)
	w.want(t, exit.OK, "No policy was created", "", w.promotes("cache", "--auto-create-policy=false")...)
	w.want(t, exit.OK, "ResourceTemplate (shop/cache) is there already\n", "", w.promotes("cache", "--policy-name", "mine")...)
}

// TestWhatWasPromotedIsHandedBack does what the guide says.
func TestWhatWasPromotedIsHandedBack(t *testing.T) {
	w := shops.TakeFixture(t)
	back := deployment("back")
	cluster.CreateObjects(t, w.member.client, back)
	w.want(t, exit.OK, `Resource "deployments"(shop/back) is promoted successfully`, "", w.promotes("back", "-d")...)
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "back-deployment"}}
	expect.NoError(t, w.hub.client.Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"preserveResourcesOnDeletion":true}}`))))
	expect.NothingWrong(t, patience, "its work says so", func() string {
		works := &workv1.ManifestWorkList{}
		expect.NoError(t, w.hub.client.List(t.Context(), works, client.InNamespace("member1")))
		for i := range works.Items {
			work := &works.Items[i]
			if work.Annotations[workv1alpha2.AnnotationResourceBindingName] == "back-deployment" && work.Spec.DeleteOption != nil && work.Spec.DeleteOption.PropagationPolicy == workv1.DeletePropagationPolicyOrphan {
				return ""
			}
		}
		return "it does not"
	})
	expect.NoError(t, w.hub.client.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "back"}}))
	// Nobody collects garbage on this hub.
	expect.NoError(t, w.hub.client.Delete(t.Context(), &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "back-deployment"}}))
	now := &appsv1.Deployment{}
	expect.NothingWrong(t, patience, "it is nobody's any more", func() string {
		expect.NoError(t, w.member.client.Get(t.Context(), client.ObjectKeyFromObject(back), now))
		if now.Labels[workv1alpha2.LabelManaged] != "" {
			return strings.Join([]string{"it has the label", workv1alpha2.LabelManaged}, " ")
		}
		return ""
	})
	w.unchanged(t, back)
}
