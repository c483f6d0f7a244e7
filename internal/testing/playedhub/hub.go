// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package playedhub is a hub whose controllers and agents a test plays, so that it decides
// when something happens that a command waits for.
package playedhub

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// Patience is how long something may take that happens by itself. It is long,
// for machines that are busy.
const Patience = 2 * time.Minute

// PlayedHub is a hub: an API server with the definitions of a hub. Its placement
// controller runs; the test plays all others, and the agents.
type PlayedHub struct {
	// Servers are what members are started of.
	Servers     *env.Servers
	Client      client.Client
	Server      *envtest.Environment
	AdminConfig *rest.Config
	Scheme      *runtime.Scheme
	Kubeconfig  string
	// Member is the kubeconfig of the cluster that a session has started.
	Member string
	// Recipient is the key that sessions about backups encrypt for.
	Recipient string
}

// NewPlayedHub starts a cluster that is no hub yet.
func NewPlayedHub(t testing.TB, servers *env.Servers) *PlayedHub {
	t.Helper()
	w := &PlayedHub{Servers: servers, Scheme: runtime.NewScheme()}
	environment, restConfig := servers.Start(t, func(e *envtest.Environment) {
		e.ControlPlane.GetAPIServer().Configure().Set("enable-bootstrap-token-auth", "true")
	})
	w.AdminConfig, w.Server = restConfig, environment
	err := errors.Join(corev1.AddToScheme(w.Scheme), authenticationv1.AddToScheme(w.Scheme), certificatesv1.AddToScheme(w.Scheme), coordinationv1.AddToScheme(w.Scheme),
		clusterv1.AddToScheme(w.Scheme), clusterv1alpha1.AddToScheme(w.Scheme), clusterv1beta1.AddToScheme(w.Scheme), clusterv1beta2.AddToScheme(w.Scheme), fleetv1alpha1.AddToScheme(w.Scheme), workv1.AddToScheme(w.Scheme), workv1alpha1.AddToScheme(w.Scheme), rbacv1.AddToScheme(w.Scheme),
		appsv1alpha1.AddToScheme(w.Scheme), configv1alpha1.AddToScheme(w.Scheme), policyv1alpha1.AddToScheme(w.Scheme), workv1alpha2.AddToScheme(w.Scheme))
	if err != nil {
		t.Fatal(err)
	}
	if w.Client, err = client.New(restConfig, client.Options{Scheme: w.Scheme}); err != nil {
		t.Fatal(err)
	}
	w.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(w.Kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// BecomeHub installs what makes a cluster a hub.
func (w *PlayedHub) BecomeHub(t testing.TB) {
	t.Helper()
	definitions, err := config.HubCRDs()
	if err != nil {
		t.Fatal(err)
	}
	propagation, err := config.PropagationCRDs()
	if err != nil {
		t.Fatal(err)
	}
	definitions = append(definitions, propagation...)
	for _, d := range definitions {
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, operatorv1.AnnotationCRDVersion, version.SemanticVersion())
	}
	if _, err := envtest.InstallCRDs(w.AdminConfig, envtest.CRDInstallOptions{CRDs: definitions, MaxTime: Patience, PollInterval: 100 * time.Millisecond}); err != nil {
		t.Fatalf("installing the definitions of a hub: %v", err)
	}
}

// LoadFile creates the objects of a file of testdata, with their status, or gives
// those that exist the spec that is in it. Whatever
// happened in it happened when the test began.
func (w *PlayedHub) LoadFile(t testing.TB, file string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", file)) //nolint:gosec // the test names it
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(object.Object) > 0 {
			w.CreateWithStatus(t, object)
		}
	}
}

// CreateWithStatus creates an object with its status, in a namespace that is made for it.
func (w *PlayedHub) CreateWithStatus(t testing.TB, object *unstructured.Unstructured) {
	t.Helper()
	if namespace := object.GetNamespace(); namespace != "" {
		err := w.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	status, hasStatus := object.Object["status"].(map[string]any)
	changed := object.DeepCopy()
	err := w.Client.Create(t.Context(), object)
	if apierrors.IsAlreadyExists(err) {
		err = w.Client.Patch(t.Context(), changed, client.Merge)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !hasStatus {
		return
	}
	StampConditions(status, time.Now())
	object.Object["status"] = status
	if err := w.Client.Status().Update(t.Context(), object); err != nil {
		t.Fatalf("status of %s: %v", object.GetName(), err)
	}
}

// StampConditions gives all conditions in a status the time.
func StampConditions(value any, now time.Time) {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			conditions, ok := child.([]any)
			for _, condition := range conditions {
				if c, isMap := condition.(map[string]any); ok && key == "conditions" && isMap {
					c["lastTransitionTime"] = now.UTC().Format(time.RFC3339)
				}
			}
			StampConditions(child, now)
		}
	case []any:
		for _, child := range value {
			StampConditions(child, now)
		}
	}
}

