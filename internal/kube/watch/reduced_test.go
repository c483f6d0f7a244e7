// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/testing/longtext"
)

// pods is a client of a server with pods, which it lists in pages.
type pods struct {
	client.WithWatch
	count, longest int
	selectors      []string
	events         chan watch.Event
}

func podOf(i, version int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), ResourceVersion: strconv.Itoa(version)},
		Spec:       corev1.PodSpec{NodeName: "node"},
	}
}

func (p *pods) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(options)
	p.selectors = append(p.selectors, o.FieldSelector.String())
	from, _ := strconv.Atoi(o.Continue)
	page, _ := list.(*corev1.PodList)
	page.ResourceVersion = "1"
	for i := from; i < min(from+int(o.Limit), p.count); i++ {
		page.Items = append(page.Items, *podOf(i, 1))
	}
	if next := from + len(page.Items); next < p.count {
		page.Continue = strconv.Itoa(next)
	}
	p.longest = max(p.longest, len(page.Items))
	return nil
}

func (p *pods) Watch(_ context.Context, _ client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
	o := (&client.ListOptions{}).ApplyOptions(options)
	p.selectors = append(p.selectors, o.FieldSelector.String())
	return watch.NewProxyWatcher(p.events), nil
}

// TestTextsOfIdentityAreShort: whatever a function keeps of an object, its name and versions are cut,
// also while a list is not complete.
func TestTextsOfIdentityAreShort(t *testing.T) {
	const keptMax = 2*nameBytesMax + 2*versionBytesMax
	keepIdentity := func(pod *corev1.Pod) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	}
	whole := &corev1.Pod{}
	longtext.Fill(whole, 1<<20)
	kept := ReducedSource(&pods{}, &corev1.PodList{}, nil, keepIdentity).reduce(whole)
	if bytes := longtext.Bytes(kept); bytes > keptMax || bytes < keptMax/2 {
		t.Errorf("of a whole object %d bytes are kept, want at most %d", bytes, keptMax)
	}
	metadata := &metav1.PartialObjectMetadata{}
	longtext.Fill(metadata, 1<<20)
	source := ReducedMetadataSource(metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), corev1.SchemeGroupVersion.WithResource("pods"), ObjectSelector{},
		func(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion}}
		})
	if bytes := longtext.Bytes(source.reduce(metadata)); bytes > keptMax {
		t.Errorf("of metadata %d bytes are kept, want at most %d", bytes, keptMax)
	}
	longtext.Fill(metadata, 1<<20)
	if bytes := longtext.Bytes(ReduceToIdentity(metadata)); bytes > keptMax+2*nameBytesMax {
		t.Errorf("of an identity %d bytes are kept, want at most %d", bytes, keptMax+2*nameBytesMax)
	}
}

func TestWholeObjectsAreReducedPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &pods{count: 2*pageSize + 1, events: make(chan watch.Event)}
		reduced := 0
		d := start(t, ReducedSource(server, &corev1.PodList{}, fields.OneTermNotEqualSelector("status.phase", "Failed"),
			func(pod *corev1.Pod) *metav1.PartialObjectMetadata {
				reduced++
				return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "of-" + pod.Name, ResourceVersion: pod.ResourceVersion}}
			}))
		synctest.Wait()
		if reduced != server.count || server.longest != pageSize {
			t.Errorf("%d of %d objects were told, in pages of %d", reduced, server.count, server.longest)
		}
		if d.read(); len(server.selectors) != 4 { // three pages and a watch
			t.Errorf("the server was asked %d times", len(server.selectors))
		}
		for _, selector := range server.selectors {
			if selector != "status.phase!=Failed" {
				t.Errorf("the server was asked for %q", selector)
			}
		}
		server.events <- watch.Event{Type: watch.Modified, Object: podOf(7, 2)}
		server.events <- watch.Event{Type: watch.Bookmark, Object: podOf(0, 3)}
		server.events <- watch.Event{Type: watch.Deleted, Object: podOf(8, 4)}
		d.expect(t, "after two changes", "update of-pod-7", "delete of-pod-8")
	})
}
