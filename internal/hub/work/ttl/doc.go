// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ttl deletes completed ManifestWorks after
// deleteOption.ttlSecondsAfterFinished. What happens to the objects on the
// member is up to the agent, as with any deletion.
package ttl
