// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"testing"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

func TestASetHasWhatWasAddedAndNotRemoved(t *testing.T) {
	for _, n := range []int{1, fewObjects, fewObjects + 1, 100} {
		var set objectSet
		for range 2 { // adding twice is adding once
			for i := range n {
				set.addObject(apply.ObjectRef{Name: fmt.Sprint(i)})
			}
		}
		if set.size() != n || len(set.allObjects()) != n {
			t.Fatalf("%d objects are %d", n, set.size())
		}
		set.removeObject(apply.ObjectRef{Name: "nobody"})
		for i := range n {
			set.removeObject(apply.ObjectRef{Name: fmt.Sprint(i)})
			if set.size() != n-i-1 {
				t.Fatalf("of %d objects, %d are left after %d", n, set.size(), i+1)
			}
		}
	}
}
