// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deepcopy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

func TestACopyIsTheSameAndSharesNothing(t *testing.T) {
	var object client.Object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"a": "b"}}}
	copied := deepcopy.CopyObject(object)
	if diff := cmp.Diff(object, copied); diff != "" {
		t.Errorf("the copy is another object (-is +copy):\n%s", diff)
	}
	copied.GetLabels()["a"] = "c"
	if got := object.GetLabels()["a"]; got != "b" {
		t.Errorf("label a of the object became %q with that of its copy", got)
	}
}
