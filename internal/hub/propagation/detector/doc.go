// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package detector finds the policy for each object of the hub, and keeps the
// binding that says so. A binding is born with the clusters that were chosen, so
// that nobody sees one that nothing has been decided about.
package detector
