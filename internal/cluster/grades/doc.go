// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grades sorts nodes into the grades of spec.resourceModels of a
// ClusterConnection, by what they have left for further pods.
//
// A node is of the grade of its poorest resource: a node with much memory and
// hardly any CPU takes small pods only. Every node counts, whatever the others
// have.
package grades
