// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selector decides which objects the resourceSelectors of a policy of
// the Karmada API select, and how exactly. Policies that propagate objects and
// policies that change them select in the same way.
//
// The package is pure: it has no client, no clock and no logger.
package selector
