// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a hub with a member whose agent changes: what both run, and what tests
// of the way from Pull to Push wait for.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// ManyWorks are delivered, each with a ConfigMap, and one in VolumeEvery with a
	// PersistentVolumeClaim as well.
	ManyWorks   = 300
	VolumeEvery = 10
	// OneWay is half of the time that a request to the member takes longer.
	OneWay = 50 * time.Millisecond
)

// NothingLost expects that all objects are those that there were.
func (l *lab) NothingLost(before map[string]string) {
	l.t.Helper()
	after, lost := l.deliveredObjects(l.t.Context()), 0
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

// StartGarbageCollector runs that of Kubernetes in the member.
func (l *lab) StartGarbageCollector() {
	l.t.Helper()
	file, err := l.Member.server.AddUser(envtest.User{Name: "administrator", Groups: []string{"system:masters"}}, nil)
	expect.NoError(l.t, err)
	kubeconfig, err := file.KubeConfig()
	expect.NoError(l.t, err)
	dir := l.t.TempDir()
	expect.NoError(l.t, os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600))
	process, err := fleet.Start(l.t.Context(), dir, fleet.Program{
		Name: "kube-controller-manager", Executable: filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + filepath.Join(dir, "kubeconfig"), "--controllers=garbage-collector-controller", "--leader-elect=false",
			"--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000",
		},
	})
	expect.NoError(l.t, err)
	l.t.Cleanup(process.Stop)
}

// IsPullCluster makes the cluster one that has joined with an agent of its own,
// and the hub one that the command line takes for one.
func (l *lab) IsPullCluster() {
	l.t.Helper()
	l.CreateOnHub(&operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Name: "cluster-manager"}})
	system := &corev1.Namespace{}
	expect.NoError(l.t, l.Member.Client.Get(l.t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system))
	l.CreateJoined(map[string]string{clusterv1.AnnotationClusterUID: string(system.UID)})
	l.MayUseWorks(true)
}

// AllDelivered waits until all objects of the ManyWorks are there, and returns them as
// deliveredObjects does. An agent writes the record of a work before its objects.
func (l *lab) AllDelivered() map[string]string {
	l.t.Helper()
	var objects map[string]string
	l.Eventually("all objects of the works", func(ctx context.Context) string {
		objects = l.deliveredObjects(ctx)
		if want := ManyWorks + ManyWorks/VolumeEvery; len(objects) != want {
			return fmt.Sprintf("%d are there, want %d", len(objects), want)
		}
		return ""
	})
	return objects
}

// deliveredObjects returns the objects of works with their UIDs, and whether they are
// being deleted.
func (l *lab) deliveredObjects(ctx context.Context) map[string]string {
	l.t.Helper()
	found := map[string]string{}
	for _, kind := range []string{"ConfigMap", "PersistentVolumeClaim"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		expect.NoError(l.t, l.Member.Client.List(ctx, list, client.InNamespace("default"), client.MatchingLabels{workv1.LabelManaged: "true"}))
		for _, item := range list.Items {
			found[kind+" "+item.Name] = string(item.UID)
			if item.DeletionTimestamp != nil {
				found[kind+" "+item.Name] += " being deleted"
			}
		}
	}
	return found
}

// JoinAsPush runs "capstan join" over a long way to the member, and returns what it
// says.
func (l *lab) JoinAsPush() string {
	l.t.Helper()
	far := FarAway(l.t, l.Member.Config.Host, OneWay)
	member, hub := l.WriteKubeconfig(l.Member), l.WriteKubeconfig(l.Hub)
	config, err := clientcmd.LoadFromFile(member)
	expect.NoError(l.t, err)
	for _, entry := range config.Clusters {
		entry.Server = far
	}
	expect.NoError(l.t, clientcmd.WriteToFile(*config, member))
	var out bytes.Buffer
	code := cli.RunCommandLine(l.t.Context(), cli.CommandLine{
		As: "capstan", Args: []string{"join", Cluster, "--kubeconfig", hub, "--cluster-kubeconfig", member},
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Clock: clock.RealClock{},
	})
	if code != exit.OK {
		l.t.Fatalf("exit code %d:\n%s", code, &out)
	}
	return out.String()
}

// WriteKubeconfig returns a file with the kubeconfig of an administrator.
func (l *lab) WriteKubeconfig(s side) string {
	l.t.Helper()
	user, err := s.server.AddUser(envtest.User{Name: "administrator", Groups: []string{"system:masters"}}, nil)
	expect.NoError(l.t, err)
	text, err := user.KubeConfig()
	expect.NoError(l.t, err)
	file := filepath.Join(l.t.TempDir(), "kubeconfig")
	expect.NoError(l.t, os.WriteFile(file, text, 0o600))
	return file
}

// DeleteKlusterlet does what operators do when a Klusterlet is deleted, OCM's as
// well: they delete the AppliedManifestWorks that have its UID. It waits until
// garbage has been collected.
func (l *lab) DeleteKlusterlet() {
	l.t.Helper()
	records := &workv1.AppliedManifestWorkList{}
	expect.NoError(l.t, l.Member.Client.List(l.t.Context(), records))
	for i := range records.Items {
		if record := &records.Items[i]; record.Spec.AgentID == Klusterlet {
			l.ReleaseRecord(record)
		}
	}
	l.CollectGarbage()
}

// CollectGarbage waits until what has no owner any more is gone: it makes something
// of that kind, which is collected last.
func (l *lab) CollectGarbage() {
	l.t.Helper()
	ctx := l.t.Context()
	last := &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "of-another-hub", Finalizers: []string{workv1.FinalizerAppliedManifestWorkCleanup}},
		Spec:       workv1.AppliedManifestWorkSpec{HubHash: "of-another-hub", AgentID: Klusterlet, ManifestWorkName: "w"},
	}
	expect.NoError(l.t, l.Member.Client.Create(ctx, last))
	garbage := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "garbage", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: workv1.GroupVersion.String(), Kind: workv1.KindAppliedManifestWork, Name: last.Name, UID: last.UID,
	}}}}
	expect.NoError(l.t, l.Member.Client.Create(ctx, garbage))
	l.ReleaseRecord(last)
	l.Eventually("garbage to be collected", func(ctx context.Context) string {
		if err := l.Member.Client.Get(ctx, client.ObjectKeyFromObject(garbage), garbage); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there: %v", err)
		}
		return ""
	})
}

// ReleaseRecord deletes a record without its agent.
func (l *lab) ReleaseRecord(record *workv1.AppliedManifestWork) {
	l.t.Helper()
	expect.NoError(l.t, client.IgnoreNotFound(l.Member.Client.Delete(l.t.Context(), record, client.PropagationPolicy(metav1.DeletePropagationBackground))))
	before := record.DeepCopy()
	controllerutil.RemoveFinalizer(record, workv1.FinalizerAppliedManifestWorkCleanup)
	expect.NoError(l.t, client.IgnoreNotFound(l.Member.Client.Patch(l.t.Context(), record, client.MergeFrom(before))))
}
