// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi describes what the aggregated API server serves. Server-side
// apply and "kubectl explain" rely on it.
package openapi
