// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clinic

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// change changes an object, and its status, until the test ends.
func change[T client.Object](t testing.TB, c *Clinic, object T, mutate func(T)) {
	t.Helper()
	if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	c.heal(t, object)
	before := deepcopy.CopyObject(object)
	mutate(object)
	status := deepcopy.CopyObject(object)
	if err := c.api.Patch(t.Context(), object, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.api.Status().Patch(t.Context(), status, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// remove deletes an object until the test ends.
func (c *Clinic) remove(t testing.TB, object client.Object) {
	t.Helper()
	if err := c.api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	c.heal(t, object)
	if err := c.api.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

// heal makes an object at the end of the test as it is now.
func (c *Clinic) heal(t testing.TB, object client.Object) {
	t.Helper()
	before := deepcopy.CopyObject(object)
	live := deepcopy.CopyObject(object)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := c.api.Get(ctx, client.ObjectKeyFromObject(live), live)
		if err == nil && live.GetDeletionTimestamp() != nil {
			live.SetFinalizers(nil)
			if err := c.api.Update(ctx, live); err != nil {
				t.Fatal(err)
			}
			err = c.api.Get(ctx, client.ObjectKeyFromObject(live), live)
		}
		if apierrors.IsNotFound(err) {
			before.SetResourceVersion("")
			before.SetUID("")
			c.make(t, before)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		before.SetResourceVersion(live.GetResourceVersion())
		before.SetUID(live.GetUID())
		status := deepcopy.CopyObject(before)
		if err := c.api.Update(ctx, before); err != nil {
			t.Fatal(err)
		}
		status.SetResourceVersion(before.GetResourceVersion())
		if err := c.api.Status().Update(ctx, status); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	})
}

// elsewhere makes the doctor take another address for the hub.
func (c *Clinic) elsewhere(t testing.TB, server string) {
	t.Helper()
	kubeconfig := KubeconfigOf(c.AdminConfig)
	kubeconfig.Clusters["hub"] = &clientcmdapi.Cluster{Server: server, InsecureSkipTLSVerify: true}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// someCluster is an API server that knows none of our kinds.
func someCluster(t testing.TB) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// breaks makes a Deployment have a pod that waits, for the reason.
func (c *Clinic) breaks(t testing.TB, namespace, name, reason, lastWords string) {
	t.Helper()
	c.runs(t, namespace, name, false)
	deployment := &appsv1.Deployment{}
	if err := c.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, deployment); err != nil {
		t.Fatal(err)
	}
	status := corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	if lastWords != "" {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: lastWords, ExitCode: 2}
	}
	c.PutObject(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: deployment.Spec.Template.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example/capstan:1"}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}},
	})
}

func (c *Clinic) changePatient(t testing.TB, mutate func(*clusterv1.ManagedCluster)) {
	t.Helper()
	change(t, c, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: patient}}, mutate)
}

// unjoin makes the cluster one that has not joined yet.
func (c *Clinic) unjoin(t testing.TB) {
	t.Helper()
	c.changePatient(t, func(mc *clusterv1.ManagedCluster) {
		mc.Status.Conditions = well(clusterv1.ManagedClusterConditionHubAccepted)
	})
	c.remove(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: operatorv1.HubKubeConfigSecret}})
}

// ask makes the certificate request of an agent of the patient.
func (c *Clinic) ask(t testing.TB) {
	t.Helper()
	c.RequestCertificate(t, patient+"-aaaa", patient, "agent1", "system:bootstrap:abcdef")
	t.Cleanup(func() {
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: patient + "-aaaa"}}
		if err := c.Client.Delete(context.WithoutCancel(t.Context()), request); err != nil {
			t.Errorf("removing the request: %v", err)
		}
	})
}

