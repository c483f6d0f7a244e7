// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dial connects to the API server of a member from the hub: which
// address, through which proxy, with which certificates and token, and with
// which limits on responses.
//
// Where to dial and what is answered are said by others. So the AddressGuard looks at
// each address right before it is dialled, after names were resolved, and a
// Transport leads to one host only, and follows no redirect: what was asked for
// decides how much of the answer is read.
//
// It does not decide when to dial or what to do with an answer: it knows neither
// controllers nor caches nor works, and reports no condition.
package dial
