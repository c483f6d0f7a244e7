// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package throttle decides when what the agent reports about a work may be written to the
// hub. etcd stores a work whole for each report, manifests included, and what it overwrites
// stays until it is compacted: so bytes are limited, of each work and of all works of a
// cluster, and not the number of reports.
//
// It writes nothing, and does not know what is reported. How often the objects of a work
// are read is for package observe.
package throttle