// RequestCertificate creates a certificate request of an agent of the cluster, in the
// name of a user of the hub.
func (w *PlayedHub) RequestCertificate(t testing.TB, name, cluster, agent, user string, organizations ...string) {
	t.Helper()
	if len(organizations) == 0 {
		organizations = []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters}
	}
	seed := sha256.Sum256([]byte(name)) // answers show the key, so that it is the same each time
	key := ed25519.NewKeyFromSeed(seed[:])
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: clusterv1.AgentUser(cluster, agent), Organization: organizations},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	as := rest.CopyConfig(w.AdminConfig)
	as.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	requester, err := client.New(as, client.Options{Scheme: w.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	label, _, _ := strings.Cut(name, "-")
	err = requester.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: label}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// CreateLease makes the Lease that an agent of the cluster renews.
func (w *PlayedHub) CreateLease(t testing.TB, cluster string) {
	t.Helper()
	now := metav1.NowMicro()
	err := w.Client.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: clusterv1.LeaseName},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// PlayJoin plays the hub and the agent of a cluster: once the cluster is accepted,
// it joins, and if it is a Push cluster, the hub is connected with it. The function that it returns waits until that has happened.
func (w *PlayedHub) PlayJoin(t testing.TB, name string) (done func()) {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- w.Join(t.Context(), name) }()
	return func() {
		if err := <-result; err != nil {
			t.Errorf("letting %s join: %v", name, err)
		}
	}
}

// Join plays what happens to a cluster once it is accepted, which it waits for.
func (w *PlayedHub) Join(ctx context.Context, name string) error {
	cluster := &clusterv1.ManagedCluster{}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		err := w.Client.Get(ctx, client.ObjectKey{Name: name}, cluster)
		return err == nil && cluster.Spec.HubAcceptsClient, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for its acceptance: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := w.connect(ctx, name); err != nil {
		return err
	}
	before := cluster.DeepCopy()
	for _, kind := range []string{
		clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable,
	} {
		meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"})
	}
	return w.Client.Status().Patch(ctx, cluster, client.MergeFrom(before))
}

// connect plays the push agent, if the cluster is one for it.
func (w *PlayedHub) connect(ctx context.Context, name string) error {
	connection := &fleetv1alpha1.ClusterConnection{}
	if err := w.Client.Get(ctx, client.ObjectKey{Name: name}, connection); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := connection.DeepCopy()
	meta.SetStatusCondition(&connection.Status.Conditions, metav1.Condition{
		Type: fleetv1alpha1.ClusterConnectionConditionConnected, Status: metav1.ConditionTrue,
		Reason: fleetv1alpha1.ClusterConnectionReasonConnected, ObservedGeneration: connection.Generation,
	})
	return w.Client.Status().Patch(ctx, connection, client.MergeFrom(before))
}

// ClearHub removes what a session has made.
func (w *PlayedHub) ClearHub(t testing.TB) {
	t.Helper()
	err := errors.Join(
		w.Client.DeleteAllOf(t.Context(), &clusterv1.ManagedCluster{}),
		w.Client.DeleteAllOf(t.Context(), &fleetv1alpha1.ClusterConnection{}),
		w.Client.DeleteAllOf(t.Context(), &clusterv1beta2.ManagedClusterSet{}),
		w.Client.DeleteAllOf(t.Context(), &clusterv1beta2.ManagedClusterSetBinding{}, client.InNamespace("team-a")),
		w.Client.DeleteAllOf(t.Context(), &configv1alpha1.ResourceInterpreterCustomization{}),
		w.Client.DeleteAllOf(t.Context(), &configv1alpha1.ResourceInterpreterWebhookConfiguration{}),
		w.Client.DeleteAllOf(t.Context(), &certificatesv1.CertificateSigningRequest{}),
		w.Client.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace("kube-system")),
		w.Client.DeleteAllOf(t.Context(), &corev1.Event{}, client.InNamespace("default")),
	)
	for _, namespace := range []string{"team-a", "team-b"} {
		err = errors.Join(err, w.Client.DeleteAllOf(t.Context(), &clusterv1beta1.Placement{}, client.InNamespace(namespace)),
			w.Client.DeleteAllOf(t.Context(), &clusterv1beta1.PlacementDecision{}, client.InNamespace(namespace)))
	}
	err = errors.Join(err, w.Client.DeleteAllOf(t.Context(), &workv1alpha1.ManifestWorkReplicaSet{}, client.InNamespace("team-a")))
	Eventually(t, func() error { // their controller runs no longer than the session
		sets := &workv1alpha1.ManifestWorkReplicaSetList{}
		if err := w.Client.List(t.Context(), sets); err != nil || len(sets.Items) == 0 {
			return err
		}
		return fmt.Errorf("replica sets are left: %d", len(sets.Items))
	})
	scores := &clusterv1alpha1.AddOnPlacementScoreList{}
	works, leases := &workv1.ManifestWorkList{}, &coordinationv1.LeaseList{}
	err = errors.Join(err, w.Client.List(t.Context(), works), w.Client.List(t.Context(), leases), w.Client.List(t.Context(), scores))
	for i := range scores.Items {
		err = errors.Join(err, w.Client.Delete(t.Context(), &scores.Items[i]))
	}
	for i := range works.Items {
		err = errors.Join(err, client.IgnoreNotFound(w.Client.Delete(t.Context(), &works.Items[i])))
		// No agent is there to let it go.
		err = errors.Join(err, client.IgnoreNotFound(w.Client.Patch(t.Context(), &works.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	}
	for i := range leases.Items {
		if leases.Items[i].Name == clusterv1.LeaseName {
			err = errors.Join(err, w.Client.Delete(t.Context(), &leases.Items[i]))
		}
	}
	if err != nil {
		t.Fatalf("clearing up: %v", err)
	}
}

// Eventually waits until the function has no error.
func Eventually(t testing.TB, try func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, Patience, true, func(context.Context) (bool, error) {
		last = try()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v", Patience, last)
	}
}
