// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
)

// BeforeError says that a work cannot be created yet: the cluster has not let go of an
// earlier one of the name, which is being deleted. Its member may keep it for ever.
type BeforeError struct {
	// Work is the earlier one, and Since when it was deleted.
	Work  types.NamespacedName
	Since time.Time
}

// Error says what keeps the work, and what to do.
func (e *BeforeError) Error() string {
	return fmt.Sprintf("cluster %q has not released the ManifestWork %q of an earlier object, which was deleted at %s: "+
		"the object is sent when the agent there has removed its finalizer", e.Work.Namespace, e.Work.Name, e.Since.UTC().Format(time.RFC3339))
}

func earlierWorkError(work *workv1.ManifestWork) error {
	return &BeforeError{Work: client.ObjectKeyFromObject(work), Since: work.DeletionTimestamp.Time}
}

// WaitsForEarlier reports whether an error is that an earlier work has not gone.
func WaitsForEarlier(err error) bool {
	waits := (*BeforeError)(nil)
	return errors.As(err, &waits)
}

// LastingErrors returns the errors, by cluster, without those of earlier works that may go any
// moment.
func LastingErrors(failed map[string]error, now time.Time) map[string]error {
	lasting := map[string]error{}
	for cluster, err := range failed {
		waits := (*BeforeError)(nil)
		if !errors.As(err, &waits) || now.Sub(waits.Since) >= sum.KeptAfter {
			lasting[cluster] = err
		}
	}
	return lasting
}
