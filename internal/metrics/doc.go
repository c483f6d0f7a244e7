// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics serves the metrics of a component over HTTPS to authorized
// readers, and contains the metrics that all components share.
//
// Who asks is found out with a TokenReview and whether it may with a
// SubjectAccessReview, both with client-go alone: linking the API server's
// libraries for it would double the size of an agent. The package defines no
// metrics of a concern; those stand with the concern.
package metrics
