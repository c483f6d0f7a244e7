// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/install"
)

const place = "hub-control-plane"

func now() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// dedicatedHub has an authority, two certificates of its own and one that is somebody
// else's.
func dedicatedHub() *fleetv1alpha1.ControlPlane {
	in := func(days int) metav1.Time { return metav1.NewTime(now().AddDate(0, 0, days)) }
	return &fleetv1alpha1.ControlPlane{
		ObjectMeta: metav1.ObjectMeta{Namespace: place, Name: "hub"},
		Status: fleetv1alpha1.ControlPlaneStatus{Certificates: []fleetv1alpha1.ControlPlaneCertificate{
			{Name: "etcd", Expires: in(-1)},
			{Name: "hub-apiserver", Expires: in(30)},
			{Name: "hub-front-proxy-client", Expires: in(12)},
			{Name: "hub-serving-ca", Authority: true, Expires: in(3650)},
		}},
	}
}

func TestWhatExpiresFirstIsAtTheTop(t *testing.T) {
	want := [][]string{
		{"CERTIFICATE", "EXPIRES", "LEFT", "AUTHORITY"},
		{"etcd", "2025-12-31T00:00:00Z", "expired", "no"},
		{"hub-front-proxy-client", "2026-01-13T00:00:00Z", "12d", "no"},
		{"hub-apiserver", "2026-01-31T00:00:00Z", "30d", "no"},
		{"hub-serving-ca", "2035-12-30T00:00:00Z", "10y", "yes"},
	}
	if diff := cmp.Diff(want, certificateRows(byExpiry(dedicatedHub().Status.Certificates), now())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// host has the Secrets of the hub. The operator makes one that is deleted anew.
func host(t *testing.T) client.WithWatch {
	t.Helper()
	secret := func(name, certificate string, labels map[string]string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: place, Name: name, UID: types.UID(certificate), Labels: labels},
			Data:       map[string][]byte{corev1.TLSCertKey: []byte(certificate)},
		}
	}
	ours := map[string]string{fleetv1alpha1.LabelControlPlane: "hub"}
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(
			secret("etcd", "old", nil), secret("hub-apiserver", "old", ours), secret("hub-front-proxy-client", "old", ours),
			secret("hub-serving-ca", "old", ours), secret("hub-encryption", "old", ours),
		).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				if err := c.Delete(ctx, o, options...); err != nil {
					return err
				}
				return c.Create(ctx, secret(o.GetName(), "new", ours))
			},
		}).Build()
}

func TestOnlyWhatTheOperatorHasSignedIsRenewed(t *testing.T) {
	c := host(t)
	secrets, err := renewable(t.Context(), c, dedicatedHub(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := renewSecrets(t.Context(), install.Waiter{Client: c, Timeout: time.Minute}, secrets); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etcd": "old", "hub-apiserver": "new", "hub-front-proxy-client": "new", "hub-serving-ca": "old", "hub-encryption": "old",
	} {
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: place, Name: name}, s); err != nil || string(s.Data[corev1.TLSCertKey]) != want {
			t.Errorf("Secret %s has the %s certificate (%v), want the %s one", name, s.Data[corev1.TLSCertKey], err, want)
		}
	}
}

func TestCertificatesAreRenewedByName(t *testing.T) {
	one, err := renewable(t.Context(), host(t), dedicatedHub(), []string{"hub-apiserver"})
	if err != nil || len(one) != 1 || one[0].Name != "hub-apiserver" {
		t.Errorf("renewed are %d certificates (%v), want hub-apiserver", len(one), err)
	}
	for _, name := range []string{"etcd", "hub-serving-ca", "hub-encryption", "nothing"} {
		if _, err := renewable(t.Context(), host(t), dedicatedHub(), []string{name}); err == nil || !strings.Contains(err.Error(), "no certificate \""+name+"\"") {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}
