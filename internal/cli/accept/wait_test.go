// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/testing/agentrequest"
)

// asks is a request of an agent of the cluster.
func asks(t *testing.T, name, cluster string, conditions ...certificatesv1.CertificateSigningRequestCondition) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	request, _ := agentrequest.NewRequest(t, cluster, "agent")
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{clusterv1.LabelClusterName: cluster}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, Username: "bootstrap",
		},
		Status: certificatesv1.CertificateSigningRequestStatus{Conditions: conditions},
	}
}

// fakeHub is a hub with these objects.
func fakeHub(t *testing.T, objects ...client.Object) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme),
		clusterv1beta2.AddToScheme(scheme), workv1alpha2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&clusterv1.ManagedCluster{})
}

// TestAnAgentThatAsksWhileWeWaitIsAccepted is a cluster that left an hour ago and
// joins again: its former request is approved, and the new one comes late.
func TestAnAgentThatAsksWhileWeWaitIsAccepted(t *testing.T) {
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	cluster.Spec.HubAcceptsClient = true
	former := asks(t, "c1-former", "c1", certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue})
	late, looks := asks(t, "c1-late", "c1"), 0
	c := fakeHub(t, cluster, former).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if looks++; looks == 2 {
				if err := w.Create(ctx, late.DeepCopy()); err != nil {
					return err
				}
			}
			return w.List(ctx, list, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, w client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
			if o.GetName() != late.Name {
				t.Errorf("approved %s, want only what came late", o.GetName())
			}
			// The hub accepts it.
			for _, is := range []string{clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
				meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{Type: is, Status: metav1.ConditionTrue, Reason: "Test"})
			}
			return errors.Join(w.Update(ctx, o), w.Status().Update(ctx, cluster))
		},
	}).Build()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	session := hub.NewSession(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, clock.RealClock{})
	a := &acceptCommand{session: session, read: c, write: c, wait: true, timeout: time.Minute}
	if err := a.acceptCluster(t.Context(), "c1"); err != nil {
		t.Fatalf("%v; said:\n%s", err, &out)
	}
}

// TestAcceptWarnsOfWhatItTakesBack is a cluster that asks to be let in under the name
// of a tenant's namespace.
func TestAcceptWarnsOfWhatItTakesBack(t *testing.T) {
	for namespace, want := range map[string]bool{"team-a": true, "team-b": false} {
		cluster, request := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}, asks(t, "team-a-1", "team-a")
		sent := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop-deployment"}}
		c := fakeHub(t, cluster, request, sent).Build()
		var out bytes.Buffer
		session := hub.NewSession(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}, clock.RealClock{})
		a := &acceptCommand{session: session, read: c, write: c, timeout: time.Minute}
		if err := a.acceptCluster(t.Context(), "team-a"); err != nil {
			t.Fatal(err)
		}
		before, _, _ := strings.Cut(out.String(), "Approving")
		if strings.Contains(before, "taken back from all clusters") != want {
			t.Errorf("a policy sends from %s, and accept says:\n%s", namespace, &out)
		}
	}
}
