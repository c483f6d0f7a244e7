// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allowed decides which parts of a hub an operator can install with its
// permissions, and what the condition FeaturesLimited says about the rest.
//
// It is pure. What OCM's contract asks for needs no more than the role of OCM's
// chart; what is beyond is a Feature here.
package allowed
