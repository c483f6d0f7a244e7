// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/controlplane/archive"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

func testPlane(change func(*fleetv1alpha1.ControlPlane)) *fleetv1alpha1.ControlPlane {
	cp := &fleetv1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet-control-plane", Name: "fleet", UID: "1", ResourceVersion: "1", Labels: map[string]string{"team": "a"},
	}}
	cp.Spec.Version = "v1.36.3"
	cp.Spec.Etcd.Managed = &fleetv1alpha1.ControlPlaneManagedEtcd{Replicas: 1}
	if change != nil {
		change(cp)
	}
	return cp
}

// testSecrets are all that a control plane has, also those that are made anew.
func testSecrets(cp *fleetv1alpha1.ControlPlane) []client.Object {
	plane := manifests.Plane{Name: cp.Name, Namespace: cp.Namespace, Spec: cp.Spec}
	var all []client.Object
	for _, name := range append(plane.KeptSecrets(), plane.AdminSecret()) {
		all = append(all, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: name, Labels: plane.Labels()},
			Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"key": []byte("of " + name)},
		})
	}
	return all
}

func hostWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestWhatIsGatheredIsWhatIsReadFromTheArchive(t *testing.T) {
	cp := testPlane(nil)
	found, entries := gathered(t, cp)
	got, err := readContents(archived(t, entries...))
	if err != nil {
		t.Fatal(err)
	}
	kept := *cp
	kept.TypeMeta = metav1.TypeMeta{APIVersion: "fleet.capstan.io/v1alpha1", Kind: "ControlPlane"}
	kept.UID, kept.ResourceVersion = "", ""
	if diff := cmp.Diff(&kept, got.Plane); diff != "" {
		t.Errorf("the ControlPlane is another one (-want +got):\n%s", diff)
	}
	if len(got.Secrets) != 6 {
		t.Errorf("there are %d Secrets, want those of 4 authorities and 2 of keys", len(got.Secrets))
	}
	for name, secret := range got.Secrets {
		want := found.Secrets[name].DeepCopy()
		want.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		want.ResourceVersion = ""
		if diff := cmp.Diff(want, secret); diff != "" {
			t.Errorf("Secret %s is another one (-want +got):\n%s", name, diff)
		}
	}
}

func TestAnArchiveWithoutAnEntryIsRefused(t *testing.T) {
	_, all := gathered(t, testPlane(nil))
	for i := range all {
		lacks := slices.Concat(all[:i], all[i+1:])
		if _, err := readContents(archived(t, lacks...)); err == nil || !strings.Contains(err.Error(), "it has no "+all[i].name) {
			t.Errorf("an archive without %s is read, with the error %v", all[i].name, err)
		}
	}
}

// gathered returns the contents of a hub, and the entries of its archive.
func gathered(t *testing.T, cp *fleetv1alpha1.ControlPlane) (ArchiveContents, []archiveEntry) {
	t.Helper()
	found, err := gatherContents(t.Context(), hostWith(t, testSecrets(cp)...), cp)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := found.archiveEntries()
	if err != nil {
		t.Fatal(err)
	}
	return found, append(entries, archiveEntry{name: snapshotEntry, text: []byte("database")})
}

