// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestAnObjectWithoutRoomForItsDeletionGoes: an API server says the same of a real one in
// TestAFullWorkDoesNotKeepItsCluster.
func TestAnObjectWithoutRoomForItsDeletionGoes(t *testing.T) {
	t.Parallel()
	const own, others = "example.com/own", "example.com/others"
	full := errors.New("etcdserver: request is too large")
	for name, c := range map[string]struct {
		finalizers, kept []string
		full             bool
		// left are the finalizers with which it stays, if it does.
		left []string
		want func(error) bool
	}{
		"one without finalizers":           {},
		"one that waits":                   {finalizers: []string{own}, left: []string{own}},
		"one without room":                 {finalizers: []string{own}, full: true},
		"one that others are waited for":   {finalizers: []string{own, others}, kept: []string{others}, full: true, left: []string{others}, want: IsTooLarge},
		"one that somebody has made again": {finalizers: []string{own}, left: []string{own}, want: apierrors.IsConflict},
	} {
		stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "1", Finalizers: c.finalizers}}
		hub := fake.NewClientBuilder().WithObjects(stored).WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, hub client.WithWatch, object client.Object, options ...client.DeleteOption) error {
				is := &corev1.ConfigMap{}
				if err := hub.Get(ctx, client.ObjectKeyFromObject(object), is); err != nil {
					return err
				}
				if asked := (&client.DeleteOptions{}).ApplyOptions(options); *asked.Preconditions.UID != is.UID {
					return apierrors.NewConflict(corev1.Resource("configmaps"), is.Name, errors.New("another UID"))
				}
				if c.full && len(is.Finalizers) > 0 {
					return full
				}
				return hub.Delete(ctx, object)
			},
		}).Build()
		given := stored.DeepCopy()
		if c.want != nil && !c.full {
			given.UID = "0"
		}
		err := DeleteObject(t.Context(), hub, given, c.kept)
		if c.want == nil && err != nil || c.want != nil && !c.want(err) {
			t.Errorf("%s: the error is %v", name, err)
		}
		is := &corev1.ConfigMap{}
		err = hub.Get(t.Context(), client.ObjectKeyFromObject(stored), is)
		if gone := len(c.left) == 0; apierrors.IsNotFound(err) != gone || !gone && !slices.Equal(is.Finalizers, c.left) {
			t.Errorf("%s: it is there with finalizers %v (%v), want %v", name, is.Finalizers, err, c.left)
		}
	}
}
