// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package staging keeps changes of objects from clusters whose turn has not come
// in a rollout, and makes for these what they have. It knows which rollout an
// object is of, and stores what objects were made of.
package staging