// archived returns the entries as an archive has them.
func archived(t *testing.T, entries ...archiveEntry) *archive.Archive {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := archive.NewWriter(&file, archive.Manifest{}, key.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.AddEntry(e.name, int64(len(e.text)), bytes.NewReader(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := archive.OpenArchive(bytes.NewReader(file.Bytes()), int64(file.Len()), key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAHubThatCannotBeBackedUpSaysWhy(t *testing.T) {
	all := testSecrets(testPlane(nil))
	cases := map[string]struct {
		cp      *fleetv1alpha1.ControlPlane
		secrets []client.Object
		want    string
	}{
		"an etcd elsewhere": {testPlane(func(cp *fleetv1alpha1.ControlPlane) {
			cp.Spec.Etcd = fleetv1alpha1.ControlPlaneEtcd{External: &fleetv1alpha1.ControlPlaneExternalEtcd{}}
		}), all, "Back up that etcd with its own tools"},
		"on its way out":   {testPlane(func(cp *fleetv1alpha1.ControlPlane) { cp.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), all, "is being removed"},
		"without its keys": {testPlane(nil), all[1:], "without which the hub cannot be restored"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := gatherContents(t.Context(), hostWith(t, c.secrets...), c.cp)
			if err == nil || !strings.Contains(exit.FormatError(err), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestOnlyAMemberThatIsReadyIsAsked(t *testing.T) {
	cp := testPlane(nil)
	c := ArchiveContents{Plane: cp}
	pod := func(name string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: name, Labels: c.PlaneNames().PodLabels(manifests.Etcd)},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	other := pod("fleet-apiserver-0", corev1.ConditionTrue)
	other.Labels = c.PlaneNames().PodLabels(manifests.APIServer)
	unready := []client.Object{other, pod("fleet-etcd-0", corev1.ConditionFalse), pod("fleet-etcd-1", corev1.ConditionUnknown)}
	if _, err := ReadyPod(t.Context(), hostWith(t, unready...), c.PlaneNames(), manifests.Etcd); err == nil || !strings.Contains(err.Error(), "is ready, of 2 pods") {
		t.Errorf("without a member that is ready, the error is %v", err)
	}
	got, err := ReadyPod(t.Context(), hostWith(t, append(unready, pod("fleet-etcd-2", corev1.ConditionTrue))...), c.PlaneNames(), manifests.Etcd)
	if err != nil || got.Name != "fleet-etcd-2" {
		t.Errorf("got %q and the error %v", got, err)
	}
}

func TestAFileIsThereWholeOrNotAtAll(t *testing.T) {
	f := backupFile{path: filepath.Join(t.TempDir(), "a.backup")}
	if err := f.writeAtomically(putting("half", errors.New("etcd has gone"))); err == nil {
		t.Error("an error got lost")
	}
	expectFile(t, f, "")
	if err := f.writeAtomically(putting("first", nil)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is for others, too: %v (error %v)", info, err)
	}
	if err := f.writeAtomically(putting("second", nil)); err == nil {
		t.Error("the file was replaced although nobody said so")
	}
	expectFile(t, f, "first")
}

func TestAFileIsReplacedWholeOrNotAtAll(t *testing.T) {
	f := backupFile{path: filepath.Join(t.TempDir(), "a.backup"), overwrite: true}
	if err := f.writeAtomically(putting("first", nil)); err != nil {
		t.Fatal(err)
	}
	if err := f.writeAtomically(putting("half", errors.New("etcd has gone"))); err == nil {
		t.Error("an error got lost")
	}
	expectFile(t, f, "first")
	if err := f.writeAtomically(putting("second", nil)); err != nil {
		t.Fatal(err)
	}
	expectFile(t, f, "second")
	folder := backupFile{path: filepath.Dir(f.path), overwrite: true}
	if err := folder.checkWritable(); err == nil || !strings.Contains(err.Error(), "is not a file that can be replaced") {
		t.Errorf("a folder may be replaced: %v", err)
	}
}

// putting returns what writes the text and then ends with the error.
func putting(text string, err error) func(io.Writer) error {
	return func(w io.Writer) error {
		_, written := io.WriteString(w, text)
		return errors.Join(written, err)
	}
}

// expectFile expects the file with the text, or none, and nothing next to it.
func expectFile(t *testing.T, f backupFile, want string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		t.Fatal(err)
	}
	if want == "" {
		if len(entries) > 0 {
			t.Errorf("something is left: %v", entries)
		}
		return
	}
	text, err := os.ReadFile(f.path)
	if err != nil || string(text) != want || len(entries) != 1 {
		t.Errorf("the file has %q (error %v), want %q; in its folder there are %v", text, err, want, entries)
	}
}
