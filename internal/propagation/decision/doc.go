// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decision decides what becomes of an object of the hub on its way to
// clusters, and why: whether a policy is applied to it, whether its clusters are
// chosen now, and which of them get changes.
//
//	DecideClaim       is it sent at all, and by a policy that can be applied?
//	DecideActivation  does the policy wait for a change of the object?
//	DecideDemand      what is its binding to ask for?
//	DecideSchedule    are the clusters of the binding chosen now?
//	DecideDispatch    which clusters get no changes for now?
//
// The hub acts on these decisions, each as soon as it has the facts for it; plan,
// explain and rebalance of capstan tell of them. Each decision has a Reason, whose
// texts are all in one file.
//
// Which policy is to claim an object is decided in claims, which clusters are chosen
// in scheduling/binding, and what each of them gets in deliver.
//
// The package is pure.
package decision
