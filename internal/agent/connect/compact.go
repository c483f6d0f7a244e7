// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/packed"
)

const (
	// textsMax is how many texts are remembered at a time, and textBytesMax how
	// long they are at most.
	textsMax     = 1024
	textBytesMax = 256
	// mapsMax and mapBytesMax are the same of labels and annotations.
	mapsMax     = 64
	mapBytesMax = 1024
)

// compactor makes cached objects small: their content is packed, and what all
// of them have, such as a finalizer, is there once. Decoding makes a copy of it
// for each.
type compactor struct {
	packer *packed.Packer

	mu    sync.Mutex
	texts map[string]string
	maps  map[string]map[string]string // labels and annotations, by what is in them
}

func newCompactor() (*compactor, error) {
	packer, err := packed.New()
	if err != nil {
		return nil, fmt.Errorf("making what packs cached objects: %w", err)
	}
	return &compactor{packer: packer, texts: map[string]string{}, maps: map[string]map[string]string{}}, nil
}

// work makes a ManifestWork small. It is a transform of a cache.
func (c *compactor) work(obj any) (any, error) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return obj, nil
	}
	c.meta(&work.ObjectMeta)
	if err := c.packer.Work(work); err != nil {
		return nil, fmt.Errorf("making a cached work small: %w", err)
	}
	return work, nil
}

// record makes an AppliedManifestWork small. It is a transform of a cache.
func (c *compactor) record(obj any) (any, error) {
	record, ok := obj.(*workv1.AppliedManifestWork)
	if !ok {
		return obj, nil
	}
	c.meta(&record.ObjectMeta)
	c.mu.Lock()
	c.share(&record.Spec.HubHash, &record.Spec.AgentID)
	c.mu.Unlock()
	if strings.HasSuffix(record.Name, record.Spec.ManifestWorkName) {
		record.Spec.ManifestWorkName = record.Name[len(record.Name)-len(record.Spec.ManifestWorkName):]
	}
	if err := c.packer.Record(record); err != nil {
		return nil, fmt.Errorf("making a cached record small: %w", err)
	}
	return record, nil
}

func (c *compactor) meta(meta *metav1.ObjectMeta) {
	c.mu.Lock()
	defer c.mu.Unlock()
	meta.ManagedFields = nil
	c.share(&meta.Namespace)
	meta.Finalizers = slices.Clone(meta.Finalizers)
	for i := range meta.Finalizers {
		c.share(&meta.Finalizers[i])
	}
	meta.Labels, meta.Annotations = c.shared(meta.Labels), c.shared(meta.Annotations)
}

// shared returns a map with the same content that others have, too. A map
// takes 300 bytes for its first entry.
func (c *compactor) shared(texts map[string]string) map[string]string {
	var content strings.Builder
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&content, "%q%q", key, texts[key])
	}
	if content.Len() == 0 || content.Len() > mapBytesMax {
		return texts
	}
	known, ok := c.maps[content.String()]
	if !ok {
		if len(c.maps) == mapsMax {
			clear(c.maps)
		}
		known = texts
		c.maps[content.String()] = known
	}
	return known
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
