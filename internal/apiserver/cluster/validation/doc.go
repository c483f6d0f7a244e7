// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation decides whether a Cluster is valid. It is pure.
package validation
