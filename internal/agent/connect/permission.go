// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"time"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// permissionMin and permissionMax bound the time between two questions to the
	// hub whether a permission has come that should come soon.
	permissionMin = 10 * time.Millisecond
	permissionMax = 30 * time.Second
	// permissionFactor is by how much the time grows: slowly, as every join waits
	// for half of the last one.
	permissionFactor = 1.7
)

// PermissionPause returns how long to wait after so many questions to the hub
// whether a permission has come that should come soon, before the next one.
func PermissionPause(asked int) time.Duration {
	b := backoff.ExponentialBetween(permissionMin, permissionMax)
	b.Factor = permissionFactor
	return backoff.DelayAfter(asked, b)
}
