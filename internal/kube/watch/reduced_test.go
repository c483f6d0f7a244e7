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
	"sigs.k8s.io/controller-runtime/pkg/client"
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
