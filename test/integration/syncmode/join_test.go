// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package syncmode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// manyWorks are delivered, each with a ConfigMap, and one in volumeEvery with a
	// PersistentVolumeClaim as well.
	manyWorks   = 300
	volumeEvery = 10
	// oneWay is half of the time that a request to the member takes longer.
	oneWay = 50 * time.Millisecond
)

// TestAKlusterletMayBeDeletedAsSoonAsJoinReturns attacks what runs on a cluster
// that goes from Pull to Push: its Klusterlet is deleted the moment the command
// line says that the cluster has joined.
func TestAKlusterletMayBeDeletedAsSoonAsJoinReturns(t *testing.T) {
	l := newLab(t)
	l.startGarbageCollector()
	l.startPull()
	l.startPush()
	l.isPullCluster()
	for i := range manyWorks {
		l.create(workload(i))
	}
	l.ownedBy(klusterlet, manyWorks)
	before := l.delivery()
	if len(before) != manyWorks+manyWorks/volumeEvery {
		t.Fatalf("%d objects are there before, want %d", len(before), manyWorks+manyWorks/volumeEvery)
	}

	out := l.join()
	if !strings.Contains(out, fmt.Sprintf("taken over all works from the agent in the cluster (%d)", manyWorks)) || !strings.Contains(out, "kubectl delete klusterlet") {
		t.Errorf("it does not say that all is taken over and the Klusterlet may go:\n%s", out)
	}
	if !strings.Contains(out, fmt.Sprintf("of %d AppliedManifestWorks are taken over", manyWorks)) {
		t.Errorf("it does not show how far it is:\n%s", out)
	}
	l.deleteKlusterlet()
	l.nothingLost(before)
}

// nothingLost expects that all objects are those that there were.
func (l *lab) nothingLost(before map[string]string) {
	l.t.Helper()
	after, lost := l.delivery(), 0
	for object, uid := range before {
		if after[object] != uid {
			lost++
			l.t.Logf("%s: it was %s, and is %q", object, uid, after[object])
		}
	}
	if lost > 0 || len(after) != len(before) {
		l.t.Errorf("deleting the Klusterlet deleted %d of the %d objects that it had delivered; there are %d now", lost, len(before), len(after))
	}
}

// startGarbageCollector runs that of Kubernetes in the member.
func (l *lab) startGarbageCollector() {
	l.t.Helper()
	file, err := l.member.server.AddUser(envtest.User{Name: "administrator", Groups: []string{"system:masters"}}, nil)
	must(l.t, err)
	kubeconfig, err := file.KubeConfig()
	must(l.t, err)
	dir := l.t.TempDir()
	must(l.t, os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600))
	process, err := fleet.Start(l.t.Context(), dir, fleet.Program{
		Name: "kube-controller-manager", Executable: filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--controllers=garbage-collector-controller", "--leader-elect=false",
			"--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
		},
	})
	must(l.t, err)
	l.t.Cleanup(process.Stop)
}

// isPullCluster makes the cluster one that has joined with an agent of its own,
// and the hub one that the command line takes for one.
func (l *lab) isPullCluster() {
	l.t.Helper()
	l.create(&operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "cluster-manager"}})
	system := &corev1.Namespace{}
	must(l.t, l.member.client.Get(l.t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	l.createJoined(map[string]string{clusterv1.AnnotationClusterUID: string(system.UID)})
	l.mayUseWorks(true)
}

// workload is a work with a ConfigMap, and perhaps a claim of a volume.
func workload(i int) *workv1.ManifestWork {
	name := fmt.Sprintf("work-%03d", i)
	manifests := []workv1.Manifest{manifest(name, "1")}
	if i%volumeEvery == 0 {
		manifests = append(manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"namespace":"default","name":%q},`+
				`"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`, name)}})
	}
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name},
		Spec:       workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: manifests}},
	}
}

