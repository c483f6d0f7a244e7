// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance proves that a cluster is the same to its users whatever
// mode it is in: one list of what registration and works promise, kept in Pull,
// Push, Hosted and Singleton.
//
// There is one hub, and one member for each mode, with real API servers and the
// controllers of Kubernetes that sign, delete and aggregate. Everything of
// Capstan runs as the built executable, in processes that stand for the pods of
// the Deployments that the operators make: with their arguments, the files of
// their secrets and the tokens of their ServiceAccounts, and so with their
// rights and no others. The results are printed as a table.
package conformance
