// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicaset keeps the ManifestWorks of ManifestWorkReplicaSets: one for
// each cluster that their Placements choose. What the Placements have chosen
// (choices.go), how far each cluster is (state.go) and what is to be written
// (plan.go) are pure; the rollout itself is decided by package rollout.
package replicaset