// delivery returns the objects of works with their UIDs, and whether they are
// being deleted.
func (l *lab) delivery() map[string]string {
	l.t.Helper()
	found := map[string]string{}
	for _, kind := range []string{"ConfigMap", "PersistentVolumeClaim"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		must(l.t, l.member.client.List(l.t.Context(), list, client.InNamespace("default"), client.MatchingLabels{workv1.LabelManaged: "true"}))
		for _, item := range list.Items {
			found[kind+" "+item.Name] = string(item.UID)
			if item.DeletionTimestamp != nil {
				found[kind+" "+item.Name] += " being deleted"
			}
		}
	}
	return found
}

// join runs "capstan join" over a long way to the member, and returns what it
// says.
func (l *lab) join() string {
	l.t.Helper()
	far := farAway(l.t, l.member.config.Host, oneWay)
	member, hub := l.kubeconfig(l.member), l.kubeconfig(l.hub)
	config, err := clientcmd.LoadFromFile(member)
	must(l.t, err)
	for _, entry := range config.Clusters {
		entry.Server = far
	}
	must(l.t, clientcmd.WriteToFile(*config, member))
	var out bytes.Buffer
	code := cli.RunCommandLine(l.t.Context(), cli.CommandLine{
		As: "capstan", Args: []string{"join", cluster, "--kubeconfig", hub, "--cluster-kubeconfig", member},
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Clock: clock.RealClock{},
	})
	if code != exit.OK {
		l.t.Fatalf("exit code %d:\n%s", code, &out)
	}
	return out.String()
}

// kubeconfig returns a file with the kubeconfig of an administrator.
func (l *lab) kubeconfig(s side) string {
	l.t.Helper()
	user, err := s.server.AddUser(envtest.User{Name: "administrator", Groups: []string{"system:masters"}}, nil)
	must(l.t, err)
	text, err := user.KubeConfig()
	must(l.t, err)
	file := filepath.Join(l.t.TempDir(), "kubeconfig")
	must(l.t, os.WriteFile(file, text, 0o600))
	return file
}

// deleteKlusterlet does what operators do when a Klusterlet is deleted, OCM's as
// well: they delete the AppliedManifestWorks that have its UID. It waits until
// garbage has been collected.
func (l *lab) deleteKlusterlet() {
	l.t.Helper()
	records := &workv1.AppliedManifestWorkList{}
	must(l.t, l.member.client.List(l.t.Context(), records))
	for i := range records.Items {
		if record := &records.Items[i]; record.Spec.AgentID == klusterlet {
			l.release(record)
		}
	}
	l.collectGarbage()
}

// collectGarbage waits until what has no owner any more is gone: it makes something
// of that kind, which is collected last.
func (l *lab) collectGarbage() {
	l.t.Helper()
	ctx := l.t.Context()
	last := &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "of-another-hub", Finalizers: []string{workv1.FinalizerAppliedManifestWorkCleanup}},
		Spec:       workv1.AppliedManifestWorkSpec{HubHash: "of-another-hub", AgentID: klusterlet, ManifestWorkName: "w"},
	}
	must(l.t, l.member.client.Create(ctx, last))
	garbage := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "garbage", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: workv1.GroupVersion.String(), Kind: workv1.KindAppliedManifestWork, Name: last.Name, UID: last.UID,
	}}}}
	must(l.t, l.member.client.Create(ctx, garbage))
	l.release(last)
	l.eventually("garbage to be collected", func(ctx context.Context) string {
		if err := l.member.client.Get(ctx, client.ObjectKeyFromObject(garbage), garbage); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there: %v", err)
		}
		return ""
	})
}

// release deletes a record without its agent.
func (l *lab) release(record *workv1.AppliedManifestWork) {
	l.t.Helper()
	must(l.t, client.IgnoreNotFound(l.member.client.Delete(l.t.Context(), record, client.PropagationPolicy(metav1.DeletePropagationBackground))))
	before := record.DeepCopy()
	controllerutil.RemoveFinalizer(record, workv1.FinalizerAppliedManifestWorkCleanup)
	must(l.t, client.IgnoreNotFound(l.member.client.Patch(l.t.Context(), record, client.MergeFrom(before))))
}
