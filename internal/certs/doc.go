// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs keeps the serving certificates of a hub valid: its own signer,
// the certificates it signs, and the CA bundle for clients.
//
// Nothing that verifies may ever meet a certificate of a signer that it does
// not know yet. Therefore a new signer is first only added to the bundle, and
// signs nothing until every client has the bundle; and an old signer stays in
// the bundle until it expires, long after the last certificate it signed. What
// is to be done follows from what is there (Decide, which is pure); Rotator
// reads and writes it.
package certs
