// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// WrapMapper returns a mapper whose RESTMapping asks the given one only about kinds that
// are served, or were: one that looks for what it does not know would do so for each
// kind that nobody serves. All else is as in the given one.
func (k *KindCache) WrapMapper(of meta.RESTMapper) meta.RESTMapper {
	return &servedMapper{RESTMapper: of, served: k, known: sets.New[schema.GroupVersionKind]()}
}

type servedMapper struct {
	meta.RESTMapper

	served *KindCache

	mu sync.Mutex
	// known are the kinds that the other mapper has found, and thus need no look.
	known sets.Set[schema.GroupVersionKind]
}

// RESTMapping is part of meta.RESTMapper. The error is a meta.NoKindMatchError if the
// kind is served in none of the versions.
func (m *servedMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if err := m.checkServed(kind, versions); err != nil {
		return nil, err
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		for _, version := range versions {
			m.known.Delete(kind.WithVersion(version))
		}
		return nil, err //nolint:wrapcheck // it is asked in the place of the other
	}
	m.known.Insert(mapping.GroupVersionKind)
	return mapping, nil
}

// checkServed returns why a kind cannot be asked about in any of the versions; without
// versions, in any that there is.
func (m *servedMapper) checkServed(kind schema.GroupKind, versions []string) error {
	if len(versions) == 0 {
		serves, err := m.served.ServesKind(kind)
		return noMatch(kind, versions, serves, err)
	}
	var unknown error
	for _, version := range versions {
		of := kind.WithVersion(version)
		if m.isKnownKind(of) {
			return nil
		}
		serves, err := m.served.ServesVersion(of)
		if serves {
			return nil
		}
		if err != nil {
			unknown = err
		}
	}
	return noMatch(kind, versions, false, unknown)
}

func (m *servedMapper) isKnownKind(kind schema.GroupVersionKind) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.Has(kind)
}

func noMatch(kind schema.GroupKind, versions []string, serves bool, err error) error {
	if err == nil && !serves {
		return &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return err
}
