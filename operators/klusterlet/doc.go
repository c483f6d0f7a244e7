// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package klusterlet is the operator that installs the agents on a member,
// tells how far the member is with joining its hub, and removes everything
// again.
//
// Controller reconciles Klusterlets; what it does stands in its phases, one
// file each. Hosted agents are installed by the same phases, which then have two
// sites: the management cluster, where the operator and the agents run, and the
// managed cluster, where the agents work. It needs nothing from the hub: whether the hub lets the agents in
// is found out by package hubprobe, whose results it reads.
package klusterlet
