// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const (
	// textsMax is how many texts are remembered at a time, and textBytesMax how
	// long they are at most.
	textsMax     = 1024
	textBytesMax = 256
)

// compactor makes cached objects small. Decoding makes a copy of each text and
// reserves more room in lists than they need; with a thousand works nearly all
// of their texts are the same few.
type compactor struct {
	mu    sync.Mutex
	texts map[string]string
}

func newCompactor() *compactor { return &compactor{texts: map[string]string{}} }

// work makes a ManifestWork small. It is a transform of a cache.
func (c *compactor) work(obj any) (any, error) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return obj, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meta(&work.ObjectMeta)
	work.Spec.Workload.Manifests = slices.Clone(work.Spec.Workload.Manifests)
	work.Status.Conditions = c.conditions(work.Status.Conditions)
	manifests := slices.Clone(work.Status.ResourceStatus.Manifests)
	for i := range manifests {
		m := &manifests[i]
		c.share(&m.ResourceMeta.Group, &m.ResourceMeta.Version, &m.ResourceMeta.Kind, &m.ResourceMeta.Resource, &m.ResourceMeta.Namespace)
		m.Conditions = c.conditions(m.Conditions)
	}
	work.Status.ResourceStatus.Manifests = manifests
	return work, nil
}

// record makes an AppliedManifestWork small. It is a transform of a cache.
func (c *compactor) record(obj any) (any, error) {
	record, ok := obj.(*workv1.AppliedManifestWork)
	if !ok {
		return obj, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meta(&record.ObjectMeta)
	c.share(&record.Spec.HubHash, &record.Spec.AgentID)
	if strings.HasSuffix(record.Name, record.Spec.ManifestWorkName) {
		record.Spec.ManifestWorkName = record.Name[len(record.Name)-len(record.Spec.ManifestWorkName):]
	}
	resources := slices.Clone(record.Status.AppliedResources)
	for i := range resources {
		r := &resources[i]
		c.share(&r.Group, &r.Version, &r.Resource, &r.Namespace)
	}
	record.Status.AppliedResources = resources
	return record, nil
}

func (c *compactor) meta(meta *metav1.ObjectMeta) {
	meta.ManagedFields = nil
	c.share(&meta.Namespace)
	meta.Finalizers = slices.Clone(meta.Finalizers)
	for i := range meta.Finalizers {
		c.share(&meta.Finalizers[i])
	}
	for _, texts := range []map[string]string{meta.Labels, meta.Annotations} {
		for key, value := range texts {
			c.share(&value)
			texts[key] = value
		}
	}
}

func (c *compactor) conditions(list []metav1.Condition) []metav1.Condition {
	list = slices.Clone(list)
	for i := range list {
		c.share(&list[i].Type, &list[i].Reason, &list[i].Message)
		status := string(list[i].Status)
		c.share(&status)
		list[i].Status = metav1.ConditionStatus(status)
	}
	return list
}

// share replaces texts by copies that others use already.
func (c *compactor) share(texts ...*string) {
	for _, text := range texts {
		if len(*text) == 0 || len(*text) > textBytesMax {
			continue
		}
		known, ok := c.texts[*text]
		if !ok {
			if len(c.texts) == textsMax { // names of their own, perhaps; the usual ones come again soon
				clear(c.texts)
			}
			known = *text
			c.texts[known] = known
		}
		*text = known
	}
}
