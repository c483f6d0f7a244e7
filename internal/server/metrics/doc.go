// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics serves the metrics of a component over HTTPS to authorized
// readers, and contains the metrics that all components share.
//
// It defines no metrics of a concern; those stand with the concern, and use what
// is here if their values are found when they are read. Who may read is for
// internal/server/guard to find out.
package metrics
