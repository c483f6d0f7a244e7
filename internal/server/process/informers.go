// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"net/http"
	"sync/atomic"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informerCheck reports whether the cache of a manager has what its controllers need
// to begin.
type informerCheck struct {
	manager ctrl.Manager
	kinds   []client.Object
	once    atomic.Bool // synced once
}

// checkSynced is the readiness check. A replica that does not lead watches nothing
// and is ready to take over. A cache that has synced counts as synced for good,
// whatever becomes of the API server: what is in it is still there.
func (i *informerCheck) checkSynced(request *http.Request) error {
	if i.once.Load() {
		return nil
	}
	select {
	case <-i.manager.Elected():
	default:
		return nil
	}
	for _, kind := range i.kinds {
		informer, err := i.manager.GetCache().GetInformer(request.Context(), kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		if !informer.HasSynced() {
			return fmt.Errorf("the cache has no list of %T yet", kind)
		}
	}
	i.once.Store(true)
	return nil
}
