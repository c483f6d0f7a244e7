// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package override changes objects on their way to clusters, as
// ClusterOverridePolicies and OverridePolicies of the Karmada API say.
//
// Select finds the policies that are about an object, and ApplyToObject makes what one
// cluster gets. An override cannot turn an object into another one: whoever may
// write policies in a namespace does not reach objects elsewhere by them.
//
// The package is pure: it has no client, no clock and no logger.
package override
