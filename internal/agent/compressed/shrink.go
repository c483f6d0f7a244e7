// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package compressed

import (
	"fmt"
	"maps"
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
	// mapsMax and mapBytesMax are the same of labels and annotations.
	mapsMax     = 64
	mapBytesMax = 1024
	// annotationBytesMax is how many bytes of annotations API servers store.
	annotationBytesMax = 256 << 10
	// annotationsMax is how many annotations a record keeps that agents do not read: those of
	// an entry are several times the bytes that a server tells of it.
	annotationsMax = 16
	// listedBytesMax is how many bytes the list of a record may have: API servers take
	// none that has more. listedBytes are those of an entry as JSON without the texts.
	listedBytesMax = 3 << 20
	listedBytes    = 48
)

// shrinker makes cached objects small: their content is compressed, and what all
// of them have, such as a finalizer, is there once. Decoding makes a copy of it
// for each.
type shrinker struct {
	codec *objectCodec

	mu    sync.Mutex
	texts map[string]string
	maps  map[string]map[string]string // labels and annotations, by what is in them
}

func newShrinker() (*shrinker, error) {
	codec, err := newObjectCodec()
	if err != nil {
		return nil, fmt.Errorf("making what compresses cached objects: %w", err)
	}
	return &shrinker{codec: codec, texts: map[string]string{}, maps: map[string]map[string]string{}}, nil
}

// slimWork makes a ManifestWork small. It is a transform of a cache.
func (s *shrinker) slimWork(obj any) (any, error) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return obj, nil
	}
	s.slimMetadata(&work.ObjectMeta)
	if err := s.codec.compressWork(work); err != nil {
		return nil, fmt.Errorf("making a cached work small: %w", err)
	}
	return work, nil
}

// slimRecord makes an AppliedManifestWork small. It is a transform of a cache.
func (s *shrinker) slimRecord(obj any) (any, error) {
	record, ok := obj.(*workv1.AppliedManifestWork)
	if !ok {
		return obj, nil
	}
	BoundRecord(record)
	s.slimMetadata(&record.ObjectMeta)
	s.mu.Lock()
	s.internTexts(&record.Spec.HubHash, &record.Spec.AgentID)
	s.mu.Unlock()
	if strings.HasSuffix(record.Name, record.Spec.ManifestWorkName) {
		record.Spec.ManifestWorkName = record.Name[len(record.Name)-len(record.Spec.ManifestWorkName):]
	}
	if err := s.codec.compressRecord(record); err != nil {
		return nil, fmt.Errorf("making a cached record small: %w", err)
	}
	return record, nil
}

// BoundRecord drops of a record as a server told it what nobody needs, and what no API
// server stores: what no agent reads of the metadata, annotations if they are too many, and the
// end of a list that is too long.
func BoundRecord(record *workv1.AppliedManifestWork) {
	record.ManagedFields, record.OwnerReferences, record.Labels, record.GenerateName = nil, nil, nil, ""
	boundAnnotations(record)
	listed := 0
	for i := range record.Status.AppliedResources {
		r := &record.Status.AppliedResources[i]
		listed += listedBytes + len(r.Group) + len(r.Version) + len(r.Resource) + len(r.Namespace) + len(r.Name) + len(r.UID)
		if listed > listedBytesMax {
			record.Status.AppliedResources = slices.Clone(record.Status.AppliedResources[:i])
			return
		}
	}
}

// boundAnnotations drops all annotations of a record if they have too many bytes, and those that
// agents do not read if they are too many.
func boundAnnotations(record *workv1.AppliedManifestWork) {
	annotated := 0
	for key, value := range record.Annotations {
		annotated += len(key) + len(value)
	}
	switch {
	case annotated > annotationBytesMax:
		record.Annotations = nil
	case len(record.Annotations) > annotationsMax:
		read := map[string]string{}
		for _, key := range []string{
			workv1.AnnotationResourceTypes, workv1.AnnotationDeleteOption, workv1.AnnotationFirstVersion, workv1.AnnotationClaimedBy, workv1.AnnotationClaimDenied,
		} {
			if value, ok := record.Annotations[key]; ok {
				read[key] = value
			}
		}
		record.Annotations = read
	}
}

func (s *shrinker) slimMetadata(meta *metav1.ObjectMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta.ManagedFields = nil
	s.internTexts(&meta.Namespace)
	meta.Finalizers = slices.Clone(meta.Finalizers)
	for i := range meta.Finalizers {
		s.internTexts(&meta.Finalizers[i])
	}
	meta.Labels, meta.Annotations = s.internMap(meta.Labels), s.internMap(meta.Annotations)
}

// internMap returns a map with the same content that others have, too. A map
// takes 300 bytes for its first entry.
func (s *shrinker) internMap(texts map[string]string) map[string]string {
	var content strings.Builder
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&content, "%q%q", key, texts[key])
	}
	if content.Len() == 0 || content.Len() > mapBytesMax {
		return texts
	}
	known, ok := s.maps[content.String()]
	if !ok {
		if len(s.maps) == mapsMax {
			clear(s.maps)
		}
		known = texts
		s.maps[content.String()] = known
	}
	return known
}

// internTexts replaces texts by copies that others use already.
func (s *shrinker) internTexts(texts ...*string) {
	for _, text := range texts {
		if len(*text) == 0 || len(*text) > textBytesMax {
			continue
		}
		known, ok := s.texts[*text]
		if !ok {
			if len(s.texts) == textsMax { // names of their own, perhaps; the usual ones come again soon
				clear(s.texts)
			}
			known = *text
			s.texts[known] = known
		}
		*text = known
	}
}
