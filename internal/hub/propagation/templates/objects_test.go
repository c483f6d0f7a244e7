// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// TestOnlyWhatIsNotFoundInACacheIsReadLive asks for an object that is known in a
// version, of a server whose cache has it, lags behind or does not have it.
func TestOnlyWhatIsNotFoundInACacheIsReadLive(t *testing.T) {
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	gone := apierrors.NewNotFound(keyOf("a").Kind.GroupVersion().WithResource(resource.Resource).GroupResource(), "a")
	known := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "20"}}
	for name, test := range map[string]struct {
		known        *metav1.PartialObjectMetadata
		cache, live  error
		asked        []string // resourceVersions
		wantNotFound bool
	}{
		"the cache has it":          {known: known, asked: []string{"20"}},
		"the cache lags behind":     {known: known, cache: apierrors.NewTimeoutError("too large resource version", 1), asked: []string{"20", ""}},
		"the cache has it no more":  {known: known, cache: gone, live: gone, asked: []string{"20", ""}, wantNotFound: true},
		"no version of it is known": {asked: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(keyOf("a").Kind, meta.RESTScopeNamespace)
			client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			var asked []string
			client.PrependReactor("get", resource.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
				get, _ := action.(clienttesting.GetActionImpl)
				asked = append(asked, get.GetOptions.ResourceVersion)
				if get.GetOptions.ResourceVersion == "" {
					return true, objectOf("a", "1", "30", "live"), test.live
				}
				return true, objectOf("a", "1", "20", "cached"), test.cache
			})
			objects := HubObjects{Client: client, Mapper: mapper, Contents: NewContentCache(clock.RealClock{})}
			object, err := objects.GetSince(t.Context(), keyOf("a"), test.known)
			if apierrors.IsNotFound(err) != test.wantNotFound || err == nil && object.GetUID() != "1" || err != nil && !apierrors.IsNotFound(errors.Unwrap(err)) {
				t.Errorf("the object is %v, %v", object, err)
			}
			if !slices.Equal(asked, test.asked) {
				t.Errorf("the server was asked for %q, want %q", asked, test.asked)
			}
			if again, err := objects.GetSince(t.Context(), keyOf("a"), known); test.live == nil && (err != nil || again == nil || len(asked) != len(test.asked)) {
				t.Error("what was read is not remembered")
			}
		})
	}
}