// decide approves or denies the request of the patient, a while ago if no time
// is given.
func (c *Clinic) decide(t testing.TB, verdict certificatesv1.RequestConditionType, at ...time.Time) {
	t.Helper()
	request := &certificatesv1.CertificateSigningRequest{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: patient + "-aaaa"}, request); err != nil {
		t.Fatal(err)
	}
	when := append(at, time.Now().Add(-time.Hour))[0]
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: verdict, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.NewTime(when),
	})
	if err := c.Client.SubResource("approval").Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

// connection gives the ClusterConnection a condition that is False.
func (c *Clinic) connection(t testing.TB, condition metav1.Condition) {
	t.Helper()
	condition.Status = metav1.ConditionFalse
	change(t, c, &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: PushPatient}}, func(connection *fleetv1alpha1.ClusterConnection) {
		meta.SetStatusCondition(&connection.Status.Conditions, condition)
	})
}

// work makes a work with an object that could not be applied.
func (c *Clinic) work(t testing.TB, executor *workv1.ManifestWorkExecutor, message string) {
	t.Helper()
	failed := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{{
			Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			ObservedGeneration: 1, LastTransitionTime: metav1.Now(),
		}}
	}
	c.PutObject(t, &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: patient, Name: "shop"},
		Spec:       workv1.ManifestWorkSpec{Executor: executor, Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{namespaceManifest()}}},
		Status: workv1.ManifestWorkStatus{
			Conditions: failed(workv1.ManifestWorkReasonAppliedManifestWorkFailed, "1 of 1 objects is not applied"),
			ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
				ResourceMeta: workv1.ManifestResourceMeta{Group: "example.com", Version: "v1", Kind: "Database", Namespace: "shop", Name: "orders"},
				Conditions:   failed(workv1.ManifestReasonAppliedManifestFailed, message),
			}}},
		},
	})
}

// expired returns a certificate of the agent that was valid once.
func expired(t testing.TB) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: clusterv1.AgentUser(patient, "agent1")},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// place makes a Placement until the test ends. The placement controller runs, and
// nobody collects what it has made: names must not be used again.
func (c *Clinic) place(t testing.TB, name string, selector clusterv1beta1.ClusterSelector) {
	t.Helper()
	c.until(t, &clusterv1beta1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       clusterv1beta1.PlacementSpec{Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: selector}}},
	})
}

// bind lets Placements choose from all clusters until the test ends.
func (c *Clinic) bind(t testing.TB) {
	t.Helper()
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	set.Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{
		SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{},
	}
	c.until(t, set)
	c.until(t, &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"},
	})
}

// until makes an object, whose status is others' affair, until the test ends.
func (c *Clinic) until(t testing.TB, object client.Object) {
	t.Helper()
	if err := c.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Client.Delete(context.WithoutCancel(t.Context()), object); client.IgnoreNotFound(err) != nil {
			t.Errorf("removing %T %s: %v", object, object.GetName(), err)
		}
	})
}

// unservedAPI leads requests for the Cluster API to a Service that is not there.
func unservedAPI() client.Object {
	api := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": "cluster.karmada.io", "version": "v1alpha1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
		"service": map[string]any{"namespace": operatorv1.DefaultHubNamespace, "name": "cluster-manager-apiserver"},
	}}}
	api.SetAPIVersion("apiregistration.k8s.io/v1")
	api.SetKind("APIService")
	api.SetName("v1alpha1.cluster.karmada.io")
	api.SetLabels(map[string]string{operatorv1.LabelCreatedByClusterManager: "cluster-manager"})
	return api
}

// replicaSet makes a ManifestWorkReplicaSet with these conditions until the test
// ends. Its controller does not run.
func (c *Clinic) replicaSet(t testing.TB, conditions ...metav1.Condition) {
	t.Helper()
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "shop"}}
	set.Spec.ManifestWorkTemplate.Workload.Manifests = []workv1.Manifest{namespaceManifest()}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "web", RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll}}}
	c.until(t, set)
	set.Status.Conditions, set.Status.PlacementsSummary = conditions, []workv1alpha1.PlacementSummary{}
	if err := c.Client.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}
