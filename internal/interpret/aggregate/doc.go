// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregate sums up what clusters report of the objects that were made
// from one template, so that the template has a status: what of that is the same
// for all kinds. Those who look at a template come to the verdict that they would
// come to on one cluster, and no cluster is forgotten on the way.
package aggregate
