// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forgotten keeps what a hub that was restored from a backup forgot:
// records on the member, and with them objects, whose ManifestWorks are missing
// though nobody deleted them. It reports them in the condition WorksMissing of the
// ManagedCluster, until somebody confirms that they may go, or creates the works
// again.
//
// Which versions the hub forgot is in an annotation of the ManagedCluster (package
// restored). The agent asks the hub for it each time before it lets go of
// something: what is deleted does not come back, a cache may be behind a hub that was
// restored a moment ago, and works vanish rarely. Where many records want to know at a
// time, they share an answer. If the hub does not answer, or
// has no such ManagedCluster, nothing is deleted.
package forgotten
