// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demand determines what an object of the hub and the policy that claims it ask
// of the binding of the object, and when.
//
// The package is pure.
package demand
