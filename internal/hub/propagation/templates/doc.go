// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package templates watches the objects of the hub that may be sent to
// clusters: their metadata only, and only of kinds that somebody uses. A kind
// whose definition comes later is watched when it comes.
package templates
