// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package teardown

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/paging"
)

// unending always has one more page.
type unending struct{ client.Reader }

// List implements client.Reader.
func (unending) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.SetContinue("more")
	return nil
}

// TestAHubWithoutEndIsNotCountedForever has a hub that somebody else has chosen keep the
// operator of all others: the test would not end.
func TestAHubWithoutEndIsNotCountedForever(t *testing.T) {
	if _, err := CountHubLoss(t.Context(), unending{}); !errors.Is(err, paging.ErrUnending) {
		t.Errorf("got error %v", err)
	}
}
