// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// A hub that was restored from a snapshot has a work again that the agent has
// let go of: by its UID alone that would be done for ever.
func TestFinishedAsksTheHub(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := workv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	leaving := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster1", Name: "leaving", UID: "one",
		Finalizers: []string{workv1.FinalizerManifestWorkCleanup}, DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)},
	}}
	onHub := func(uid string, finalizers ...string) []k8sruntime.Object {
		found := &metav1.PartialObjectMetadata{ObjectMeta: *leaving.ObjectMeta.DeepCopy()}
		found.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWork"))
		found.UID, found.Finalizers = types.UID(uid), finalizers
		return []k8sruntime.Object{found}
	}
	for name, test := range map[string]struct {
		hub       []k8sruntime.Object
		forbidden bool
		want      bool
	}{
		"the hub lets a cluster go that has no works left": {hub: nil, forbidden: true, want: true},
		"the cache does not know yet that it is gone":      {hub: nil, want: true},
		"the cache does not know yet that we let go of it": {hub: onHub("one", "others.example.com/finalizer"), want: true},
		"another has its name":                             {hub: onHub("two", workv1.FinalizerManifestWorkCleanup), want: true},
		"the hub was restored":                             {hub: onHub("one", workv1.FinalizerManifestWorkCleanup), want: false},
	} {
		t.Run(name, func(t *testing.T) {
			hub := metadatafake.NewSimpleMetadataClient(scheme, test.hub...)
			if test.forbidden {
				hub.PrependReactor("get", "manifestworks", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
					return true, nil, apierrors.NewForbidden(workv1.GroupVersion.WithResource("manifestworks").GroupResource(), leaving.Name, nil)
				})
			}
			works := &HubWorks{
				Namespace: leaving.Namespace, Metadata: hub,
				Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(leaving.DeepCopy()).Build(),
			}
			memory := &WorkMemory{}
			if finished, err := works.IsFinished(t.Context(), leaving, memory); err != nil || finished {
				t.Fatalf("before we let go of it: finished %v, %v", finished, err)
			}
			cached := &workv1.ManifestWork{}
			if err := works.Client.Get(t.Context(), client.ObjectKeyFromObject(leaving), cached); err != nil {
				t.Fatal(err)
			}
			if err := works.FinishWork(t.Context(), cached, memory); err != nil {
				t.Fatal(err)
			}
			if got, err := works.IsFinished(t.Context(), leaving, memory); err != nil || got != test.want {
				t.Errorf("finished is %v, %v, want %v", got, err, test.want)
			}
		})
	}
}
