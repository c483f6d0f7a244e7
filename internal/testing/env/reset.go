// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// resetPasses is how often a server is put back until nothing differs: a request
	// of the test may still be carried out during the first.
	resetPasses = 10
	startPause  = 20 * time.Millisecond

	crdPrefix        = objectsPrefix + "apiextensions.k8s.io/customresourcedefinitions/"
	apiServicePrefix = objectsPrefix + "apiregistration.k8s.io/apiservices/"
)

// baseline is what a server stores when it has started.
type baseline map[string]storedObject

// changes are the keys in which a store differs from a baseline.
type changes struct {
	deleted, restored []string
}

func (c changes) allKeys() []string { return slices.Concat(c.deleted, c.restored) }

// changesSince returns what has changed since the baseline, given the revisions of all keys.
func (b baseline) changesSince(revisions map[string]int64) changes {
	var c changes
	for key := range revisions {
		if _, known := b[key]; !known && !ofServer(key) {
			c.deleted = append(c.deleted, key)
		}
	}
	for key, object := range b {
		if revisions[key] != object.Revision && !ofServer(key) {
			c.restored = append(c.restored, key)
		}
	}
	slices.Sort(c.deleted)
	slices.Sort(c.restored)
	return c
}

// ofServer reports whether the API server itself keeps the object under a key, whatever
// anybody does.
func ofServer(key string) bool {
	for _, prefix := range []string{
		objectsPrefix + "masterleases/", objectsPrefix + "peerserverleases/", objectsPrefix + "leases/kube-system/apiserver-",
		objectsPrefix + "services/endpoints/default/kubernetes", objectsPrefix + "endpointslices/default/kubernetes",
		objectsPrefix + "configmaps/kube-system/kube-apiserver-", objectsPrefix + "configmaps/kube-system/extension-apiserver-authentication",
	} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// awaitBaseline waits until the server has made what it makes on its own when it starts,
// and returns what it stores then.
func (s *testServer) awaitBaseline(ctx context.Context) (baseline, error) {
	keys := []string{
		objectsPrefix + "services/specs/default/kubernetes", objectsPrefix + "endpointslices/default/kubernetes",
		objectsPrefix + "configmaps/kube-system/extension-apiserver-authentication",
	}
	for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		keys = append(keys, objectsPrefix+"namespaces/"+namespace)
	}
	for _, definition := range s.environment.CRDs {
		for _, version := range servedBy(definition) {
			keys = append(keys, apiServicePrefix+version+"."+definition.Spec.Group)
		}
	}
	var all baseline
	var missing string
	err := wait.PollUntilContextTimeout(ctx, startPause, serverPatience, true, func(ctx context.Context) (bool, error) {
		var err error
		if all, err = s.ownStore().listObjects(ctx); err != nil {
			return false, err
		}
		for _, key := range keys {
			if _, there := all[key]; !there {
				missing = key
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s is not there: %w", missing, err)
	}
	return all, nil
}

func servedBy(definition *apiextensionsv1.CustomResourceDefinition) []string {
	var versions []string
	for _, version := range definition.Spec.Versions {
		if version.Served {
			versions = append(versions, version.Name)
		}
	}
	return versions
}

func (s *testServer) ownStore() etcdStore { return storeOf(s.environment) }

// resetStore puts the server back to its baseline. It writes to etcd, past finalizers,
// admission and the controllers of the API server, which learn of it as of any change.
func (s *testServer) resetStore(ctx context.Context) error {
	var left changes
	for range resetPasses {
		revisions, err := s.ownStore().listRevisions(ctx)
		if err != nil {
			return err
		}
		left = s.start.changesSince(revisions)
		if len(left.allKeys()) == 0 {
			return nil
		}
		definitions, err := s.changedDefinitions(ctx, left.allKeys())
		if err != nil {
			return err
		}
		if err := s.ownStore().deleteKeys(ctx, left.deleted); err != nil {
			return err
		}
		for _, key := range left.restored {
			object := s.start[key]
			object.Key = []byte(key)
			if object.Revision, err = s.ownStore().putObject(ctx, object); err != nil {
				return err
			}
			s.start[key] = object
		}
		if err := s.awaitForgotten(ctx, left, definitions); err != nil {
			return err
		}
	}
	return fmt.Errorf("there is always something new, such as %s", left.allKeys()[0])
}
