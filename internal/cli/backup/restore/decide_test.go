// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/backup"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/controlplane/archive"
	"github.com/capstan-io/capstan/internal/controlplane/restored"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

func plane(change func(*fleetv1alpha1.ControlPlane)) *fleetv1alpha1.ControlPlane {
	cp := &fleetv1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-control-plane", Name: "fleet"}}
	cp.Spec.Version = "v1.36.3"
	cp.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{}
	if change != nil {
		change(cp)
	}
	return cp
}

func TestABackupThatDoesNotFitIsRefused(t *testing.T) {
	of := func(change func(*archive.Manifest)) archive.Manifest {
		m := archive.Manifest{Hub: "fleet", Namespace: "fleet-control-plane", KubernetesVersion: "v1.36.1"}
		if change != nil {
			change(&m)
		}
		return m
	}
	for name, c := range map[string]struct {
		of   archive.Manifest
		to   *fleetv1alpha1.ControlPlane
		want string
	}{
		"it fits":            {of: of(nil), to: plane(nil)},
		"of a minor earlier": {of: of(func(m *archive.Manifest) { m.KubernetesVersion = "v1.35.0" }), to: plane(nil)},
		"of another hub":     {of: of(func(m *archive.Manifest) { m.Hub = "other" }), to: plane(nil), want: `is of the hub "other"`},
		"of another place":   {of: of(func(m *archive.Manifest) { m.Namespace = "other" }), to: plane(nil), want: `in namespace "other", not of "fleet"`},
		"of a later minor": {
			of: of(func(m *archive.Manifest) { m.KubernetesVersion = "v1.37.0" }), to: plane(nil),
			want: "the backup is of Kubernetes v1.37.0, and the ControlPlane is to run v1.36.3",
		},
		"an etcd elsewhere": {
			of: of(nil), want: "an etcd that the hub does not run",
			to: plane(func(cp *fleetv1alpha1.ControlPlane) { cp.Spec.Etcd.Managed = nil }),
		},
		"a hub that goes": {
			of: of(nil), want: "is being removed",
			to: plane(func(cp *fleetv1alpha1.ControlPlane) { cp.DeletionTimestamp = new(metav1.Now()) }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkBackupFits(c.of, c.to)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// No version may be given twice, also if a hub is restored to one backup again.
func TestEachRestoreLeavesMoreVersionsOut(t *testing.T) {
	cp := plane(nil)
	first, err := rangeOf(1200, cp)
	if err != nil {
		t.Fatal(err)
	}
	if want := (restored.VersionRange{After: 1200, Until: 1200 + bump}); first != want {
		t.Errorf("the first one leaves out %s, want %s", first, want)
	}
	cp.Annotations = map[string]string{fleetv1alpha1.AnnotationRestored: first.String()}
	for snapshot, until := range map[int64]int64{1200: first.Until + bump, first.Until + 500: first.Until + 500 + bump} {
		again, err := rangeOf(snapshot, cp)
		if err != nil {
			t.Fatal(err)
		}
		if want := (restored.VersionRange{After: snapshot, Until: until}); again != want {
			t.Errorf("one to revision %d leaves out %s, want %s", snapshot, again, want)
		}
	}
	cp.Annotations[fleetv1alpha1.AnnotationRestored] = "nonsense"
	if _, err := rangeOf(1200, cp); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("what nobody can read is no reason to give versions twice: %v", err)
	}
}

func TestTheSummarySaysWhatBecameOfWorks(t *testing.T) {
	versions := restored.VersionRange{After: 100, Until: 1100}
	before := workVersions{"a/same": {"1", "90"}, "a/changed": {"2", "150"}, "a/created": {"3", "120"}, "a/anew": {"5", "130"}}
	after := workVersions{"a/same": {"1", "90"}, "a/changed": {"2", "80"}, "a/deleted": {"4", "70"}, "a/anew": {"6", "60"}}
	got := compareWorks(before, after, versions)
	slices.Sort(got.forgotten)
	slices.Sort(got.back)
	want := differences{forgotten: []string{"a/anew", "a/created"}, back: []string{"a/anew", "a/deleted"}, reverted: []string{"a/changed"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(differences{})); diff != "" {
		t.Errorf("the differences are others (-want +got):\n%s", diff)
	}
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	text := summarizeRestore("fleet", created, versions, before, after)
	for _, want := range []string{"as it was on 2026-03-01T12:00:00Z, with 4 ManifestWorks", "created since: a/anew, a/created", "WorksMissing"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if text := summarizeRestore("fleet", created, versions, nil, after); !strings.Contains(text, "could not be read") {
		t.Errorf("nobody knows what there was, and the summary does not say so:\n%s", text)
	}
	if got := formatFirstNames([]string{"l", "k", "j", "i", "h", "g", "f", "e", "d", "c", "b", "a"}); got != ": a, b, c, d, e, f, g, h, i, j and 2 more" {
		t.Errorf("many names are %q", got)
	}
}

func TestKeysAreWrittenWhereTheyAreMissing(t *testing.T) {
	secret := func(name, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-control-plane", Name: name}, Data: map[string][]byte{"key": []byte(value)}}
	}
	from := &backup.Backup{ArchiveContents: backup.ArchiveContents{Plane: plane(nil), Secrets: map[string]*corev1.Secret{
		"same": secret("same", "1"), "missing": secret("missing", "2"), "other": secret("other", "3"),
	}}}
	w := func(live ...client.Object) *restoreRun {
		return &restoreRun{host: fake.NewClientBuilder().WithObjects(live...).Build(), from: from, plane: manifests.Plane{Namespace: "fleet-control-plane", Name: "fleet"}}
	}
	present := []client.Object{secret("same", "1"), secret("other", "4")}
	if _, err := w(present...).secretsToWrite(t.Context(), false); err == nil || !strings.Contains(exit.FormatError(err), "Secrets other in namespace") || !strings.Contains(exit.FormatError(err), "--replace-keys") {
		t.Errorf("other keys are replaced unasked, or nobody says how to: %v", err)
	}
	all := w(present...)
	keys, err := all.secretsToWrite(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := all.writeSecrets(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"same": "1", "missing": "2", "other": "3"} {
		got := &corev1.Secret{}
		if err := all.host.Get(t.Context(), client.ObjectKey{Namespace: "fleet-control-plane", Name: name}, got); err != nil {
			t.Fatal(err)
		}
		if string(got.Data["key"]) != want {
			t.Errorf("Secret %s has %q, want %q", name, got.Data["key"], want)
		}
	}
	if keys, err := all.secretsToWrite(t.Context(), false); err != nil || len(keys) > 0 {
		t.Errorf("a second time, %d Secrets are to be written (%v)", len(keys), err)
	}
}

// A hub that was made anew has certificates of its new authorities, which members
// do not know.
func TestWhatOtherAuthoritiesHaveSignedGoes(t *testing.T) {
	p := manifests.Plane{Namespace: "fleet-control-plane", Name: "fleet", Spec: plane(nil).Spec}
	ours, others := authority(t), authority(t)
	for name, c := range map[string]struct {
		signer *certs.CertificatePair
		goes   bool
	}{"of ours": {ours, false}, "of others": {others, true}} {
		t.Run(name, func(t *testing.T) {
			leaf, err := certs.NewServing(c.signer, []string{"localhost"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			serving := p.Authorities()[manifests.ServingAuthority][0].Secret
			meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: p.Namespace, Name: name} }
			kept := &corev1.Secret{ObjectMeta: meta(p.ResourceName(manifests.ServingAuthority)), Data: map[string][]byte{
				corev1.TLSCertKey: ours.CertPEM, corev1.TLSPrivateKeyKey: ours.KeyPEM,
			}}
			w := &restoreRun{
				plane: p, from: &backup.Backup{ArchiveContents: backup.ArchiveContents{Secrets: map[string]*corev1.Secret{kept.Name: kept}}},
				host: fake.NewClientBuilder().WithObjects(kept.DeepCopy(), &corev1.ConfigMap{ObjectMeta: meta(kept.Name)},
					&corev1.Secret{ObjectMeta: meta(serving), Data: map[string][]byte{corev1.TLSCertKey: leaf.CertPEM}}).Build(),
			}
			if err := w.writeSecrets(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			for name, object := range map[string]client.Object{serving: &corev1.Secret{}, kept.Name: &corev1.ConfigMap{}} {
				if err := w.host.Get(t.Context(), client.ObjectKey{Namespace: p.Namespace, Name: name}, object); apierrors.IsNotFound(err) != c.goes {
					t.Errorf("%T %s is there: %v", object, name, err)
				}
			}
			if err := w.host.Get(t.Context(), client.ObjectKeyFromObject(kept), &corev1.Secret{}); err != nil {
				t.Errorf("the authority itself is gone: %v", err)
			}
		})
	}
}

func authority(t *testing.T) *certs.CertificatePair {
	t.Helper()
	pair, err := certs.NewAuthority("serving", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
