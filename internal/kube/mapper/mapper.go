// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mapper finds the resources of kinds only as these are spelled.
//
// The mappers of client-go know each kind in lower case, too, for users who type
// one. Whoever compares kinds elsewhere must not use these: what is selected as a
// "node" would not be known as a Node.
//
// It does not look anything up itself, and caches nothing.
package mapper

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NewExactMapper returns a mapper whose RESTMapping and RESTMappings know a kind in its own
// spelling alone: any other is a meta.NoKindMatchError. All else is as in the given
// one.
func NewExactMapper(of meta.RESTMapper) meta.RESTMapper { return exactMapper{of} }

type exactMapper struct{ meta.RESTMapper }

// RESTMapping is part of meta.RESTMapper.
func (e exactMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := e.RESTMapper.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is asked in the place of the other
	}
	if err := e.checkSpelling(kind, mapping, versions); err != nil {
		return nil, err
	}
	return mapping, nil
}

// RESTMappings is part of meta.RESTMapper.
func (e exactMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	mappings, err := e.RESTMapper.RESTMappings(kind, versions...)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is asked in the place of the other
	}
	for _, mapping := range mappings {
		if err := e.checkSpelling(kind, mapping, versions); err != nil {
			return nil, err
		}
	}
	return mappings, nil
}

func (e exactMapper) checkSpelling(kind schema.GroupKind, mapping *meta.RESTMapping, versions []string) error {
	spelled, err := e.KindFor(mapping.Resource)
	if err != nil {
		return err //nolint:wrapcheck // it is asked in the place of the other
	}
	if spelled.Kind != kind.Kind {
		return &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return nil
}
