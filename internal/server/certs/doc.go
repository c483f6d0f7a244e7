// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs keeps the certificates of a hub valid: signers, the certificates
// of servers and clients that they sign, and the bundles by which others verify
// them.
//
// Nothing that verifies may ever meet a certificate of a signer that it does
// not know yet. Therefore a new signer is first only added to the bundle, and
// signs nothing until every client has the bundle; and an old signer stays in
// the bundle until it expires, long after the last certificate it signed. Who
// asks for another signer before its time (Replacement) says when it may sign,
// and when the old one goes. What is to be done follows from what is there (PlanRotation, which is pure); Rotator
// reads and writes it.
package certs
