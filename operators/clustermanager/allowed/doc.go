// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allowed decides what of a hub an operator can install with the rights
// that it has, and what the condition FeaturesLimited says of the rest.
//
// It is pure. What OCM's contract asks for needs no more than the role of OCM's
// chart; what is beyond is a Feature here.
package allowed
