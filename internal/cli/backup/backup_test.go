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
	"github.com/capstan-io/capstan/internal/archive"
	"github.com/capstan-io/capstan/internal/cli/exit"
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
	found, err := gather(t.Context(), hostWith(t, testSecrets(cp)...), cp)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := found.entries()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(entries, []entry{{name: snapshotEntry, text: []byte("database")}})
	got, err := read(archived(t, all...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(found.plane.Spec, got.plane.Spec); diff != "" || got.plane.UID != "" || got.plane.Labels["team"] != "a" {
		t.Errorf("the ControlPlane is another one: %+v\n%s", got.plane.ObjectMeta, diff)
	}
	if len(got.secrets) != 6 {
		t.Errorf("there are %d Secrets, want those of 4 authorities and 2 of keys", len(got.secrets))
	}
	for name, secret := range got.secrets {
		if want := found.secrets[name]; string(secret.Data["key"]) != "of "+name || secret.Type != want.Type || secret.Kind != "Secret" || secret.ResourceVersion != "" {
			t.Errorf("Secret %s is another one: %+v", name, secret)
		}
	}
}

func TestAnArchiveThatLacksSomethingIsNotRead(t *testing.T) {
	cp := testPlane(nil)
	found, err := gather(t.Context(), hostWith(t, testSecrets(cp)...), cp)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := found.entries()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(entries, []entry{{name: snapshotEntry, text: []byte("database")}})
	for i := range all {
		lacks := slices.Concat(all[:i], all[i+1:])
		if _, err := read(archived(t, lacks...)); err == nil || !strings.Contains(err.Error(), "it has no "+all[i].name) {
			t.Errorf("an archive without %s is read, with the error %v", all[i].name, err)
		}
	}
}

// archived returns the entries as an archive has them.
func archived(t *testing.T, entries ...entry) *archive.Archive {
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
		if err := w.Add(e.name, int64(len(e.text)), bytes.NewReader(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := archive.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), key)
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
		}), all, "Back up that etcd by its own means"},
		"on its way out":   {testPlane(func(cp *fleetv1alpha1.ControlPlane) { cp.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), all, "is just being removed"},
		"without its keys": {testPlane(nil), all[1:], "without which the hub cannot be restored"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := gather(t.Context(), hostWith(t, c.secrets...), c.cp)
			if err == nil || !strings.Contains(exit.Text(err), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestOnlyAMemberThatIsReadyIsAsked(t *testing.T) {
	cp := testPlane(nil)
	c := contents{plane: cp}
	pod := func(name string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: cp.Namespace, Name: name, Labels: c.names().PodLabels(manifests.Etcd)},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	other := pod("fleet-apiserver-0", corev1.ConditionTrue)
	other.Labels = c.names().PodLabels(manifests.APIServer)
	unready := []client.Object{other, pod("fleet-etcd-0", corev1.ConditionFalse), pod("fleet-etcd-1", corev1.ConditionUnknown)}
	if _, err := c.member(t.Context(), hostWith(t, unready...)); err == nil || !strings.Contains(err.Error(), "is ready, of 2 pods") {
		t.Errorf("without a member that is ready, the error is %v", err)
	}
	got, err := c.member(t.Context(), hostWith(t, append(unready, pod("fleet-etcd-2", corev1.ConditionTrue))...))
	if err != nil || got.Name != "fleet-etcd-2" {
		t.Errorf("got %q and the error %v", got, err)
	}
}

func TestAFileIsThereWholeOrNotAtAll(t *testing.T) {
	f := file{path: filepath.Join(t.TempDir(), "a.backup")}
	if err := f.write(putting("half", errors.New("etcd has gone"))); err == nil {
		t.Error("an error got lost")
	}
	wantFile(t, f, "")
	if err := f.write(putting("first", nil)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is for others, too: %v (error %v)", info.Mode(), err)
	}
	wantFile(t, f, "first")
}

func TestAFileIsReplacedOnRequestOnly(t *testing.T) {
	f := file{path: filepath.Join(t.TempDir(), "a.backup")}
	if err := f.write(putting("first", nil)); err != nil {
		t.Fatal(err)
	}
	if err := f.write(putting("second", nil)); err == nil {
		t.Error("the file was replaced although nobody said so")
	}
	f.overwrite = true
	if err := f.write(putting("half", errors.New("etcd has gone"))); err == nil {
		t.Error("an error got lost")
	}
	wantFile(t, f, "first")
	if err := f.write(putting("third", nil)); err != nil {
		t.Fatal(err)
	}
	wantFile(t, f, "third")
	if err := (file{path: t.TempDir(), overwrite: true}).free(); err == nil || !strings.Contains(err.Error(), "no file that could be replaced") {
		t.Errorf("a folder may be replaced: %v", err)
	}
}

// putting returns what writes a text and then fails, if there is an error.
func putting(text string, err error) func(io.Writer) error {
	return func(w io.Writer) error {
		_, written := io.WriteString(w, text)
		return errors.Join(written, err)
	}
}

// wantFile fails the test unless the file, and nothing else in its folder, has the
// text; "" is no file.
func wantFile(t *testing.T, f file, text string) {
	t.Helper()
	got := map[string]string{}
	entries, err := os.ReadDir(filepath.Dir(f.path))
	for _, e := range entries {
		content, readErr := os.ReadFile(filepath.Join(filepath.Dir(f.path), e.Name()))
		got[e.Name()], err = string(content), errors.Join(err, readErr)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	if text != "" {
		want[filepath.Base(f.path)] = text
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the folder of the file has something else (-want +got):\n%s", diff)
	}
}
