// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package election elects the leader among the replicas of a component.
//
// It is client-go's election by a Lease, with one thing besides: who waits
// looks whether the pod of the leader is still there. A leader that was killed
// without a word is so replaced within seconds, although its Lease lasts for
// minutes, which keeps the writes few. Who has lost the lead may lead again, in the
// same process. It does not decide how a component
// works with several leaders, and is not for sharding.
package election
